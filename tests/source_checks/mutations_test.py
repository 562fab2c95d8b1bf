"""The list of mutations cannot go stale: each still fits the code it breaks."""

import importlib.util
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
spec = importlib.util.spec_from_file_location("mutations", ROOT / "tests" / "mutations.py")
mutations = importlib.util.module_from_spec(spec)
spec.loader.exec_module(mutations)


class MutationsTest(unittest.TestCase):
    def test_each_applies_to_the_code_as_it_is(self):
        entries = mutations.read_list()
        self.assertGreater(len(entries), 0)
        for entry in entries:
            with self.subTest(about=entry.about):
                self.assertEqual(entry.problem((ROOT / entry.file).read_text()), "")

    def test_what_cannot_be_applied_is_told(self):
        entry = mutations.Mutation("sum for mean", "a.cpp", "/ n", "", "a_test")
        self.assertEqual(entry.problem("x = sum / n;"), "")
        self.assertEqual(entry.problem("x = sum;"), "its text occurs 0 times in a.cpp, not once")
        self.assertIn("2 times", entry.problem("x / n; y / n;"))
        self.assertEqual(
            mutations.Mutation("none", "a.cpp", "a", "a", "a_test").problem("a"), "changes nothing"
        )


if __name__ == "__main__":
    unittest.main(verbosity=2)
