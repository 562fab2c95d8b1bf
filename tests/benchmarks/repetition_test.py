"""Micro-batches that repeat the one before are passed over where no time is wanted, by all ranks at
once, and nothing that is counted differs for it."""

import unittest

from program import QUICK, ProgramTest, with_cells
from repetition import declared, exact, ran

UNTIMED = with_cells(
    QUICK | {"steps": 2, "warmup_steps": 0, "timed": False},
    model=["mixtral_tiny"],
    balanced_routing=[True],
    wrapper=["fsdp", "ddp"],
    strategy=["no_sync", "accumulate"],
    micro_batch_size=[2],
    sequence_length=[16],
    accumulation_steps=[1, 7],
)


class RepetitionTest(ProgramTest):
    def trials_of(self, plan, out, *options):
        outcome = self.run_plan(plan, *options, out=out)
        self.assertEqual(outcome.status, 0, outcome.err)
        return self.trials(out), outcome

    def test_nothing_that_is_counted_differs(self):
        others = ["sync_each_batch", "no_sync_improper"]
        fsdp = with_cells(UNTIMED, wrapper=["fsdp"], strategy=others)
        for name, plan in (("both", UNTIMED), ("fsdp", fsdp)):
            short, outcome = self.trials_of(plan, name)
            whole, _ = self.trials_of(plan, f"{name}_whole", "--every-micro-batch")
            self.assertEqual([exact(trial) for trial in short], [exact(trial) for trial in whole])
            self.assertEqual({declared(trial) for trial in whole}, {0})
            for trial in short:
                with self.subTest(cell=trial["cell"]):
                    steps = trial["cell"]["accumulation_steps"]
                    self.assertEqual(len(ran(trial)), steps - declared(trial))
                    self.assertIn(steps - 1, ran(trial), "the last always runs")
                    if steps == 7:
                        self.assertGreaterEqual(declared(trial), 3)
            self.assertIn("Declared, not run: 3 of the 7 micro-batches", outcome.out)
            (count,) = {
                cell.get("declared_micro_batches")
                for cell in self.result(name)["cells"]
                if cell["cell"]["accumulation_steps"] == 7
            }
            self.assertEqual(count, 3, "the first makes gradients, the second adds to them")

    def test_what_is_not_timed_has_no_times(self):
        outcome = self.run_plan(with_cells(UNTIMED, accumulation_steps=[1], wrapper=["ddp"]))
        self.assertEqual(outcome.status, 0, outcome.err)
        for cell in self.result()["cells"]:
            self.assertIsNone(cell["step_s"])
            self.assertEqual(cell["null_reasons"]["step_s"], "the plan wants none")

    def test_where_time_is_wanted_everything_runs(self):
        timed = UNTIMED | {"timed": True, "warmup_steps": 1}
        trials, _ = self.trials_of(with_cells(timed, accumulation_steps=[7]), "timed")
        self.assertEqual({declared(trial) for trial in trials}, {0})
        self.assertEqual({len(ran(trial)) for trial in trials}, {7})

    # Two in a row may be alike by chance, on one rank and not on the other.
    def test_where_examples_decide_everything_runs(self):
        for number, differing in enumerate(
            (
                {"lengths": ["mrpc"]},
                {"balanced_routing": [False]},
                {"balanced_routing": [False], "model": ["branching_times_zero"]},
            )
        ):
            cells = {"wrapper": ["ddp"], "strategy": ["accumulate"], "accumulation_steps": [7]}
            trials, _ = self.trials_of(with_cells(UNTIMED, **cells, **differing), f"run{number}")
            self.assertEqual({len(ran(trial)) for trial in trials}, {7}, differing)

    def test_what_runs_out_of_memory_does_so_in_the_same_place(self):
        fsdp = with_cells(UNTIMED, wrapper=["fsdp"], strategy=["no_sync"], accumulation_steps=[7])
        (trial,), _ = self.trials_of(fsdp, "peak")
        peak = trial["ranks"][0]["peak_allocated_bytes"]
        less = with_cells(fsdp, memory_budget_bytes=[peak - 1, peak])
        short, _ = self.trials_of(less, "short")
        whole, _ = self.trials_of(less, "whole", "--every-micro-batch")
        self.assertEqual([exact(trial) for trial in short], [exact(trial) for trial in whole])
        self.assertEqual(sorted(trial["status"] for trial in short), ["ok", "oom"])


if __name__ == "__main__":
    unittest.main()
