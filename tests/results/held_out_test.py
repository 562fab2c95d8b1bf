"""What is published of held-out cells is what their stored steps and predictions say."""

import json
import sys
import tempfile
import unittest
from pathlib import Path
from statistics import fmean

ROOT = Path(__file__).resolve().parent.parent.parent
for folder in ("results/evidence", "tests/benchmarks"):
    sys.path.insert(0, str(ROOT / folder))
import stored  # noqa: E402
from held_out import computed, make, page, solve  # noqa: E402
from program import ProgramTest  # noqa: E402
from published_runs import published  # noqa: E402

FEWEST_CELLS = 60
MOST_APART = 0.01
STORED = ("calibration", "links")
GRADIENT_BYTES = 4 * (512 * 64 + 512 * 512 + 64)  # of recorded_mlp()


def predictions(folder=page.HERE):
    return {page.key(row["cell"]): row for row in page.stored("predictions.json", folder)}


def ran():
    """The sets whose cells were run."""
    return [of for of in make.SETS.values() if stored.exists(of.folder / "measured.json")]


class HeldOutTest(unittest.TestCase):
    def setUp(self):
        self.measured = page.stored("measured.json")
        self.rows, self.missing = page.rows()

    def test_predictions_are_those_that_were_committed_before_the_run(self):
        for of in ran():
            with self.subTest(of=of.name):
                measured = page.stored("measured.json", of.folder)
                said = measured["predictions"]
                self.assertEqual(page.digest_of(of.folder / "predictions.json"), said["sha256"])
                # Both in UTC, to the second; make.py refuses to measure before.
                committed = said["committed"].replace("+00:00", "Z")
                self.assertLessEqual(committed, measured["context"]["start_time"])

    def test_no_cell_is_left_out(self):
        self.assertGreaterEqual(len(self.rows), FEWEST_CELLS)
        for of in ran():
            with self.subTest(of=of.name):
                rows, missing = page.rows(of.folder)
                self.assertEqual(len(rows) + len(missing), len(predictions(of.folder)))
                errors = [abs(row.error) for row in rows]
                self.assertEqual(errors, sorted(errors, reverse=True))

    def test_no_cell_was_calibrated_on(self):
        for of in ran():
            with self.subTest(of=of.name):
                trials = page.stored("calibration.json", of.folder)["trials"]
                calibrated = {page.key(trial["cell"]) for trial in trials}
                self.assertEqual(len(calibrated), 5 if of.model else 2)
                self.assertFalse(calibrated & set(predictions(of.folder)))

    def test_links_are_what_calibration_cells_tell(self):
        for of in ran():
            if not of.model:
                continue
            with self.subTest(of=of.name):
                run, links = (page.stored(f"{name}.json", of.folder) for name in STORED)
                profile = page.stored("profile.json", of.folder)
                _, constants, again = make.constants_of_computed(of, run, profile)
                for name, value in constants.items():
                    self.assertAlmostEqual(links[name], value, delta=1e-3 * value + 1e-15)
                self.assertAlmostEqual(again["optimizer_s"], profile["optimizer_s"], 9)

    def test_no_cell_of_one_set_is_in_another(self):
        seen = {}
        for of in ran():
            for cell in predictions(of.folder):
                self.assertIsNone(seen.setdefault(cell, None), f"{cell} in {of.name}")
                seen[cell] = of.name

    def test_errors_by_hand(self):
        predicted = predictions()
        summaries = {page.key(c["cell"]): c["step_s"] for c in self.measured["cells"]}
        inside = 0
        for row in self.rows:
            of = page.key(row.cell)
            steps = [
                s for t in self.measured["trials"] if page.key(t["cell"]) == of for s in t["step_s"]
            ]
            self.assertAlmostEqual(row.error, predicted[of]["step_s"] / fmean(steps) - 1, 9)
            # The summary divides what passed from the first step to the last: where ranks are late
            # in turns, that is less than the slowest rank's steps.
            self.assertAlmostEqual(fmean(steps) / summaries[of], 1, delta=MOST_APART)
            low, high = predicted[of]["interval90_s"]
            inside += low <= fmean(steps) <= high
        all_line = page.summary_lines(self.rows)[2]
        self.assertIn(f"| {inside} of {len(self.rows)} |", all_line)

    def test_launches_of_a_cell_are_told_apart(self):
        [said, _] = page.apart_lines(make.SETS["bert_mini"].folder)
        self.assertRegex(said, r"took \d+\.\d % longer than the shortest .*, \d+\.\d % at most")
        self.assertEqual(page.apart_lines(page.HERE), [])  # one launch each

    def test_links_with_eight_ranks_carried_what_they_should(self):
        for of in ran():
            links = page.stored("measured.json", of.folder)["context"]["links"]
            for name, link in links.items():
                share = link["measured_payload_bits_per_s"] / link["payload_bits_per_s"]
                self.assertGreaterEqual(share, 0.95, name)


