"""Peaks, budgets and the place where memory ran out, as a user of FSDP sees them.

Covers: harness/run/memory_recording.cpp, harness/sync/copies.cpp.
"""

import json
import re
import unittest

from program import QUICK, ProgramTest, with_cells

# One step behind the warm-up: all steps hold the same.
FSDP = with_cells(
    QUICK | {"steps": 1},
    model=["bert_tiny"],
    wrapper=["fsdp"],
    strategy=["no_sync"],
    micro_batch_size=[2],
    sequence_length=[16],
)
# What it holds needs no clock, and then no warm-up.
HELD = FSDP | {"timed": False, "warmup_steps": 0}
# With a clock, but no step that is recorded over time.
PHASES = FSDP | {"warmup_steps": 1}


class MemoryTest(ProgramTest):
    def peak_of(self, plan, out):
        outcome = self.run_plan(plan, out=out)
        self.assertEqual(outcome.status, 0, outcome.err)
        return self.result(out)["cells"][0]["peak_allocated_bytes"]

    def test_a_peak_is_exact_and_so_is_a_budget(self):
        peak = self.peak_of(HELD, "first")
        self.assertEqual(self.peak_of(HELD, "second"), peak, "the same byte, run after run")

        both = with_cells(HELD, memory_budget_bytes=[peak - 1, peak])
        outcome = self.run_plan(both, out="both")
        self.assertEqual(outcome.status, 0, "out of a budget is an answer\n" + outcome.err)
        trials = {trial["cell"]["memory_budget_bytes"]: trial for trial in self.trials("both")}
        self.assertEqual(trials[peak]["status"], "ok", "the sweep went on")
        within = max(rank["peak_allocated_bytes"] for rank in trials[peak]["ranks"])
        self.assertEqual(within, peak)
        self.assertEqual(trials[peak - 1]["status"], "oom")
        self.assertIn(trials[peak - 1]["oom_place"]["phase"], ("forward", "backward"))
        self.assertIn(f"of a budget of {peak - 1} bytes", trials[peak - 1]["reason"])
        self.assertIn("oom", outcome.out)

    def test_a_budget_below_what_is_resident(self):
        outcome = self.run_plan(with_cells(HELD, memory_budget_bytes=["1KiB"]))
        self.assertEqual(outcome.status, 4, "nothing was measured\n" + outcome.err)
        (trial,) = self.trials()
        self.assertEqual(trial["status"], "oom")
        self.assertIn("parameters and optimizer alone hold", trial["reason"])
        self.assertIn("over a budget of 1024 bytes", trial["reason"])

    def test_memory_over_a_step_has_its_peak(self):
        plan = with_cells(FSDP, strategy=["no_sync", "sync_each_batch"], accumulation_steps=[2])
        outcome = self.run_plan(plan)
        self.assertEqual(outcome.status, 0, outcome.err)
        for trial in self.trials():
            first, *others = trial["ranks"]
            self.assertTrue(all(rank["memory_timeline"] == [] for rank in others), "rank 0 alone")
            points = first["memory_timeline"]
            self.assertLessEqual(len(points), 400)
            estimate = first["peak_reserved_estimate_bytes"]
            self.assertGreaterEqual(estimate, first["peak_allocated_bytes"])
            held = [sum(point["bytes"].values()) for point in points]
            self.assertEqual(max(held), first["peak_allocated_bytes"], "of a step like the timed")
            times = [point["at_s"] for point in points]
            self.assertEqual(times, sorted(times))
            self.assertEqual((times[0], points[0]["micro_batch"]), (0, -1), "from the start")
            self.assertNotIn("unsharded_gradient", points[-1]["bytes"], "to the end")
            self.assertEqual({point["micro_batch"] for point in points}, {-1, 0, 1})
            phases = {point["phase"] for point in points}
            self.assertEqual(phases - {""}, {"forward", "backward", "optimizer"})
            self.assertTrue(any("unit" in point for point in points))

    def test_what_is_frozen_or_stepped_in_backward_holds_what_is_predicted(self):
        plan = with_cells(
            HELD,
            wrapper=["ddp", "fsdp"],
            strategy=["no_sync"],
            frozen_units=[0, 1, 2],
            optimizer_in_backward=[False, True],
            accumulation_steps=[1],
        )
        outcome = self.run_plan(plan)
        self.assertEqual(outcome.status, 0, outcome.err)
        seen = {}
        for trial in self.trials():
            cell, first = trial["cell"], trial["ranks"][0]
            self.assert_holds_what_is_predicted(trial)
            wrapper = cell["wrapper"]
            reduced = trial["ledger"]["per_step"][
                "all_reduce" if wrapper == "ddp" else "reduce_scatter"
            ]
            in_backward = cell.get("optimizer_in_backward", False)
            key = wrapper, in_backward, cell.get("frozen_units", 0)
            seen[key] = first["peak_allocated_bytes"], reduced["bytes"]
        self.assertEqual(len(seen), 3 + 2 * 3)
        for (wrapper, in_backward, frozen), (peak, moved) in seen.items():
            if frozen > 0:
                less = seen[wrapper, in_backward, frozen - 1]
                self.assertLess(peak, less[0])
                self.assertLess(moved, less[1])
            if in_backward:
                self.assertLessEqual(peak, seen[wrapper, False, frozen][0])

    def test_casts_are_a_phase_where_types_differ(self):
        types = ("float32", "bfloat16")
        fsdp = with_cells(PHASES, wrapper=["fsdp"], param_dtype=types, reduce_dtype=types)
        ddp = with_cells(PHASES, wrapper=["ddp"], dtype=["bfloat16"], master_weights=[False, True])
        for out, plan, count in (("fsdp", fsdp, 4), ("ddp", ddp, 2)):
            plan = with_cells(plan, strategy=["no_sync"], accumulation_steps=[2])
            outcome = self.run_plan(plan, out=out)
            self.assertEqual(outcome.status, 0, outcome.err)
            trials, cells = self.trials(out), self.result(out)["cells"]
            self.assertEqual((len(trials), len(cells)), (count, count))
            for trial in trials:
                casts = self.casts(trial["cell"])
                for rank in trial["ranks"]:
                    self.assertEqual("cast" in rank["phase_s"], casts, trial["cell"])
                    if casts:
                        self.assertGreater(min(rank["phase_s"]["cast"]), 0, trial["cell"])
            for cell in cells:
                casts = self.casts(cell["cell"])
                for rank in cell["attribution"]["ranks"]:
                    self.assertEqual(rank.get("cast_s", 0) > 0, casts, cell["cell"])
            ranks = [rank for cell in cells for rank in cell["attribution"]["ranks"]]
            copy = "copy, " if any(rank["copy_s"] > 0 for rank in ranks) else ""
            page = self.call("report", self.place / out, "--format", "attribution")
            self.assertIn(f"\nown compute, {copy}cast = what hid a collective", page.out)

    @staticmethod
    def casts(cell):
        if cell["wrapper"] == "ddp":
            return cell.get("master_weights", False)
        return "bfloat16" in (cell["param_dtype"], cell["reduce_dtype"])

    def test_memory_over_a_step_under_ddp(self):
        plan = with_cells(FSDP, wrapper=["ddp"], strategy=["baseline", "no_sync"])
        outcome = self.run_plan(plan)
        self.assertEqual(outcome.status, 0, outcome.err)
        for trial in self.trials():
            first, second = trial["ranks"]
            held = [sum(point["bytes"].values()) for point in first["memory_timeline"]]
            self.assertEqual(max(held), first["peak_allocated_bytes"], "of a step like the timed")
            self.assertEqual(second["memory_timeline"], [])

    def test_without_a_step_to_make_up_for_it_nothing_is_recorded_under_ddp(self):
        outcome = self.run_plan(with_cells(FSDP, wrapper=["ddp"]) | {"warmup_steps": 1})
        self.assertEqual(outcome.status, 0, outcome.err)
        (trial,) = self.trials()
        self.assertEqual([rank["memory_timeline"] for rank in trial["ranks"]], [[], []])

    def test_a_first_forward_that_does_not_fit(self):
        """The resident set fits; what is gathered, or the activations then, do not."""
        large = with_cells(HELD, micro_batch_size=[64], sequence_length=[64])
        self.run_plan(with_cells(large, memory_budget_bytes=[1]), out="resident")
        (trial,) = self.trials("resident")
        resident = int(re.search(r"alone hold (\d+) bytes", trial["reason"])[1])
        budgets = [resident, resident + 1024, resident + (36 << 20)]
        outcome = self.run_plan(with_cells(large, memory_budget_bytes=budgets))
        self.assertEqual(outcome.status, 4, "nothing was measured\n" + outcome.err)
        reasons = {t["cell"]["memory_budget_bytes"]: t["reason"] for t in self.trials()}
        self.assertIn(
            "outside a micro-batch; asked 1 bytes, had 0", reasons[budgets[0]], "a barrier"
        )
        self.assertRegex(reasons[budgets[1]], r"micro-batch 1, forward, unit root; asked \d+ bytes")
        self.assertRegex(
            reasons[budgets[2]], r"micro-batch 1, forward, unit bert\.encoder\.layer\.\d; asked"
        )

    def test_hybrid_sharding_says_what_it_moves(self):
        plan = with_cells(
            HELD, topology=["1x2"], hybrid_shard=[True, False], strategy=["sync_each_batch"]
        )
        outcome = self.run_plan(plan)
        self.assertEqual(outcome.status, 0, outcome.err)
        for trial in self.trials():
            moved = trial["ledger"]["per_step"]
            self.assertEqual(
                "all_reduce" in moved, trial["cell"]["hybrid_shard"], "across nodes, if hybrid"
            )


