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

    def advise(self, setup, *options):
        topology = json.loads(
            (ROOT / "benchmarks/topologies" / f"{setup.topology}.json").read_text()
        )
        samples = topology["nodes"] * topology["ranks_per_node"] * setup.accumulation_steps
        outcome = self.call(
            *("advise", "paced_bert_base_t4=1", "--topology", setup.topology),
            *("--global-batch", str(samples), *options),
        )
        self.assertEqual(outcome.status, 0, outcome.err)
        return outcome.out

    def test_the_page_is_what_is_stored(self):
        self.assertEqual(self.make.page(), (FOLDER / "README.md").read_text())

    def test_every_way_that_is_compared_was_predicted(self):
        for setup in self.make.SETUPS.values():
            with self.subTest(setup=setup.name):
                predicted = json.loads((setup.folder / "predictions.json").read_text())
                said = " ".join(self.advise(setup).split())
                self.assertIn(f"{len(predicted)} ways were compared", said)

    def test_every_way_that_was_predicted_ran(self):
        self.assertTrue(self.make.ran())
        for setup in self.make.ran():
            with self.subTest(setup=setup.name):
                predicted = json.loads((setup.folder / "predictions.json").read_text())
                self.assertEqual(len(self.make.rows(setup)), len(predicted))

    def test_predictions_are_those_that_were_committed_before_the_run(self):
        for setup in self.make.ran():
            measured = json.loads(setup.measured_file.read_text())
            said = measured.get("predictions")
            if said is None:  # of the first set-up, which was run before this was kept
                self.assertEqual(setup.name, "t4_2x1")
                continue
            with self.subTest(setup=setup.name):
                predictions = setup.folder / "predictions.json"
                self.assertEqual(self.make.held_out.page.digest_of(predictions), said["sha256"])
                committed = said["committed"].replace("+00:00", "Z")
                self.assertLessEqual(committed, measured["context"]["start_time"])

    def test_the_first_choice_is_advises_own(self):
        """Of the whole model: bytes and rates are both 50 times those that ran."""
        for setup in self.make.SETUPS.values():
            with self.subTest(setup=setup.name):
                predicted = json.loads((setup.folder / "predictions.json").read_text())
                first = min(predicted, key=lambda row: row["step_s"])["cell"]
                links = json.loads(setup.links_file.read_text())
                links["copy_per_byte_s"] /= first["scale"]
                file = self.place / "links.json"
                file.write_text(json.dumps(links))
                advised = json.loads(self.advise(setup, "--links", file, "--json"))[0]["cell"]
                told = ("wrapper", "strategy", *self.make.OPTIONS)
                self.assertEqual(
                    {name: advised.get(name) for name in told},
                    {name: first.get(name) for name in told},
                )


if __name__ == "__main__":
    unittest.main(verbosity=2)
