"""What is published of held-out cells is what their stored steps and predictions say."""

import json
import sys
import tempfile
import unittest
from pathlib import Path
from statistics import fmean

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "results" / "held_out"))
import computed  # noqa: E402
import make  # noqa: E402
import page  # noqa: E402
import solve  # noqa: E402

FEWEST_CELLS = 60
MOST_APART = 0.01
STORED = ("calibration", "links")
GRADIENT_BYTES = 4 * (512 * 64 + 512 * 512 + 64)  # of recorded_mlp()


def predictions(folder=page.HERE):
    return {page.key(row["cell"]): row for row in page.stored("predictions.json", folder)}


def ran():
    """The sets whose cells were run."""
    return [of for of in make.SETS.values() if (of.folder / "measured.json").exists()]


def planner_page():
    """Its words, as if on one line."""
    return " ".join((ROOT / "harness" / "predict" / "README.md").read_text().split())


def how_far(rows):
    error = 100 * fmean(abs(row.error) for row in rows)
    return f"{error:.1f} % in the mean, {sum(row.is_covered for row in rows)} in their intervals"


def apart(folder):
    """How much longer the longest launch of a cell took than the shortest."""
    [said, _] = page.apart_lines(folder)
    return said.partition(" took ")[2].partition(" longer")[0]


class HeldOutTest(unittest.TestCase):
    def setUp(self):
        self.measured = page.stored("measured.json")
        self.rows, self.missing = page.rows()

    def test_the_page_is_what_is_stored(self):
        self.assertTrue(ran())
        for of in ran():
            with self.subTest(of=of.name):
                self.assertEqual(make.page_of(of), (of.folder / "README.md").read_text())

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

    def test_what_the_planner_says_of_them(self):
        def mean_error(group):
            return 100 * fmean(abs(row.error) for row in self.rows if group in ("all", row.family))

        inside = sum(row.is_covered for row in self.rows)
        worst = self.rows[0]
        self.assertEqual(worst.cell["bucket_cap_bytes"], 1_000_000)
        said = (
            f"every error: {mean_error('all'):.1f} % in the mean (FSDP {mean_error('FSDP'):.1f} %, "
            f"hybrid sharding {mean_error('HSDP'):.1f} %), {inside} in their 90 % intervals; the "
            f"worst, buckets of 1 MB, is {100 * worst.error:.1f} % too long."
        )
        self.assertIn(said, planner_page())

    def test_what_the_planner_says_of_small_buckets(self):
        rows, _ = page.rows(make.SETS["small_buckets"].folder)
        self.assertLess(rows[0].error, 0)
        said = (
            f"[{len(rows)} of small buckets](../../results/held_out/small_buckets/README.md) were "
            f"predicted: {how_far(rows)}, {-100 * rows[0].error:.1f} % too short at worst."
        )
        self.assertIn(said, planner_page())

    def test_what_the_planner_says_of_a_model_that_computes(self):
        rows, _ = page.rows(make.SETS["bert_mini"].folder)
        said = (
            f"[{len(rows)} cells of a BERT](../../results/held_out/bert_mini/README.md), two "
            f"ranks, DDP and FSDP, from five calibration cells: {how_far(rows)}, "
            f"{100 * abs(rows[0].error):.1f} % off at worst."
        )
        self.assertIn(said, planner_page())

    def test_what_the_planner_says_of_one_whose_steps_are_short(self):
        folder = make.SETS["mlp"].folder
        rows, _ = page.rows(folder)
        self.assertGreater(min(row.error for row in rows), 0)
        said = (
            f"[{len(rows)} of a perceptron](../../results/held_out/mlp/README.md) with steps of "
            f"tens of milliseconds: {how_far(rows)}, "
            f"{100 * rows[0].error:.1f} % too long at worst, and each too long"
        )
        self.assertIn(said, planner_page())
        self.assertIn(
            f"the longest took {apart(folder)} longer than the shortest in the mean.",
            planner_page(),
        )

    def test_what_the_planner_says_of_the_same_with_longer_steps(self):
        folder = make.SETS["mlp_2048"].folder
        rows, _ = page.rows(folder)
        said = (
            f"[The same {len(rows)} with micro-batches four times as "
            f"large](../../results/held_out/mlp_2048/README.md), calibrated over eight launches: "
            f"{how_far(rows)}, {100 * abs(rows[0].error):.1f} % off at worst, launches "
            f"{apart(folder)} apart."
        )
        self.assertIn(said, planner_page())

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
    """What ranks would have measured of the calibration cells, were all as it is predicted."""
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

    def test_every_set_has_a_page_and_plans(self):
        for of in make.SETS.values():
            self.assertTrue((of.folder / "README.md").exists(), of.name)
            for plan in (of.plan, of.calibration):
                self.assertTrue((ROOT / "benchmarks" / "plans" / f"{plan}.json").exists(), plan)


if __name__ == "__main__":
    unittest.main(verbosity=2)
