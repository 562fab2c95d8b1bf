"""One real rank of a world that does not exist, with folded memory, as a user meets it."""

import unittest

from program import QUICK, ProgramTest, with_cells

# A Mixtral on eight ranks, of which one runs; what is counted does not depend on values.
ALONE = with_cells(
    QUICK,
    topology=["1x8"],
    model=["mixtral_tiny"],
    wrapper=["fsdp"],
    dtype=["bfloat16"],
    micro_batch_size=[1],
    sequence_length=[16],
    strategy=["no_sync"],
) | {"backend": "fake", "fold_from_bytes": "4KiB", "steps": 1, "warmup_steps": 0}

# Those of the published table.
ROWS = [("no_sync", 1), ("no_sync", 2), ("sync_each_batch", 16)]


def in_rows(plan, **cells):
    """The plan with a part for each row."""
    parts = [
        {
            "name": f"{strategy}_{accumulation}",
            "cells": {"strategy": [strategy], "accumulation_steps": [accumulation]},
        }
        for strategy, accumulation in ROWS
    ]
    return with_cells(plan, **cells) | {"parts": parts}


class OneRankTest(ProgramTest):
    def peaks(self, plan, out):
        """Returns the peak of each row, in the order of ROWS."""
        outcome = self.run_plan(plan, out=out)
        self.assertEqual(outcome.status, 0, outcome.err)
        self.assertNotRegex(outcome.err, r"\d m?s/step")
        return [trial["ranks"][0]["peak_allocated_bytes"] for trial in self.trials(out)]

    def test_verdicts_of_a_budget_that_only_keeping_whole_gradients_exceeds(self):
        once, twice, reduced = self.peaks(in_rows(ALONE), "free")
        self.assertGreater(twice, max(once, reduced), "no_sync keeps gradients whole")
        budget = max(once, reduced)
        outcome = self.run_plan(in_rows(ALONE, memory_budget_bytes=[budget]), out="budget")
        self.assertEqual(outcome.status, 0, outcome.err)
        trials = self.trials("budget")
        self.assertEqual([trial["status"] for trial in trials], ["ok", "oom", "ok"])
        self.assertRegex(trials[1]["reason"], rf"asked \d+ bytes, had \d+ of a budget of {budget}")

    def test_folding_changes_no_byte_of_a_peak(self):
        few = ALONE | {"fold_from_bytes": "256KiB"}
        self.assertEqual(
            self.peaks(in_rows(few), "few folded"), self.peaks(in_rows(ALONE), "most folded")
        )

    def test_one_rank_runs_and_has_no_times(self):
        outcome = self.run_plan(ALONE)
        self.assertEqual(outcome.status, 0, outcome.err)
        (trial,) = self.trials()
        self.assertEqual([rank["rank"] for rank in trial["ranks"]], [0])
        self.assertTrue(trial["ledger"]["matches"])
        self.assertIn("reduce_scatter", trial["ledger"]["per_step"])
        info = trial["model_info"]
        self.assertEqual(info["fold_from_bytes"], 4 << 10)
        self.assertGreater(info["physical_bytes"], 0)
        self.assertNotRegex(outcome.err, r"\d m?s/step")
        result = self.result()
        self.assertEqual(result["context"]["backend"], "fake")
        (cell,) = result["cells"]
        for name in ("step_s", "micro_batch_s", "exposed_comm_s"):
            self.assertIsNone(cell[name])
            self.assertEqual(
                cell["null_reasons"][name], "one rank stands for 8 and sends nothing", name
            )
        self.assertGreater(cell["peak_allocated_bytes"], 0)

    def test_any_topology_and_wrapper_without_folding(self):
        plan = with_cells(
            QUICK,
            topology=["3x2"],
            model=["bert_tiny"],
            wrapper=["ddp", "fsdp"],
            hybrid_shard=[True],
        )
        outcome = self.run_plan(plan, "--backend", "fake")
        self.assertEqual(outcome.status, 0, outcome.err)
        moved = {trial["cell"]["wrapper"]: trial["ledger"]["per_step"] for trial in self.trials()}
        self.assertEqual(set(moved["ddp"]), {"all_reduce", "broadcast"})
        self.assertEqual(set(moved["fsdp"]), {"all_gather", "reduce_scatter", "all_reduce"})

    def refuse(self, plan, *texts, arguments=(), **options):
        outcome = self.call("run", self.plan_file(plan), *arguments, **options)
        self.assert_refused(outcome, *texts)

    def test_refusals(self):
        self.refuse(ALONE | {"backend": "gloo", "warmup_steps": 1}, "fold_from_bytes", "garbage")
        self.refuse(ALONE | {"device": "cuda"}, "field 'backend'", '"gloo" or "nccl"')
        bert = with_cells(ALONE, model=["bert_tiny"], dtype=["float32"])
        self.refuse(bert, "fold_from_bytes", "bert_tiny", "only a Mixtral")
        self.refuse(
            with_cells(QUICK, model=["convnet"], dtype=["bfloat16"]),
            "field 'cells.dtype'",
            "convnet",
            "only a Mixtral, a BERT and mlp",
        )
        self.refuse(ALONE | {"fold_from_bytes": 256}, "more than 256", "16 tokens")
        self.refuse(ALONE, "fold_from_bytes", arguments=("--weights", "model.safetensors"))

    def test_an_outside_launcher_starts_too_many(self):
        started = {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1"}
        plan = with_cells(ALONE)
        del plan["cells"]["topology"]
        self.refuse(plan, "field 'backend'", "--launcher none", env=started)


if __name__ == "__main__":
    unittest.main()