# As models/record_profile.py writes it with --units Linear: two units, and a norm of the root's.
RECORDED_LAYERS = {"layers.0": [512, 64], "layers.1": [512, 512], "norm": [64]}
HELD = dict.fromkeys(
    ("saved_bytes", "output_bytes", "forward_high_bytes", "backward_high_bytes"), 4
)


def recorded_mlp():
    tensors = {
        name: {"name": f"{name}.weight", "shape": shape} for name, shape in RECORDED_LAYERS.items()
    }
    layers = [
        {"name": name, "forward_s": 4e-3, "backward_s": 9e-3, "parameters": [tensor]}
        for name, tensor in tensors.items()
    ]
    classes = {"": "Mlp", "layers.0": "Linear", "layers.1": "Linear", "norm": "LayerNorm"}
    memory = {
        "recorded_on": "cpu",
        "dtype": "float32",
        "batch_bytes": 4,
        "buffers_bytes": [],
        "parameters": [tensor | {"trains": True} for tensor in tensors.values()],
        "modules": [{"name": name, "class": of, **HELD} for name, of in classes.items()],
        "units": ["Linear"],
        **{key: [] for key in ("forward", "backward_first", "backward_later")},
    }
    return {
        "schema": "gradsync.profile/1",
        "name": "mlp",
        "about": "by hand",
        "source": "held_out_test.py",
        "dtype": "float32",
        "layers": layers,
        "optimizer_s": 2e-3,
        "buffers": [],
        "memory": memory,
    }


def trials_as_predicted(of, profile, constants):
    """Returns the trials of the calibration cells, if all were as it is predicted."""
    with tempfile.TemporaryDirectory() as place:
        links, recorded = Path(place) / "links.json", Path(place) / "profile.json"
        links.write_text(json.dumps(of.links | constants))
        recorded.write_text(json.dumps(profile))
        rows = make.predictions_with(of.calibration, links, of.model, recorded)
    for row in rows:
        steps, wrapper = row["cell"]["accumulation_steps"], row["cell"]["wrapper"]
        copied = GRADIENT_BYTES * make.synchronizations(row["cell"]) * constants["copy_per_byte_s"]
        copied *= wrapper == "ddp"
        backward_s = steps * sum(layer["backward_s"] for layer in profile["layers"])
        phases = {"backward": backward_s, "copy": copied, "optimizer": profile["optimizer_s"]}
        hooks_s = steps * constants["micro_batch_s"] * (wrapper == "local")  # which has none
        yield {
            "cell": row["cell"],
            "step_s": [row["step_s"]],
            "copy_s": copied,
            "phase_s": phases | {"forward": row["compute_s"] - hooks_s - sum(phases.values())},
            "gradient_bytes": GRADIENT_BYTES,
        }


def trial(wrapper, forward_s, backward_s, accumulation_steps=2):
    phases = {"forward": forward_s, "backward": backward_s, "copy": 0.5, "optimizer": 0.25}
    cell = {"wrapper": wrapper, "accumulation_steps": accumulation_steps}
    return {"cell": cell, "phase_s": phases}


