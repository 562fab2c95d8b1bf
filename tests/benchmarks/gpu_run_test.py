"""Whole runs on a GPU: counts are exact, times are the device's, and none is printed where ranks
share one. Skipped where the driver shows no GPU."""

import shutil
import signal
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
    def run_on_gpu(self, plan, backend, out=None):
        out = out or backend
        outcome = self.run_plan(plan, "--device", "cuda", "--backend", backend, out=out)
        self.assertEqual(outcome.status, 0, outcome.err)
        self.assertEqual(self.result(out)["exit_status"], 0)
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
        # The phases are the device's: together they are the step, without the gaps between them.
        phases = sum(sum(times) for times in rank["phase_s"].values())
        # A busy host leaves the device waiting between them.
        self.assertLessEqual(phases, sum(rank["step_s"]) * 1.001)
        self.assertGreater(phases, 0)
        self.assertAlmostEqual(sum(rank["step_s"]), rank["block_s"], 6)

    def peaks(self, **cells):
        """Returns the peaks held and reserved in each trial of one rank, by model."""
        plan = with_cells(QUICK, topology=["1x1"], **cells) | {"rounds": 3}
        self.run_on_gpu(plan, "nccl")
        found = {}
        for trial in self.trials("nccl"):
            rank = trial["ranks"][0]
            found.setdefault(trial["cell"]["model"], []).append(
                (rank["peak_allocated_bytes"], rank["peak_reserved_bytes"])
            )
        return found

    def test_memory_is_of_one_model_whatever_ran_before(self):
        peaks = self.peaks(model=["mlp", "bert_tiny"])
        for model, seen in peaks.items():
            # Segments that settling needed stay reserved, and how many those were varies.
            self.assertEqual(len({allocated for allocated, _ in seen}), 1, (model, seen))
        self.assertLess(max(peaks["mlp"]), min(peaks["bert_tiny"]))

    def test_a_budget_refuses_and_ends_with_its_trial(self):
        reserved = max(reserved for _, reserved in self.peaks(model=["bert_tiny"])["bert_tiny"])
        budgets = [reserved // 2, 2 * reserved]
        plan = with_cells(
            QUICK, topology=["1x1"], model=["bert_tiny"], memory_budget_bytes=[*budgets, 0]
        )
        self.run_on_gpu(plan | {"rounds": 2}, "nccl", out="budgets")
        for trial in self.trials("budgets"):
            refused = trial["cell"].get("memory_budget_bytes", 0) == budgets[0]
            self.assertEqual(trial["status"], "oom" if refused else "ok", trial["reason"])

    def test_a_paced_model_keeps_its_pace(self):
        plan = with_cells(QUICK, topology=["1x1"], model=["paced_bert_base_t4"], scale=[50])
        self.run_on_gpu(plan | {"steps": 10}, "nccl")
        # Two micro-batches of 0.096 s and the optimizer's time; no other rank to wait for. A busy
        # host makes steps longer, never shorter, and hardly ten in a row twice as long.
        shortest_s = min(self.trials("nccl")[0]["step_s"])
        self.assertGreater(shortest_s, 2 * 0.09)
        self.assertLess(shortest_s, 4 * 0.09)

    def test_fsdp_gathers_and_reduces_what_it_declares(self):
        plan = with_cells(
            QUICK,
            model=["bert_tiny"],
            wrapper=["fsdp"],
            strategy=["baseline", "no_sync", "sync_each_batch"],
        )
        for backend in ("nccl", "gloo"):
            with self.subTest(backend=backend):
                self.run_on_gpu(plan, backend, out=f"fsdp_{backend}")
                for trial in self.trials(f"fsdp_{backend}"):
                    self.assertEqual(trial["status"], "ok", trial["reason"])
                    ledger = trial["ledger"]
                    self.assertTrue(ledger["matches"], ledger["mismatch"])
                    reduced = 1 if trial["cell"]["strategy"] == "no_sync" else 2
                    self.assertEqual(
                        ledger["per_step"]["reduce_scatter"]["count"], reduced * ledger["buckets"]
                    )
        self.assert_memory("fsdp_nccl")

    def test_what_no_sync_costs_under_fsdp(self):
        plan = with_cells(
            QUICK, model=["bert_mini"], wrapper=["fsdp"], strategy=["no_sync", "sync_each_batch"]
        )
        self.run_on_gpu(plan, "nccl")
        peak = {
            trial["cell"]["strategy"]: max(rank["peak_allocated_bytes"] for rank in trial["ranks"])
            for trial in self.trials("nccl")
        }
        self.assertGreater(peak["no_sync"], peak["sync_each_batch"])

    def test_what_is_offloaded_leaves_the_gpu(self):
        plan = with_cells(
            QUICK,
            topology=["1x1"],
            model=["bert_tiny"],
            wrapper=["fsdp"],
            offload=["none", "optimizer_state", "parameters"],
        )
        self.run_on_gpu(plan, "nccl")
        seen = {}
        for trial in self.trials("nccl"):
            self.assertEqual(trial["status"], "ok", trial["reason"])
            what = trial["cell"].get("offload", "none")
            rank = trial["ranks"][0]
            self.assertEqual("offload" in rank["phase_s"], what != "none")
            self.assertNotIn("host_peak_allocated_bytes", rank, "not counted beside a GPU")
            seen[what] = rank["peak_allocated_bytes"], trial["ledger"]["per_step"]
            elements = trial["model_info"]["parameters"]
        for what, (peak, counts) in seen.items():
            self.assertEqual(counts, seen["none"][1], what)
            if what != "none":
                # The moments, and more with the parameters.
                self.assertGreaterEqual(seen["none"][0] - peak, 8 * elements, what)
        self.assertLess(seen["parameters"][0], seen["optimizer_state"][0])

    @needs_network_namespaces
    def test_hybrid_sharding_has_three_communicators(self):
        plan = with_cells(
            QUICK,
            topology=["2x2_200mbit"],
            model=["bert_tiny"],
            wrapper=["fsdp"],
            hybrid_shard=[True],
        )
        self.run_on_gpu(plan, "nccl")
        for trial in self.trials("nccl"):
            ledger = trial["ledger"]
            self.assertTrue(ledger["matches"], ledger["mismatch"])
            self.assertEqual(
                ledger["per_step"]["all_reduce"]["count"],
                ledger["per_step"]["reduce_scatter"]["count"],
            )
            # Each communicator's own are one after the other; those of others may lie beside them.
            for rank in trial["ranks"]:
                for event in rank["timeline_events"]:
                    self.assertGreaterEqual(event["end_s"], event["start_s"])

    def test_a_pipeline_hands_on_activations(self):
        plan = with_cells(QUICK, model=["bert_tiny"], wrapper=["pipeline"], strategy=["pipelined"])
        self.run_on_gpu(plan, "nccl")
        for trial in self.trials("nccl"):
            self.assertTrue(trial["ledger"]["matches"], trial["ledger"]["mismatch"])
            self.assertIn("send", trial["ledger"]["per_step"])

    def test_sync_batch_norm_and_compression(self):
        for name, cells in {
            "batch_norm": {"model": ["convnet"], "sync_batch_norm": [True]},
            "fp16": {"compression": ["fp16"]},
        }.items():
            with self.subTest(name=name):
                self.run_on_gpu(with_cells(QUICK, **cells), "nccl", out=name)
                for trial in self.trials(name):
                    self.assertTrue(trial["ledger"]["matches"], trial["ledger"]["mismatch"])

    def test_a_rank_that_dies_is_named_and_the_others_end(self):
        plan = with_cells(QUICK, model=["bert_tiny"]) | {"steps": 2000, "timeout_s": 30}
        process = self.start(
            *("run", self.plan_file(plan), "--out", self.place / "dead"),
            *("--device", "cuda", "--backend", "nccl"),
        )
        rank, _ = self.hold(1, lambda activity, _: activity in ("forward", "backward"), step=3)
        rank.signal(signal.SIGKILL)
        outcome = self.finish(process)
        self.assertNotEqual(outcome.status, 0)
        [trial] = self.trials("dead")
        self.assertEqual(trial["status"], "failed")
        self.assertIn("rank 1/2", trial["reason"])
        self.assertIn("killed by signal 9", trial["reason"])

    def test_a_branch_that_the_host_reads_is_said(self):
        outcome = self.run_on_gpu(
            with_cells(QUICK, model=["branching"], find_unused_parameters=[True]), "nccl"
        )
        self.assertIn("the host waits for the GPU, to read the first token", outcome.out)

    @needs_network_namespaces
    def test_nodes_talk_through_their_link(self):
        outcome = self.run_plan(
            with_cells(QUICK, topology=["2x1"]), "--device", "cuda", "--backend", "nccl"
        )
        self.assertEqual(outcome.status, 0, outcome.err)
        self.assertIn("NET/Socket", self.trials()[0]["model_info"]["nccl_transports"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
