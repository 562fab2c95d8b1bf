"""What is published of the closed form beside SimGrid: second_opinion_test.py PROGRAM.

PROGRAM: print_second_opinion.
"""

import os
import re
import sys
import unittest
from pathlib import Path

os.environ["GRADSYNC_SECOND_OPINION"] = sys.argv.pop(1)
ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "results" / "evidence"))
from second_opinion import make  # noqa: E402

RANKS = {2, 4, 8}


class SecondOpinionTest(unittest.TestCase):
    def test_two_four_and_eight_ranks_on_one_node_and_more(self):
        sizes = [(row.case["nodes"], row.case["ranks_per_node"]) for row in make.rows()]
        self.assertLessEqual(RANKS, {nodes * ranks for nodes, ranks in sizes})
        self.assertLessEqual(RANKS, {ranks for nodes, ranks in sizes if nodes == 1})

    def test_whatever_does_not_agree_is_explained(self):
        """Kinds of what is off by more than the page allows are those that its text names."""
        text = (make.HERE / "README.md").read_text().split(make.BEGIN)[0]
        named = re.findall(r"^- \*\*(.+?)\*\*", text, re.MULTILINE)
        self.assertTrue(named)
        for row in make.rows():
            explained = any(name in row.case["what"] for name in named)
            self.assertTrue(row.agrees or explained, row)
        for name in named:
            off = [row for row in make.rows() if name in row.case["what"] and not row.agrees]
            self.assertTrue(off, name)


if __name__ == "__main__":
    unittest.main(verbosity=2)
