"""What every micro-batch of every rank weighs in the gradient, in the suite's own trials.

Covers: harness/run/gradient_account.cpp.
"""

import unittest

from program import PACED, QUICK, ProgramTest, with_cells

DDP = ["baseline", "no_sync_improper", "no_sync", "accumulate"]
STRATEGIES = {
    "ddp": DDP,
    "fsdp": [*DDP, "sync_each_batch"],
    "by_hand": DDP,
    "by_hand_coalesced": DDP,
}
# Weights are recovered from float32: the aim is 1e-3.
WITHIN = 1e-4


class AccountTest(ProgramTest):
    def cells(self, plan, *arguments):
        outcome = self.run_plan(plan, *arguments)
        self.assertEqual(outcome.status, 0, outcome.err)
        return self.result()["cells"]

    def assert_equal_weights(self, cell, contributions, within=WITHIN):
        account = cell["account"]
        self.assertIsNotNone(account, cell["null_reasons"].get("account"))
        self.assertIn("the same within", account["verdict"], cell["cell"])
        self.assertEqual(account["contributions"], contributions, cell["cell"])
        for name in ("weight_min", "weight_max", "factor"):
            self.assertAlmostEqual(account[name], 1, delta=within, msg=(name, cell["cell"]))
        self.assertLess(account["left_over"], within)
        self.assertLess(account["weight_error"], within)
        self.assertGreaterEqual(account["condition"], 1)
        self.assertGreaterEqual(account["parameters"], 1)

    def test_every_strategy_of_every_wrapper_weighs_all_micro_batches_alike(self):
        plan = with_cells(
            QUICK,
            wrapper=[*STRATEGIES],
            strategy=STRATEGIES["fsdp"],
            accumulation_steps=[1, 3],
        )
        cells = self.cells(plan)
        seen = [(cell["cell"]["wrapper"], cell["cell"]["strategy"]) for cell in cells]
        pairs = [(wrapper, each) for wrapper, of in STRATEGIES.items() for each in of]
        self.assertEqual(sorted(seen), sorted(2 * pairs))
        for cell in cells:
            self.assert_equal_weights(cell, 2 * cell["cell"]["accumulation_steps"])
        for trial in self.trials():
            self.assertNotIn("account_why_not", trial)

    def test_the_first_round_of_each_launch_is_accounted_and_no_peak_has_it(self):
        self.cells(QUICK | {"rounds": 2, "launches": 2})
        for trial in self.trials():
            self.assertEqual(trial["account"] is None, trial["round"] > 0)
            self.assertEqual("account_why_not" in trial, trial["round"] > 0)
        peaks = {rank["peak_allocated_bytes"] for trial in self.trials() for rank in trial["ranks"]}
        self.assertEqual(len(peaks), 1, "before an account and after one")
        # The memory of an account does not count against the trial's budget: it fits to the byte.
        budget = QUICK | {"cells": QUICK["cells"] | {"memory_budget_bytes": [peaks.pop()]}}
        (cell,) = self.cells(budget, "--force")
        self.assert_equal_weights(cell, 4)

    def test_without_synchronization_every_rank_reads_its_own(self):
        (cell,) = self.cells(with_cells(QUICK, wrapper=["local"]))
        account = cell["account"]
        self.assertIn("of its own micro-batches alone", account["verdict"])
        self.assertAlmostEqual(account["weight_min"], 1, delta=WITHIN)
        self.assertAlmostEqual(account["factor"], 1, delta=WITHIN)

    def test_stages_of_a_pipeline(self):
        strategies = ["baseline", "pipelined"]
        plan = with_cells(QUICK, wrapper=["pipeline"], strategy=strategies, accumulation_steps=[3])
        for cell in self.cells(plan):
            self.assert_equal_weights(cell, 6)

    def test_options_of_fsdp(self):
        plan = with_cells(
            QUICK,
            wrapper=["fsdp"],
            strategy=["no_sync"],
            reshard_after_forward=[True, False],
            prefetch=[True, False],
        )
        for cell in self.cells(plan):
            self.assert_equal_weights(cell, 4)

    def test_sharded_inside_nodes_alone(self):
        plan = with_cells(
            QUICK,
            topology=["2x2_200mbit"],
            wrapper=["fsdp"],
            strategy=["sync_each_batch", "no_sync"],
            hybrid_shard=[True],
        )
        for cell in self.cells(plan):
            self.assert_equal_weights(cell, 8)

    def test_sixteen_bits_on_the_wire_are_rounding(self):
        ddp = with_cells(QUICK, compression=["fp16", "bf16"], strategy=["baseline", "no_sync"])
        for cell in self.cells(ddp):
            account = cell["account"]
            self.assertAlmostEqual(account["weight_min"], 1, delta=0.02)
            self.assertAlmostEqual(account["weight_max"], 1, delta=0.02)
            self.assertGreater(account["left_over"], 1e-6, "it is rounded")

    def test_paced_models(self):
        plan = with_cells(PACED, wrapper=["ddp", "fsdp"])
        for cell in self.cells(plan):
            self.assertEqual(cell["timing"], "paced")
            self.assert_equal_weights(cell, 4)

    def test_parameters_that_some_ranks_leave_unused(self):
        plan = with_cells(
            QUICK, model=["branching"], find_unused_parameters=[True], strategy=["no_sync"]
        )
        for cell in self.cells(plan):
            self.assertAlmostEqual(cell["account"]["weight_min"], 1, delta=WITHIN)
            self.assertAlmostEqual(cell["account"]["weight_max"], 1, delta=WITHIN)

    def test_where_there_is_none_the_reason_is_given(self):
        (cell,) = self.cells(QUICK | {"timed": False, "warmup_steps": 0, "steps": 1})
        self.assertIsNone(cell["account"])
        self.assertIn("no time is wanted", cell["null_reasons"]["account"])
        in_backward = {"optimizer_in_backward": [True], "accumulation_steps": [1]}
        plan = with_cells(QUICK, wrapper=["fsdp"], strategy=["sync_each_batch"], **in_backward)
        (cell,) = self.cells(plan, "--force")
        self.assertIn("steps in backward", cell["null_reasons"]["account"])
        (cell,) = self.cells(QUICK | {"backend": "fake"}, "--force")
        self.assertIsNone(cell["account"])
        self.assertIn("one rank stands for all", cell["null_reasons"]["account"])


if __name__ == "__main__":
    unittest.main()