class LeversTest(ProgramTest):
    """Levers that save memory, and their predictions."""

    ACCUMULATIONS = (3,)  # micro-batches that add to gradients, and the last one
    STRATEGIES = ("no_sync",)

    def test_checkpointed_units_hold_what_is_predicted_and_run_again_in_a_phase(self):
        plan = with_cells(
            PHASES,
            wrapper=["ddp", "fsdp"],
            strategy=self.STRATEGIES,
            activation_checkpointing=["none", "full", "every_2"],
            accumulation_steps=self.ACCUMULATIONS,
            micro_batch_size=[16],
            sequence_length=[64],
        )
        outcome = self.run_plan(plan)
        self.assertEqual(outcome.status, 0, outcome.err)
        peaks = {}
        for trial in self.trials():
            cell, first = trial["cell"], trial["ranks"][0]
            how = cell.get("activation_checkpointing", "none")
            key = cell["wrapper"], cell["strategy"], cell["accumulation_steps"]
            peaks[(*key, how)] = first["peak_allocated_bytes"]
            self.assert_holds_what_is_predicted(trial)
            self.assertEqual("recompute" in first["phase_s"], how != "none", cell)
            if how != "none":
                self.assertGreater(min(first["phase_s"]["recompute"]), 0, cell)
        self.assertEqual(len(peaks), len(self.ACCUMULATIONS) * 2 * len(self.STRATEGIES) * 3)
        for (*key, how), peak in peaks.items():
            if how == "full":
                self.assertLess(peak, peaks[(*key, "none")], key)

    def test_low_rank_updates_hold_and_move_what_is_predicted(self):
        plan = with_cells(
            HELD,
            wrapper=["ddp", "fsdp"],
            strategy=["no_sync"],
            lora_rank=[0, 4, 128],
            activation_checkpointing=["none", "full"],
            accumulation_steps=self.ACCUMULATIONS,
        )
        outcome = self.run_plan(plan)
        self.assertEqual(outcome.status, 0, outcome.err)
        peaks = {}
        for trial in self.trials():
            cell, first = trial["cell"], trial["ranks"][0]
            self.assert_holds_what_is_predicted(trial)
            rank = cell.get("lora_rank", 0)
            others = json.dumps({name: cell[name] for name in sorted(cell) if name != "lora_rank"})
            peaks[others, rank] = first["peak_allocated_bytes"]
            if cell["wrapper"] == "ddp" and rank > 0:
                # Two layers' queries and values have two factors of the hidden size, 128, each; the
                # classifier has two labels.
                elements = 2 * 2 * 2 * 128 * rank + 2 * 128 + 2
                moved = trial["ledger"]["per_step"]["all_reduce"]["bytes"]
                self.assertEqual(moved, 4 * elements)
        self.assertEqual(len(peaks), len(self.ACCUMULATIONS) * 2 * 3 * 2)
        for (others, rank), peak in peaks.items():
            if rank == 4:
                self.assertLess(peak, peaks[others, 0])
                self.assertLess(peak, peaks[others, 128])

    def test_updates_of_more_modules_hold_and_move_what_is_predicted(self):
        rank, hidden, intermediate, layers = 4, 128, 512, 2
        plan = with_cells(
            HELD,
            wrapper=["ddp", "fsdp"],
            strategy=["no_sync"],
            lora_rank=[rank],
            lora_modules=["attention", "all_linear"],
            activation_checkpointing=["full"],
            accumulation_steps=self.ACCUMULATIONS,
        )
        outcome = self.run_plan(plan)
        self.assertEqual(outcome.status, 0, outcome.err)
        of_attention = layers * 4 * 2 * hidden * rank
        of_all = of_attention + layers * 2 * (hidden + intermediate) * rank + 2 * hidden * rank
        classifier = 2 * hidden + 2
        elements = {"attention": of_attention + classifier, "all_linear": of_all + classifier}
        moved = {}
        for trial in self.trials():
            self.assert_holds_what_is_predicted(trial)
            if trial["cell"]["wrapper"] == "ddp":
                bytes_moved = trial["ledger"]["per_step"]["all_reduce"]["bytes"]
                moved[trial["cell"]["lora_modules"]] = bytes_moved
        self.assertEqual(moved, {which: 4 * count for which, count in elements.items()})

    def test_attention_holds_what_is_predicted_whoever_spells_it_out(self):
        plan = with_cells(
            HELD,
            wrapper=["ddp", "fsdp"],
            strategy=["no_sync"],
            attention=["eager", "sdpa"],
            activation_checkpointing=["none", "full"],
            accumulation_steps=self.ACCUMULATIONS,
            micro_batch_size=[8],
            sequence_length=[64],
        )
        outcome = self.run_plan(plan)
        self.assertEqual(outcome.status, 0, outcome.err)
        over_time = {}
        for trial in self.trials():
            cell, first = trial["cell"], trial["ranks"][0]
            self.assert_holds_what_is_predicted(trial)
            others = json.dumps({name: cell[name] for name in sorted(cell) if name != "attention"})
            held = [sum(point["bytes"].values()) for point in first["memory_timeline"]]
            over_time[others, cell.get("attention", "eager")] = held
        self.assertEqual(len(over_time), len(self.ACCUMULATIONS) * 2 * 2 * 2)
        for (others, how), held in over_time.items():
            if how == "sdpa" and json.loads(others)["wrapper"] == "fsdp":
                self.assertNotEqual(held, over_time[others, "eager"], "scaled keys, masked rows")

    def test_what_is_offloaded_is_on_the_host_and_its_copies_are_a_phase(self):
        plan = with_cells(
            PHASES,
            wrapper=["fsdp"],
            strategy=["no_sync", "sync_each_batch"],
            offload=["none", "optimizer_state", "parameters"],
            accumulation_steps=self.ACCUMULATIONS,
        )
        ddp = with_cells(
            plan, wrapper=["ddp"], strategy=["no_sync"], offload=["none", "optimizer_state"]
        )
        peaks = {}
        for out, each in (("fsdp", plan), ("ddp", ddp)):
            outcome = self.run_plan(each, out=out)
            self.assertEqual(outcome.status, 0, outcome.err)
            if out == "fsdp":
                self.assertIn("host peak", outcome.out)
            for trial in self.trials(out):
                cell, first = trial["cell"], trial["ranks"][0]
                what = cell.get("offload", "none")
                self.assert_holds_what_is_predicted(trial)
                on_host = first.get("host_peak_allocated_bytes")
                self.assertEqual(trial.get("predicted_host_peak_allocated_bytes"), on_host, cell)
                self.assertEqual(on_host is None, what == "none", cell)
                self.assertEqual("offload" in first["phase_s"], what != "none", cell)
                if what != "none":
                    self.assertGreater(min(first["phase_s"]["offload"]), 0, cell)
                    self.assertEqual(sum(first["host_peak_by_category"].values()), on_host)
                key = cell["wrapper"], cell["strategy"], cell["accumulation_steps"]
                counts = json.dumps(trial["ledger"]["per_step"])
                peaks[(*key, what)] = first["peak_allocated_bytes"], counts
            for cell in self.result(out)["cells"]:
                offloads = cell["cell"].get("offload", "none") != "none"
                self.assertEqual("host_peak_allocated_bytes" in cell, offloads)
                for rank in cell["attribution"]["ranks"]:
                    self.assertEqual(rank.get("offload_s", 0) > 0, offloads, rank)
        self.assertEqual(len(peaks), len(self.ACCUMULATIONS) * (2 * 3 + 2))
        for (*key, what), (peak, counts) in peaks.items():
            if what == "none":
                continue
            self.assertLess(peak, peaks[(*key, "none")][0], key)
            self.assertEqual(counts, peaks[(*key, "none")][1], key)
            if what == "parameters":
                self.assertLess(peak, peaks[(*key, "optimizer_state")][0], key)


class SlowLeversTest(LeversTest):
    ACCUMULATIONS = (1, 3)
    STRATEGIES = ("no_sync", "baseline")


if __name__ == "__main__":
    unittest.main()
