"""The README's guided tour cannot go stale: its files and symbols exist.

In the tables of README.md, `words` in backquotes that look like paths must be files or folders of
the tree, and every other one must occur in one of the files its row names. So in the evidence of
results/twelve_rules.md.
"""

import re
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
CODE = re.compile(r"`([^`]+)`")
PATH = re.compile(r"[\w.]+(?:/[\w.-]+)*/?")
SUFFIXES = (".h", ".cpp", ".py", ".json", ".md", ".txt")


def tour_rows(readme):
    """Returns the table rows of the section that is read in five minutes."""
    section = re.search(
        r"^#+ [^\n]*five minutes[^\n]*\n(.*?)(?=^#+ |\Z)",
        readme,
        re.MULTILINE | re.DOTALL | re.IGNORECASE,
    )
    lines = section.group(1).splitlines() if section else []
    return [line for line in lines if line.startswith("|") and not re.match(r"\|[\s:|-]+$", line)]


def looks_like_path(word):
    return bool(PATH.fullmatch(word)) and ("/" in word or word.endswith(SUFFIXES))


def text_of(path):
    files = sorted(path.rglob("*")) if path.is_dir() else [path]
    return "\n".join(file.read_text() for file in files if file.suffix in SUFFIXES)


def row_complaints(row, root=ROOT):
    words = CODE.findall(row)
    paths = [word for word in words if looks_like_path(word)]
    complaints = [f"no such file: {path}" for path in paths if not (root / path).exists()]
    if paths and not complaints:
        text = "\n".join(text_of(root / path) for path in paths)
        complaints = [
            f"{word} does not occur in {', '.join(paths)}"
            for word in words
            if not looks_like_path(word) and re.sub(r"\(.*\)$", "", word) not in text
        ]
    return complaints


class ReadmeTest(unittest.TestCase):
    def test_tour_names_what_exists(self):
        readme = ROOT / "README.md"
        if not readme.exists():
            self.skipTest("there is no README.md yet")
        rows = tour_rows(readme.read_text())
        self.assertGreater(len(rows), 3, "README.md has no table to read in five minutes")
        named = [word for row in rows for word in CODE.findall(row) if looks_like_path(word)]
        self.assertGreater(len(named), 3, "the tour names hardly any file")
        complaints = [line for row in rows for line in row_complaints(row)]
        self.assertEqual(complaints, [])


class TwelveRulesTest(unittest.TestCase):
    def test_evidence_exists(self):
        page = (ROOT / "results" / "twelve_rules.md").read_text()
        rows = [line for line in page.splitlines() if re.match(r"\| \d+\. ", line)]
        self.assertEqual([int(row.split()[1][:-1]) for row in rows], list(range(1, 13)))
        for row in rows:
            rule, evidence = row.split("|")[1], row.split("|")[3]
            for part in evidence.split(";"):
                words = CODE.findall(part)
                self.assertTrue(words and looks_like_path(words[0]), f"{rule}: {part}")
                self.assertEqual(row_complaints(part), [], rule)


class RuleTest(unittest.TestCase):
    def test_finds_the_rows(self):
        tour = "## Read it in five minutes\n| q | w |\n|---|---|\n| a | `b` |\n"
        readme = f"# A\n| x |\n{tour}## C\n| y |\n"
        self.assertEqual(tour_rows(readme), ["| q | w |", "| a | `b` |"])
        self.assertEqual(tour_rows("# A\n| x |\n"), [])

    def test_accepts_a_file_and_its_symbol(self):
        row = "| where is time read? | `harness/base/clock.cpp`: `clock_gettime`, `now_ns()` |"
        self.assertEqual(row_complaints(row), [])
        self.assertEqual(row_complaints("| x | `harness/base/`: `sleep_until_ns` |"), [])

    def test_refuses_a_missing_file_and_a_missing_symbol(self):
        self.assertEqual(
            row_complaints("| x | `harness/base/clocks.cpp` |"),
            ["no such file: harness/base/clocks.cpp"],
        )
        self.assertEqual(
            row_complaints("| x | `harness/base/clock.cpp`: `read_sundial` |"),
            ["read_sundial does not occur in harness/base/clock.cpp"],
        )


if __name__ == "__main__":
    unittest.main(verbosity=2)
