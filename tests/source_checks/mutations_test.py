"""The list of mutations cannot go stale: each still fits the code it breaks, and the test that is
to notice it is built from that code and has the case."""

import fnmatch
import importlib.util
import re
import unittest
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
spec = importlib.util.spec_from_file_location("mutations", ROOT / "tests" / "mutations.py")
mutations = importlib.util.module_from_spec(spec)
spec.loader.exec_module(mutations)


@dataclass(frozen=True)
class Registered:
    """A test as a CMakeLists.txt registers it; a variable in a name stands for any text."""

    name: str
    folder: Path
    words: str

    def is_called(self, name):
        program = re.search(r"PROGRAM (\S+)", self.words)
        return fnmatch.fnmatchcase(name, self.name) or bool(program and program[1] == name)

    def has_case(self, case):
        suite, name = next(part for part in case.split("/") if "." in part).split(".")
        head = re.compile(rf"TEST(_F|_P)?\(\s*{suite},\s*{name}\)")
        patterns = re.findall(r"\S+\.cpp", self.words)
        sources = [path for pattern in patterns for path in self.folder.glob(pattern)]
        return any(head.search(source.read_text()) for source in sources)


def registered(command):
    """Yields what the calls of `command` in the files below tests/ register."""
    for path in sorted((ROOT / "tests").rglob("CMakeLists.txt")):
        text = re.sub(r"\$\{\w+\}", "*", path.read_text())
        for words in re.findall(rf"^\s*{command}\(([^)]*)\)", text, re.MULTILINE):
            yield Registered(words.split()[0], path.parent, words)


def named(tests, name):
    return [test for test in tests if test.is_called(name)]


class MutationsTest(unittest.TestCase):
    def test_each_applies_to_the_code_as_it_is(self):
        entries = mutations.read_list()
        self.assertGreater(len(entries), 0)
        for entry in entries:
            with self.subTest(about=entry.about):
                self.assertEqual(entry.problem((ROOT / entry.file).read_text()), "")

    def test_each_case_is_one_of_its_test(self):
        programs = list(registered("gradsync_test"))
        commands = dict(
            re.match(r"NAME (\S+)\s+COMMAND (\S+)", test.words).groups()
            for test in registered("add_test")
        )
        self.assertGreater(len(programs), 0)
        for entry in mutations.read_list():
            if not entry.case:
                continue
            with self.subTest(about=entry.about):
                own = named(programs, commands.get(entry.test, entry.test))
                self.assertTrue(any(program.has_case(entry.case) for program in own))

    def test_what_runs_a_program_has_it_built(self):
        """The script builds the target that has a test's name."""
        tests = list(registered("gradsync_python_test"))
        targets = list(registered("add_custom_target"))
        self.assertGreater(len(tests), 0)
        for entry in mutations.read_list():
            for test in named(tests, entry.test):
                if "$<TARGET_FILE" in test.words:
                    with self.subTest(about=entry.about):
                        self.assertTrue(named(targets, entry.test))

    def test_what_cannot_be_applied_is_told(self):
        entry = mutations.Mutation("sum for mean", "a.cpp", "/ n", "", "a_test")
        self.assertEqual(entry.problem("x = sum / n;"), "")
        self.assertEqual(entry.problem("x = sum;"), "its text occurs 0 times in a.cpp, not once")
        self.assertIn("2 times", entry.problem("x / n; y / n;"))
        self.assertEqual(
            mutations.Mutation("none", "a.cpp", "a", "a", "a_test").problem("a"), "changes nothing"
        )

    def test_a_mutation_is_tried_again_when_its_file_or_entry_changes(self):
        entry = mutations.Mutation("sum for mean", "a.cpp", "/ n", "", "a_test")
        other = mutations.Mutation("sum for mean", "a.cpp", "/ n", "* n", "a_test")
        self.assertEqual(entry.digest("x / n"), entry.digest("x / n"))
        self.assertNotEqual(entry.digest("x / n"), entry.digest("y / n"))
        self.assertNotEqual(entry.digest("x / n"), other.digest("x / n"))


if __name__ == "__main__":
    unittest.main(verbosity=2)
