"""The project's pages cannot go stale: what they name and what they link to exists.

In the tour of harness/README.md, `words` in backquotes that look like paths must be
files or folders of the tree, and every other one must occur in one of the files its row names. So
in the evidence of results/twelve_rules.md. Links lead to files and headings, from README.md to
every page. examples_test.py runs what pages tell to run.
"""

import posixpath
import re
import unittest

from pages import ROOT, pages, without_blocks

CODE = re.compile(r"`([^`]+)`")
PATH = re.compile(r"[\w.]+(?:/[\w.-]+)*/?")
SUFFIXES = (".h", ".cpp", ".py", ".json", ".md", ".txt")
LINK = re.compile(r"\[(?:[^\]`]|`[^`]*`)*\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)
INDENTED = re.compile(r"(?<=\n\n)(?: {4}|\t)\S.*")
README_LINES = 120


def table_rows(text):
    """Returns the rows of tables without their heads."""
    lines = [line for line in text.splitlines() if line.startswith("|")]
    rules = [i for i, line in enumerate(lines) if re.match(r"\|[\s:|-]+$", line)]
    return [line for i, line in enumerate(lines) if i not in rules and i + 1 not in rules]


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


def anchors(page):
    """Returns the names by which GitHub knows a page's headings."""
    headings = (LINK.sub(r"\1", heading) for heading in HEADING.findall(without_blocks(page)))
    return [
        re.sub(r"[^\w\- ]", "", heading).strip().lower().replace(" ", "-") for heading in headings
    ]


def links(path, page):
    """Yields (link, path it leads to, anchor) of the links to files of this tree."""
    for link in LINK.findall(without_blocks(page)):
        if not re.match(r"\w+:", link):
            target, _, anchor = link.partition("#")
            folder = posixpath.dirname(path)
            yield (
                link,
                posixpath.normpath(posixpath.join(folder, target)) if target else path,
                anchor,
            )


def link_complaints(path, texts, root=ROOT):
    complaints = []
    for link, target, anchor in links(path, texts[path]):
        if not (root / target).exists():
            complaints.append(f"{path}: {link} leads to no file")
        elif anchor and anchor not in anchors(texts.get(target, "")):
            complaints.append(f"{path}: {link} leads to no heading")
    return complaints


class TourTest(unittest.TestCase):
    def check(self, rows, least):
        self.assertGreaterEqual(len(rows), least)
        for row in rows:
            named = [word for word in CODE.findall(row) if looks_like_path(word)]
            self.assertTrue(named, f"names no file: {row}")
            self.assertEqual(row_complaints(row), [], row)

    def test_rows_name_what_is_there(self):
        page = pages()["harness/README.md"]
        self.check(table_rows(page[: page.index("## Glossary")]), 60)


class PagesTest(unittest.TestCase):
    def setUp(self):
        self.texts = pages()

    def test_links_lead_somewhere(self):
        for path in self.texts:
            with self.subTest(page=path):
                self.assertEqual(link_complaints(path, self.texts), [])

    def test_every_page_can_be_reached_from_the_first(self):
        reached, left = set(), ["README.md"]
        while left:
            path = left.pop()
            if path in self.texts and path not in reached:
                reached.add(path)
                left += [target for _, target, _ in links(path, self.texts[path])]
        self.assertEqual(sorted(self.texts.keys() - reached), [])

    def test_the_first_page_is_short(self):
        self.assertLessEqual(self.texts["README.md"].count("\n"), README_LINES)

    def test_commands_and_files_stand_between_fences(self):
        for path, text in self.texts.items():
            with self.subTest(page=path):
                self.assertEqual(INDENTED.findall(without_blocks(text)), [])


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
        self.assertEqual(table_rows("## A\n| q | w |\n|---|---|\n| a | `b` |\n"), ["| a | `b` |"])

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

    def test_links(self):
        texts = {"harness/README.md": "# Whose? `a_b` it's\n", "README.md": "# [B](b) c\n"}
        for link, complaint in {
            "#whose-a_b-its": "",
            "../README.md": "",
            "../README.md#b-c": "",
            "stats": "",
            "https://a.b/c": "",
            "../READ.md": "no file",
            "../harness": "",
            "README.md#whose": "no heading",
            "../README.md#b": "no heading",
        }.items():
            with self.subTest(link=link):
                texts["harness/README.md"] = f"# Whose? `a_b` it's\n[`x`]({link})\n"
                found = link_complaints("harness/README.md", texts)
                self.assertEqual(len(found), 1 if complaint else 0, found)
                self.assertIn(complaint, "".join(found))

    def test_a_block_is_no_text(self):
        page = "A:\n\n```sh\n[x](nowhere)\n```\n"
        self.assertEqual(link_complaints("a.md", {"a.md": page}), [])
        self.assertTrue(INDENTED.findall("A:\n\n    benchmarks/run\n"))


if __name__ == "__main__":
    unittest.main(verbosity=2)
