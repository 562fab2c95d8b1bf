"""Sweeps as a user runs them: what crosses the wire, the law that is fitted, the best of all."""

import unittest

from program import PACED, QUICK, ProgramTest, with_cells

ACCUMULATIONS = [1, 2, 4]
SWEEP = with_cells(
    QUICK,
    strategy=["baseline", "no_sync"],
    accumulation_steps=ACCUMULATIONS,
    compression=["none", "bf16"],
) | {"steps": 1, "warmup_steps": 1}


class SweepTest(ProgramTest):
    """Checks one run."""

    ran = None  # its table and its result

    def setUp(self):
        super().setUp()
        if SweepTest.ran is None:
            outcome = self.run_plan(SWEEP)
            self.assertEqual(outcome.status, 0, outcome.err)
            SweepTest.ran = outcome.out, self.result()
        self.table, self.swept = SweepTest.ran
        self.cells = self.swept["cells"]

    def all_reduces(self, **wanted):
        """What the cell of these parameters communicated in a step."""
        (cell,) = (
            cell
            for cell in self.cells
            if {"compression": "none"} | cell["cell"] | wanted
            == {"compression": "none"} | cell["cell"]
        )
        self.assertEqual(cell["status"], "ok", cell["reason"])
        return cell["collectives_per_step"]["all_reduce"]

    def test_compressed_gradients_are_half_the_bytes_in_as_many_all_reduces(self):
        for steps in ACCUMULATIONS:
            for strategy in ("baseline", "no_sync"):
                cell = {"accumulation_steps": steps, "strategy": strategy}
                whole = self.all_reduces(compression="none", **cell)
                half = self.all_reduces(compression="bf16", **cell)
                self.assertGreater(whole["bytes"], 0)
                self.assertEqual(half["bytes"] * 2, whole["bytes"], cell)
                self.assertEqual(half["count"], whole["count"], cell)

    def test_each_sweep_has_its_law_and_each_set_up_its_best(self):
        if reasons := {cell["null_reasons"].get("sample_s") for cell in self.cells} - {None}:
            self.skipTest(f"no times here: {reasons}")
        laws = self.swept["laws"]
        self.assertEqual([len(law["points"]) for law in laws], [6, 6])
        for law in laws:
            for point in law["points"]:
                step_s = law["fixed_s"] + law["sync_s"] * point["syncs"]
                step_s += law["micro_batch_s"] * point["accumulation_steps"]
                self.assertAlmostEqual(point["law_s"], step_s, delta=1e-9)
                self.assertEqual(point["held_out"], point["accumulation_steps"] == 2)
        self.assertEqual(self.table.count("a step of m micro-batches"), len(laws))
        best = [found for found in self.swept["best"] if found["among"] == "all"]
        self.assertEqual(
            [found["cell"]["accumulation_steps"] for found in best], ACCUMULATIONS, best
        )
        self.assertIn("| ms/sample |", self.table)


class OptimizerTest(ProgramTest):
    def test_adamw_may_step_parameter_by_parameter(self):
        outcome = self.run_plan(with_cells(QUICK, fused_optimizer=[True, False]))
        self.assertEqual(outcome.status, 0, outcome.err)
        fused, other = self.result()["cells"]
        self.assertIs(fused["cell"]["fused_optimizer"], True)
        self.assertIs(other["cell"]["fused_optimizer"], False)
        self.assertEqual(fused["collectives_per_step"], other["collectives_per_step"])

    def test_a_paced_model_has_its_optimizers_time(self):
        outcome = self.run_plan(with_cells(PACED, strategy=["baseline"], fused_optimizer=[False]))
        self.assert_refused(
            outcome, "'cells.fused_optimizer'", "got false for model 'paced_bert_base_t4'"
        )


if __name__ == "__main__":
    unittest.main(verbosity=2)
