"""What is published of advise's first choice is what all ways took that it compares."""

import importlib.util
import json
import sys
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "benchmarks"))
from program import ProgramTest  # noqa: E402

FOLDER = ROOT / "results" / "advise"


def load():
    specification = importlib.util.spec_from_file_location("advise_make", FOLDER / "make.py")
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


class AdviseTest(ProgramTest):
    def setUp(self):
        super().setUp()
        self.make = load()
        self.rows = self.make.rows()

    def test_the_page_is_what_is_stored(self):
        self.assertEqual(self.make.page(), (FOLDER / "README.md").read_text())

    def test_every_way_that_is_compared_ran(self):
        outcome = self.call(
            *("advise", "paced_bert_base_t4=1", "--topology", "t4_2x1", "--global-batch", "4"),
        )
        self.assertEqual(outcome.status, 0, outcome.err)
        self.assertIn(f"{len(self.rows)} ways were compared", " ".join(outcome.out.split()))
        self.assertEqual(len(self.rows), len(json.loads((FOLDER / "predictions.json").read_text())))

    def test_the_first_choice_is_advises_own(self):
        """Of the whole model: bytes and rates are both 50 times those that ran."""
        links = json.loads((ROOT / "results" / "held_out" / "links.json").read_text())
        links["copy_per_byte_s"] /= self.rows[0][0]["scale"]
        file = self.place / "links.json"
        file.write_text(json.dumps(links))
        outcome = self.call(
            *("advise", "paced_bert_base_t4=1", "--topology", "t4_2x1", "--global-batch", "4"),
            *("--links", file, "--json"),
        )
        self.assertEqual(outcome.status, 0, outcome.err)
        advised = json.loads(outcome.out)[0]["cell"]
        first = self.rows[0][0]
        told = ("wrapper", "strategy", *self.make.OPTIONS)
        self.assertEqual(
            {name: advised.get(name) for name in told}, {name: first.get(name) for name in told}
        )


if __name__ == "__main__":
    unittest.main(verbosity=2)
