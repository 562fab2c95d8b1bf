"""The fit of the paced twin: its numbers, its law, and the files written from it.

Covers: published_table.py, twin_files.py.
"""

import contextlib
import dataclasses
import importlib.util
import io
import json
import math
import shutil
import statistics
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
SKIPPED = 77

if not all(importlib.util.find_spec(module) for module in ("numpy", "scipy")):
    print("skipped: this Python has no numpy or no scipy; run harness/setup --tests")
    sys.exit(SKIPPED)

sys.path.insert(0, str(ROOT / "models/profiles"))

import bert_base  # noqa: E402
import fit_t4  # noqa: E402
import twin_files  # noqa: E402
from published_table import FitError, read_cells  # noqa: E402

MIB = 1 << 20
CELLS = read_cells(ROOT / fit_t4.REFERENCE)
TWIN = fit_t4.fit(CELLS)


def run_program(*arguments):
    """Returns (exit status, stdout, stderr)."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = fit_t4.main([str(argument) for argument in arguments])
    return status, out.getvalue(), err.getvalue()


def cell(setup, strategy):
    return next(c for c in CELLS if (c.setup, c.strategy) == (setup, strategy))


class Simulation:
    """A step in small ticks of time, from the profile on disk alone: gradients fall into
    buckets as they arrive; up to two full buckets are on the link, sharing it equally."""

    TICK_S = 2e-5

    def __init__(self, payload_bytes_per_s):
        self.layers = json.loads((ROOT / twin_files.PROFILE).read_text())["layers"]
        self.bytes_per_tick = payload_bytes_per_s * self.TICK_S

    def backward_s(self, synchronized):
        arrivals, now = [], 0.0
        for layer in reversed(self.layers):
            now += layer["backward_s"]
            for parameter in reversed(layer["parameters"]):
                arrivals.append((now, 4 * math.prod(parameter["shape"])))
        return self.drain(arrivals, now) if synchronized else now

    def drain(self, arrivals, backward_end):
        now, filling, limit, full, on_link = 0.0, 0, MIB, [], []
        while arrivals or full or on_link or now < backward_end:
            while arrivals and arrivals[0][0] <= now:
                filling += arrivals.pop(0)[1]
                if filling >= limit or not arrivals:
                    full.append(filling)
                    filling, limit = 0, 25 * MIB
            on_link += [full.pop(0) for _ in range(min(len(full), 2 - len(on_link)))]
            share = self.bytes_per_tick / max(len(on_link), 1)
            on_link = [left - share for left in on_link if left > share]
            now += self.TICK_S
        return now

    def step_s(self, micro_batches, syncs):
        forward_s = sum(layer["forward_s"] for layer in self.layers)
        first_synced = micro_batches - syncs
        return sum(forward_s + self.backward_s(i >= first_synced) for i in range(micro_batches))


class PublishedTable(unittest.TestCase):
    def test_three_of_eight_cells_are_copies(self):
        copies = {(c.setup, c.strategy): c.copy_of for c in CELLS if c.copy_of}
        self.assertEqual(len(CELLS), 8)
        self.assertEqual(
            copies,
            {
                ("multi_node", "accumulate"): "no_sync",
                ("single_node", "no_sync_improper"): "baseline",
                ("single_node", "accumulate"): "no_sync",
            },
        )

    def test_interval_is_student_t_of_three_runs(self):
        # 1.95, 2.11, 1.94: mean 2, sd sqrt(0.0091), t = 4.30265.
        low, high = cell("multi_node", "baseline").interval_s
        half = 4.30265 * math.sqrt(0.0091 / 3)
        self.assertAlmostEqual(low, 2 - half, places=5)
        self.assertAlmostEqual(high, 2 + half, places=5)

    def test_only_baseline_and_improper_synchronize_every_micro_batch(self):
        syncs = [c.syncs for c in CELLS if c.setup == "multi_node"]
        self.assertEqual(syncs, [4, 4, 1, 1])

    def test_bad_tables_are_refused_with_file_and_field(self):
        table = json.loads((ROOT / fit_t4.REFERENCE).read_text())
        table["raw_runs"]["multi_node"]["no_sync"] = [0.84, -1.04, 0.86]
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "table.json"
            path.write_text(json.dumps(table))
            with self.assertRaisesRegex(FitError, "table.json: raw_runs.multi_node.no_"):
                read_cells(path)
            path.write_text("{")
            with self.assertRaisesRegex(FitError, "table.json: not JSON"):
                read_cells(path)
            status, _, err = run_program("--reference", Path(folder) / "absent.json")
        self.assertEqual(status, 2)
        self.assertRegex(err, "absent.json: No such file")


class BertBase(unittest.TestCase):
    def test_parameters(self):
        shapes = [s for _, layer in bert_base.bert_layers() for _, s in layer]
        self.assertEqual(len(shapes), 201)
        self.assertEqual(sum(math.prod(s) for s in shapes), 108_311_810)

    def test_fourteen_buckets_of_which_the_embeddings_come_last(self):
        buckets = bert_base.buckets()
        head = 4 * (768 * 768 + 768 + 2 * 768 + 2)
        layer = 4 * 7_087_872
        embeddings = 4 * 768 * (28996 + 512 + 2 + 1 + 1)
        self.assertEqual([b for _, b in buckets], [head, *[layer] * 12, embeddings])
        shares = [0, *[i / 12 for i in range(1, 13)], 1]
        self.assertEqual([share for share, _ in buckets], shares)
        self.assertEqual(round(sum(b for _, b in buckets) / 1e6, 1), 433.2)


class Law(unittest.TestCase):
    def test_equals_a_simulation_of_the_step(self):
        for c in CELLS:
            with self.subTest(setup=c.setup, strategy=c.strategy):
                link = Simulation(TWIN.payload_bytes_per_s(c.setup))
                simulated = link.step_s(c.micro_batches, c.syncs)
                # A bucket waits at most one tick to start and one to end.
                slack = 2 * c.syncs * (14 + 1) * Simulation.TICK_S
                wire_s = TWIN.step_s(c) - c.syncs * fit_t4.ENGINE_S
                self.assertAlmostEqual(wire_s, simulated, delta=slack)

    def test_a_fast_link_hides_all_but_the_last_buckets(self):
        # Layer 1 and the embeddings are ready when backward ends: nothing can hide them.
        last_bytes = sum(b for share, b in bert_base.buckets() if share == 1)
        self.assertAlmostEqual(fit_t4.exposed_s(0.1, 1e11), last_bytes / 1e11, places=12)

    def test_a_slow_link_is_busy_from_the_start_of_backward(self):
        total = sum(b for _, b in bert_base.buckets())
        rate = 1e8
        # The head's bucket is ready at once and outlasts the first layer's backward.
        self.assertAlmostEqual(fit_t4.exposed_s(0.1, rate), total / rate - 0.2 / 3)

    def test_rate_inverts_exposed_time(self):
        for rate in (2e8, 1e9, 5e9):
            added = fit_t4.exposed_s(0.1, rate)
            self.assertAlmostEqual(fit_t4.rate_for(0.1, added) / rate, 1, places=9)
        with self.assertRaises(FitError):
            fit_t4.rate_for(0.1, 0)


class Fit(unittest.TestCase):
    def test_numbers(self):
        self.assertAlmostEqual(TWIN.micro_batch_s, 0.095688, places=6)
        self.assertEqual(TWIN.line_gbps, {"multi_node": 7.62, "single_node": 51.72})

    def test_weighted_by_relative_error_the_numbers_differ_and_hold_too(self):
        other = fit_t4.fit(CELLS, "relative")
        self.assertAlmostEqual(other.micro_batch_s, 0.1009, places=4)
        self.assertEqual(fit_t4.violations(other, CELLS), [])

    def test_no_neighbour_has_a_smaller_error(self):
        def loss(parameters):
            c, *added = parameters
            by_setup = dict(zip(("multi_node", "single_node"), added, strict=True))
            laws = ((x, 4 * c + x.syncs * by_setup[x.setup]) for x in CELLS)
            errors = (
                (law - x.mean_s, statistics.stdev(x.runs_s)) for x, law in laws if not x.copy_of
            )
            return sum((error / sd) ** 2 for error, sd in errors)

        best = fit_t4.least_squares(CELLS, "uncertainty")
        for i in range(3):
            for factor in (0.999, 1.001):
                moved = [x * factor if i == k else x for k, x in enumerate(best)]
                self.assertLess(loss(best), loss(moved))

    def test_every_cell_is_inside_its_interval(self):
        self.assertEqual(fit_t4.violations(TWIN, CELLS), [])
        self.assertLess(fit_t4.mean_error(TWIN, CELLS), 0.06)
        self.assertGreater(fit_t4.headroom_s(TWIN, CELLS), 0.008)

    def test_a_cell_outside_its_interval_is_a_violation(self):
        slow = dataclasses.replace(TWIN, line_gbps={"multi_node": 6, "single_node": 30})
        found = fit_t4.violations(slow, CELLS)
        self.assertRegex(found[0], "^multi_node baseline: .* outside")
        self.assertRegex(found[-1], "^mean absolute error")


class Program(unittest.TestCase):
    def test_says_what_the_fit_is_worth(self):
        status, out, err = run_program()
        self.assertEqual((status, err), (0, ""))
        self.assertIn("3 of the 8 cells are copies of others", out)
        self.assertIn("3 parameters meet 5 distinct cells", out)
        self.assertRegex(out, r"multi_node no_sync runs \(0.84, 1.04, 0.86\) lie above")
        self.assertNotRegex(out, r"multi_node baseline runs")
        self.assertNotRegex(out, r"single_node no_sync runs")

    def test_files_in_the_tree_are_what_the_fit_writes(self):
        status, _, err = run_program("--check")
        self.assertEqual((status, err), (0, ""))

    def test_check_notices_an_edit_and_write_repairs_it(self):
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            (root / fit_t4.REFERENCE).parent.mkdir(parents=True)
            shutil.copy(ROOT / fit_t4.REFERENCE, root / fit_t4.REFERENCE)
            self.assertEqual(run_program("--root", root, "--check")[0], 1)
            self.assertEqual(run_program("--root", root, "--write")[0], 0)
            self.assertEqual(run_program("--root", root, "--check")[0], 0)
            edited = root / twin_files.TOPOLOGIES["multi_node"]
            edited.write_text(edited.read_text().replace("7.62", "7.61"))
            status, _, err = run_program("--root", root, "--check")
        self.assertEqual(status, 1)
        self.assertIn("t4_2x1.json: differs from the fit", err)

    def test_profile_is_the_whole_model(self):
        profile = json.loads((ROOT / twin_files.PROFILE).read_text())
        layers = profile["layers"]
        compute = sum(layer["forward_s"] + layer["backward_s"] for layer in layers)
        self.assertAlmostEqual(compute, TWIN.micro_batch_s, places=9)
        self.assertEqual(sum(len(layer["parameters"]) for layer in layers), 201)
        self.assertEqual(
            [(buffer["name"], buffer["shape"]) for buffer in profile["buffers"]],
            [
                ("bert.embeddings.position_ids", [1, 512]),
                ("bert.embeddings.token_type_ids", [1, 512]),
            ],
        )


if __name__ == "__main__":
    unittest.main()
