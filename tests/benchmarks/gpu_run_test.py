"""Whole runs on a GPU: counts are exact, times are the device's, and none is printed where ranks
share one. Skipped where the driver shows no GPU."""

import shutil
import subprocess
import unittest

from program import QUICK, ProgramTest, needs_network_namespaces, with_cells

STRATEGIES = ["baseline", "no_sync_improper", "no_sync", "accumulate"]
FOUR = with_cells(QUICK, strategy=STRATEGIES)


def gpus():
    """How many the driver lists."""
    if shutil.which("nvidia-smi") is None:
        return 0
    listed = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True)
    return sum(line.startswith("GPU ") for line in listed.stdout.splitlines())


@unittest.skipIf(gpus() == 0, "no GPU here: nvidia-smi lists none")
class GpuRunTest(ProgramTest):
    def run_on_gpu(self, plan, backend):
        outcome = self.run_plan(plan, "--device", "cuda", "--backend", backend, out=backend)
        self.assertEqual(outcome.status, 0, outcome.err)
        self.assertEqual(self.result(backend)["exit_status"], 0)
        return outcome

    def assert_counts(self, backend):
        for trial in self.trials(backend):
            self.assertEqual(trial["status"], "ok", trial["reason"])
            synced = 2 if trial["cell"]["strategy"] in ("baseline", "no_sync_improper") else 1
            ledger = trial["ledger"]
            self.assertEqual(ledger["per_step"]["all_reduce"]["count"], synced * ledger["buckets"])

    def assert_memory(self, backend):
        for trial in self.trials(backend):
            for rank in trial["ranks"]:
                self.assertGreater(rank["peak_allocated_bytes"], 0)
                self.assertGreaterEqual(rank["peak_reserved_bytes"], rank["peak_allocated_bytes"])

    def assert_times(self, backend, table):
        for cell in self.result(backend)["cells"]:
            if gpus() < 2:
                self.assertIsNone(cell["step_s"])
                self.assertEqual(cell["null_reasons"]["step_s"], "2 ranks share 1 GPU")
                self.assertIn("share 1 GPU", table)
            else:
                self.assertGreater(cell["step_s"]["mean"], 0)

    def test_nccl(self):
        outcome = self.run_on_gpu(FOUR, "nccl")
        self.assert_counts("nccl")
        self.assert_memory("nccl")
        self.assert_times("nccl", outcome.out)
        context = self.result("nccl")["context"]
        self.assertEqual(len(context["gpus"]), gpus())
        info = self.trials("nccl")[0]["model_info"]
        self.assertRegex(info["gpu"]["nccl"], r"^2\.\d+")
        self.assertTrue(info["nccl_transports"])

    def test_gloo_with_a_gpus_tensors(self):
        outcome = self.run_on_gpu(FOUR, "gloo")
        self.assert_counts("gloo")
        self.assert_times("gloo", outcome.out)

    def test_one_rank_has_times_that_add_up(self):
        self.run_on_gpu(with_cells(QUICK, topology=["1x1"], model=["bert_tiny"]), "nccl")
        trial = self.trials("nccl")[0]
        rank = trial["ranks"][0]
        # The phases are the device's: together they are the step, but for what lies between them.
        phases = sum(sum(times) for times in rank["phase_s"].values())
        # A busy host leaves the device waiting between them.
        self.assertLessEqual(phases, sum(rank["step_s"]) * 1.001)
        self.assertGreater(phases, 0)
        self.assertLessEqual(sum(rank["step_s"]), rank["block_s"] * 1.001 + 0.010)

    def test_a_paced_model_keeps_its_pace(self):
        plan = with_cells(QUICK, topology=["1x1"], model=["paced_bert_base_t4"], scale=[50])
        self.run_on_gpu(plan | {"steps": 10}, "nccl")
        # Two micro-batches of 0.096 s and the optimizer's time; no other rank to wait for. A busy
        # host makes steps longer, never shorter, and hardly ten in a row twice as long.
        shortest_s = min(self.trials("nccl")[0]["step_s"])
        self.assertGreater(shortest_s, 2 * 0.09)
        self.assertLess(shortest_s, 4 * 0.09)

    @needs_network_namespaces
    def test_nodes_talk_through_their_link(self):
        outcome = self.run_plan(
            with_cells(QUICK, topology=["2x1"]), "--device", "cuda", "--backend", "nccl"
        )
        self.assertEqual(outcome.status, 0, outcome.err)
        self.assertIn("NET/Socket", self.trials()[0]["model_info"]["nccl_transports"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
