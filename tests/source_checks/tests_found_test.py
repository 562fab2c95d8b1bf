"""Every source file's test can be found, from the file's name alone.

The test of FOLDER/NAME.cpp is tests/FOLDER/NAME_test.cpp, or a test whose first comment names it
after "Covers:", separated by commas, with a full stop behind the last. So of Python. A test covers
what it calls or runs, directly or by the program, and what would make it fail. A name is a file's
path or the end of it; where several end so, the one below the folder that the test mirrors.
"""

import re
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("benchmarks", "harness", "models", "plot")
SUFFIXES = (".cpp", ".py")
COVERS = re.compile(r"\bCovers: ((?:[\w./]+,\s+(?://\s+)?)*[\w./]+)\.$", re.MULTILINE)
NO_HEAD = re.compile(r"^(?!//)", re.MULTILINE)

# Path -> why no test could tell whether it works.
EXCEPTIONS = {
    "models/examples/bert_mini.py": "an example; record_profile_test.py records models like it",
    "models/examples/mlp.py": "an example; record_profile_test.py records models like it",
}


def files(folder):
    """Returns the paths, from the tree's top, of what is compiled or run below a folder."""
    found = sorted((ROOT / folder).rglob("*"))
    return [path.relative_to(ROOT).as_posix() for path in found if path.suffix in SUFFIXES]


def head_of(text):
    """Returns the first comment of a C++ file, or the docstring of a Python file."""
    if docstring := re.match(r'(?:#[^\n]*\n)*"""(.*?)"""', text, re.DOTALL):
        return docstring[1]
    return text[: NO_HEAD.search(text).start()]


def covered_by(text):
    names = COVERS.search(head_of(text))
    return re.split(r",\s+(?://\s+)?", names[1]) if names else []


def sources_named(name, test, sources):
    """Returns the sources that `name` may mean in `test`: one, where all is well."""
    alike = [source for source in sources if source == name or source.endswith(f"/{name}")]
    mirrored = Path(test).parent.relative_to("tests").as_posix()
    near = [source for source in alike if source.startswith(f"{mirrored}/")]
    return near or alike


def is_mirrored(source, tests):
    stem = Path(source).with_suffix("")
    return any(f"tests/{stem}_test{suffix}" in tests for suffix in SUFFIXES)


def complaints(sources, tests, exceptions):
    """`tests`: path -> text."""
    found, said = {source for source in sources if is_mirrored(source, tests)}, []
    for test, text in tests.items():
        for name in covered_by(text):
            named = sources_named(name, test, sources)
            if len(named) != 1:
                said.append(f"{test}: covers {name}, which is {', '.join(named) or 'no file'}")
            elif named[0] in found and is_mirrored(named[0], tests):
                said.append(f"{test}: covers {named[0]}, whose test is at its own path")
            found.update(named)
    for source in sources:
        if (source in found) == (source in exceptions):
            said.append(
                f"{source}: a test covers it, and it is an exception"
                if source in found
                else f"{source}: no test of this path, and none that covers it"
            )
    return said + [
        f"{path}: an exception, but no file" for path in exceptions.keys() - set(sources)
    ]


class TreeTest(unittest.TestCase):
    def test_every_file_has_its_test(self):
        sources = [source for folder in FOLDERS for source in files(folder)]
        self.assertGreater(len(sources), 300)
        tests = {path: (ROOT / path).read_text() for path in files("tests")}
        tests = {path: text for path, text in tests.items() if Path(path).stem.endswith("_test")}
        self.assertEqual(complaints(sources, tests, EXCEPTIONS), [])


class RuleTest(unittest.TestCase):
    SOURCES = ("harness/gate/page.cpp", "harness/gate/rows.cpp", "harness/watch/page.cpp")

    def complain(self, exceptions=(), **tests):
        paths = {
            f"tests/harness/gate/{name}_test.cpp": f"// First.\n{text}\n\n#include <a>\n"
            for name, text in tests.items()
        }
        return complaints(self.SOURCES, paths, dict.fromkeys(exceptions, "why"))

    def test_a_file_is_found_by_its_path_or_by_who_covers_it(self):
        self.assertEqual(
            self.complain(rows="", golden="// Covers: page.cpp,\n// watch/page.cpp."), []
        )
        self.assertEqual(
            self.complain(rows="", golden="// Covers: page.cpp, harness/watch/page.cpp."), []
        )

    def test_what_nobody_covers_is_named(self):
        (complaint,) = self.complain(rows="", golden="// Covers: page.cpp.")
        self.assertIn("harness/watch/page.cpp: no test", complaint)

    def test_only_the_first_comment_counts(self):
        self.assertEqual(len(self.complain(rows="", golden="\n// Covers: page.cpp.")), 2)

    def test_a_name_that_is_no_file_or_needs_no_telling(self):
        said = "\n".join(self.complain(golden="// Covers: rows.cpp, page.cpp, watch/pages.cpp."))
        self.assertIn("covers watch/pages.cpp, which is no file", said)
        said = self.complain(("harness/watch/page.cpp",), rows="// Covers: page.cpp, rows.cpp.")
        self.assertIn("rows.cpp, whose test is at its own path", "\n".join(said))

    def test_exceptions_are_needed(self):
        watch = "harness/watch/page.cpp"
        self.assertEqual(self.complain((watch,), rows="", golden="// Covers: page.cpp."), [])
        text = "// Covers: page.cpp, watch/page.cpp."
        self.assertIn("an exception", self.complain((watch,), rows="", golden=text)[0])
        self.assertIn("no file", self.complain((watch, "a.cpp"), rows="", golden=text)[-1])

    def test_heads(self):
        self.assertEqual(
            covered_by('#!/usr/bin/env python3\n"""A.\n\nCovers: a.py, b.py.\n"""'),
            ["a.py", "b.py"],
        )
        self.assertEqual(covered_by("// A.\n// Covers: a.cpp.\n#include <b>\n"), ["a.cpp"])
        self.assertEqual(covered_by("#include <b>\n// Covers: a.cpp.\n"), [])


if __name__ == "__main__":
    unittest.main(verbosity=2)
