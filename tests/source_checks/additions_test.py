"""What tests/additions.py adds still fits the code as it is, in as few places as it says."""

import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import additions


class AdditionsTest(unittest.TestCase):
    def test_each_fits_the_code_as_it_is(self):
        entries = additions.read_list()
        self.assertGreater(len(entries), 4)
        for entry in entries:
            self.assertEqual(additions.problems(entry), [])

    def test_what_does_not_fit_is_told(self):
        edit = additions.Edit("a.cpp", before="b;", insert="a; ")
        self.assertEqual(edit.problem("b; c;"), "")
        self.assertEqual(edit.done_to("b; c;"), "a; b; c;")
        self.assertIn("2 times in a.cpp", edit.problem("b; b;"))
        self.assertIn("0 times in a.cpp", edit.problem(None))
        whole = additions.Edit("a.cpp", whole=("a", "b"))
        self.assertEqual((whole.problem(None), whole.done_to(None)), ("", "a\nb\n"))
        self.assertIn("is there already", whole.problem("a"))

    def test_one_place_more_than_it_says_is_told(self):
        (first, *_) = additions.read_list()
        fewer = additions.Addition(first.what, first.most - 1, first.edits)
        self.assertEqual(
            additions.problems(fewer),
            [f"{first.what}: {first.most} places, {first.most - 1} at most"],
        )


if __name__ == "__main__":
    unittest.main(verbosity=2)