class ComputedTest(unittest.TestCase):
    def test_a_profile_is_as_long_as_ranks_side_by_side(self):
        recorded = {
            "name": "two",
            "layers": [
                {"name": "a", "forward_s": 1.0, "backward_s": 1.0},
                {"name": "b", "forward_s": 3.0, "backward_s": 1.0},
            ],
            "optimizer_s": 7.0,
        }
        alone = [trial("local", 10, 5), trial("local", 14, 7)]
        made = computed.side_by_side(recorded, [*alone, trial("ddp", 90, 90)])
        self.assertEqual([layer["forward_s"] for layer in made["layers"]], [1.5, 4.5])
        self.assertEqual([layer["backward_s"] for layer in made["layers"]], [1.5, 1.5])
        self.assertEqual(made["optimizer_s"], 0.25)
        self.assertEqual(recorded["layers"][0]["forward_s"], 1.0)

    def test_a_rank_computes_in_all_phases_but_those_that_wait(self):
        trials = [trial("ddp", 3, 4), trial("ddp", 5, 4)]
        self.assertEqual(computed.compute_s(trials), 4 + 4 + 0.5 + 0.25)

    def test_launches_of_a_cell_stand_together(self):
        trials = [trial("ddp", 1, 1), trial("fsdp", 2, 2), trial("ddp", 3, 3)]
        self.assertEqual(list(page.by_cell(trials).values()), [[trials[0], trials[2]], [trials[1]]])

    def test_constants_are_those_with_which_cells_take_what_they_took(self):
        def steps(constants):
            fill, processor = constants["fill_per_byte_s"], constants["processor_per_byte_s"]
            return [1 + 4e7 * (fill + processor), 2 + 8e7 * fill + 1e7 * processor]

        truth = {"fill_per_byte_s": 3e-10, "processor_per_byte_s": 9e-10}
        guess = {"fill_per_byte_s": 1e-10, "processor_per_byte_s": 5e-10}
        found = solve.solved({"latency_s": 1}, guess, steps, steps(truth))
        self.assertEqual(found["latency_s"], 1)
        for name, value in truth.items():
            self.assertAlmostEqual(found[name] / value, 1, 6)

    def test_constants_of_a_model_that_computes_are_found_again(self):
        truth = {
            "copy_per_byte_s": 2e-10,
            "latency_s": 2e-5,
            "fill_per_byte_s": 3e-10,
            "micro_batch_s": 2e-3,
            "shard_per_byte_s": 4e-10,
            "processor_per_byte_s": 9e-10,
            "collective_s": 3e-4,
        }
        of, profile = make.SETS["mlp"], recorded_mlp()
        trials = list(trials_as_predicted(of, profile, truth))
        self.assertEqual(len(trials), 5)
        found = make.computed_constants(of, trials, profile, truth["latency_s"])
        self.assertEqual(set(found), set(truth))
        for name, value in truth.items():
            self.assertAlmostEqual(found[name] / value, 1, 3, name)

    def test_no_constant_is_less_than_nothing(self):
        found = solve.solved(
            {},
            {"shard_per_byte_s": 2e-10},
            lambda constants: [1 + 1e9 * constants["shard_per_byte_s"]],
            [0.5],
        )
        self.assertEqual(found["shard_per_byte_s"], 0)


PACED_BYTES = 8_664_684  # of the paced model at scale 50


class CalibratedTest(ProgramTest):
    """The host's constants from two published cells, and what that predicts of the others."""

    CALIBRATION = (("t4_2x1", "ddp", "baseline"), ("t4_2x1", "ddp", "no_sync"))

    def predicted(self, run, **constants):
        """Returns (predicted, measured) of each paced cell."""
        links = self.place / "links.json"
        content = {"schema": "gradsync.links/1", "source": "two cells", **constants}
        links.write_text(json.dumps(content))
        outcome = self.call("predict", "step", published(run), "--links", links, "--json")
        self.assertEqual(outcome.status, 0, outcome.err)
        return {
            tuple(row["cell"][axis] for axis in ("topology", "wrapper", "strategy")): (
                row["step_s"],
                row["measured_step_s"],
            )
            for row in json.loads(outcome.out)
            if row["step_s"] is not None
        }

    def copy_per_byte_s(self):
        """As measured: the phase in which the two cells copied, in their five synchronizations."""
        cells = json.loads((published("slowdown_table") / "result.json").read_text())["cells"]
        copied = [
            cell["phase_s"]["copy"]
            for cell in cells
            for topology, _, strategy in self.CALIBRATION
            if (cell["cell"]["topology"], cell["cell"]["strategy"]) == (topology, strategy)
        ]
        self.assertEqual(len(copied), 2)
        return sum(copied) / 5 / PACED_BYTES

    def calibrated(self):
        """Two cells, two constants left."""
        known = {"copy_per_byte_s": self.copy_per_byte_s()}
        measured = self.predicted("slowdown_table", **known)
        return solve.with_host_costs(
            known,
            lambda constants: [
                self.predicted("slowdown_table", **constants)[cell][0] for cell in self.CALIBRATION
            ],
            [measured[cell][1] for cell in self.CALIBRATION],
        )

    def test_cells_that_were_held_out(self):
        constants = self.calibrated()
        for name, value in constants.items():
            self.assertGreater(value, 0, name)
        twin = self.predicted("slowdown_table", **constants)
        held_out = [cell for cell in twin if cell[0] == "t4_1x2"]
        self.assertEqual(len(held_out), 4)
        for cell in held_out:
            self.assertLess(abs(twin[cell][0] / twin[cell][1] - 1), 0.005, cell)
        other = self.predicted("road_to_ddp", **constants)
        most = {"ddp": 0.01, "by_hand_coalesced": 0.02, "by_hand": 0.07}
        self.assertEqual({wrapper for _, wrapper, _ in other}, set(most))
        for cell, (step_s, measured_s) in other.items():
            self.assertLess(abs(step_s / measured_s - 1), most[cell[1]], cell)


if __name__ == "__main__":
    unittest.main(verbosity=2)
