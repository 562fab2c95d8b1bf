"""`gradsync predict memory`, and the same numbers beside what was measured in a run.

Covers: predict_command.cpp.
"""

import json
import unittest

from program import QUICK, ProgramTest, needs_network_namespaces, with_cells

FSDP = with_cells(
    QUICK,
    model=["bert_tiny", "mlp"],
    wrapper=["ddp", "fsdp"],
    strategy=["baseline", "no_sync"],
    micro_batch_size=[2],
    sequence_length=[16],
)


class PredictTest(ProgramTest):
    def predicted(self, *arguments):
        outcome = self.call("predict", "memory", *arguments, "--json")
        self.assertEqual(outcome.status, 0, outcome.err)
        return json.loads(outcome.out)

    def skip_unless_declared(self):
        """Activations are declared as the kernels of one torch make them."""
        torch = self.result()["context"]["torch"]
        if not torch.startswith("2.11"):
            self.skipTest(f"declared for torch 2.11, this is {torch}")

    def test_every_row_of_a_run_has_both(self):
        self.assert_as_predicted(FSDP, rows=8)

    @needs_network_namespaces
    def test_hybrid_sharding_on_two_nodes(self):
        plan = with_cells(FSDP, topology=["2x2"], wrapper=["fsdp"], hybrid_shard=[True])
        self.assert_as_predicted(plan, rows=4)

    def test_one_rank_of_a_world(self):
        """Nothing is copied for the wire, where nothing is sent."""
        plan = with_cells(FSDP, topology=["3x2"], wrapper=["fsdp"], hybrid_shard=[True, False])
        self.assert_as_predicted(plan, "--backend", "fake", rows=8)

    def assert_as_predicted(self, plan, *arguments, rows):
        outcome = self.run_plan(plan, *arguments)
        self.assertEqual(outcome.status, 0, outcome.err)
        self.skip_unless_declared()
        cells = self.result()["cells"]
        self.assertEqual(len(cells), rows)
        for cell in cells:
            for name in ("peak_allocated_bytes", "peak_by_category"):
                self.assertEqual(cell[f"predicted_{name}"], cell[name], cell["cell"])

    def test_a_row_that_ran_out_of_memory_has_its_prediction(self):
        outcome = self.run_plan(with_cells(FSDP, model=["mlp"], memory_budget_bytes=["3MB"]))
        self.assertEqual(outcome.status, 4, outcome.err)
        for cell in self.result()["cells"]:
            self.assertEqual(cell["status"], "oom")
            self.assertGreater(cell["predicted_peak_allocated_bytes"], 3_000_000)

    def test_a_budget_is_the_predicted_peak_and_not_a_byte_less(self):
        of = ["--wrapper", "fsdp", "--strategy", "no_sync", "--micro-batch-size", "2"]
        of += ["--sequence-length", "16", "--accumulation-steps", "2"]
        (row,) = self.predicted("bert_tiny", *of)
        peak = row["predicted_peak_allocated_bytes"]
        plan = with_cells(FSDP, model=["bert_tiny"], wrapper=["fsdp"], strategy=["no_sync"])
        outcome = self.run_plan(with_cells(plan, memory_budget_bytes=[peak - 1, peak]))
        self.skip_unless_declared()
        self.assertEqual(outcome.status, 0, outcome.err)
        status = {t["cell"]["memory_budget_bytes"]: t["status"] for t in self.trials()}
        self.assertEqual(status, {peak - 1: "oom", peak: "ok"})
        for budget, fits in ((peak, True), (peak - 1, False)):
            (row,) = self.predicted("bert_tiny", *of, "--budget", f"{budget}B")
            self.assertEqual(row["fits"], fits)

    def test_how_far_a_budget_lets_accumulate(self):
        """The first kept gradient is what costs; more micro-batches add nothing."""
        of = ["mixtral_mini", "--wrapper", "fsdp", "--strategy", "no_sync", "--world-size", "4"]
        rows = self.predicted(*of, "--accumulation-steps", "1,2,3,16")
        peaks = [row["predicted_peak_allocated_bytes"] for row in rows]
        self.assertLess(peaks[0], peaks[1])
        self.assertEqual(peaks[1:], [peaks[1]] * 3)
        for budget, largest in ((peaks[0] - 1, 0), (peaks[1] - 1, 1), (peaks[1], 64)):
            (row,) = self.predicted(*of, "--budget", f"{budget}B")
            self.assertEqual(row["largest_accumulation_steps"], largest)

    def test_a_model_that_is_never_made(self):
        (row,) = self.predicted("mixtral_8x7b", "--wrapper", "fsdp", "--world-size", "8")
        self.assertEqual(
            sum(row["predicted_peak_by_category"].values()), row["predicted_peak_allocated_bytes"]
        )
        self.assertIn("micro-batch", row["place"])

    def test_the_table(self):
        outcome = self.call("predict", "memory", "bert_tiny", "--budget", "1GiB")
        self.assertEqual(outcome.status, 0, outcome.err)
        for words in ("peak bytes", "fits", "64 or more", "sharded_parameter", "micro-batch 2"):
            self.assertIn(words, outcome.out)

    def test_what_is_not_declared_is_said(self):
        outcome = self.call("predict", "memory", "bert_tiny", "--set", "lengths=mrpc")
        self.assertEqual(outcome.status, 0, outcome.err)
        self.assertIn("not declared", outcome.out)
        self.assertIn("examples differ in length", outcome.out)

    def test_refusals(self):
        for arguments, words in (
            (["nothing"], "nothing"),
            (["mlp", "--set", "wrapper=zero"], "one of ddp, fsdp"),
            (["mlp", "--set", "steps=3"], "fields of a plan's cells alone"),
            (["mlp", "--budget", "much"], "much"),
            (["mlp", "--topology", "nowhere"], "nowhere"),
        ):
            outcome = self.call("predict", "memory", *arguments)
            self.assertEqual(outcome.status, 2, outcome.err)
            self.assertIn(words, outcome.err)


if __name__ == "__main__":
    unittest.main()
