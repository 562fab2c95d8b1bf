"""Plans on GPUs of paper: the same collectives as on the CPU over gloo, in the same order, memory
of torch's own CUDA allocator, and no time."""

import json
import os
import unittest
from pathlib import Path

from program import (
    CACHE,
    PROGRAM,
    QUICK,
    ProgramTest,
    free_port,
    needs_network_namespaces,
    with_cells,
)

TORCH_PYTHON = os.environ["GRADSYNC_TEST_PYTHON"]
STRATEGIES = ["baseline", "no_sync_improper", "no_sync", "accumulate"]
SAID = "GPUs of paper: nothing was computed or timed"
BRIEF = QUICK | {"steps": 2, "warmup_steps": 2}


def part(name, **cells):
    return {"name": name, "cells": cells}


# Every wrapper, and the options that change what it sends.
EVERYTHING = (
    BRIEF
    | {"name": "everything"}
    | {
        "parts": [
            part("ddp", strategy=STRATEGIES),
            part("unused", model=["branching"], find_unused_parameters=[True]),
            part("buckets", bucket_cap_bytes=["100KiB"], gradient_as_bucket_view=[True]),
            part("fp16", compression=["fp16"]),
            part("batch_norm", model=["convnet"], sync_batch_norm=[True]),
            part(
                "fsdp",
                model=["bert_tiny"],
                wrapper=["fsdp"],
                strategy=["baseline", "no_sync", "sync_each_batch"],
            ),
            part("offload", model=["bert_tiny"], wrapper=["fsdp"], offload=["parameters"]),
            part("by_hand", wrapper=["by_hand", "by_hand_coalesced"]),
            part("pipeline", model=["bert_tiny"], wrapper=["pipeline"], strategy=["pipelined"]),
        ]
    }
)


def has_module():
    return (Path(PROGRAM).parent / "libgradsync_cuda.so").exists()


def sent(trial):
    """Every collective of every rank, in order: what it is and how large."""
    return [
        [(event["op"], event["bytes"]) for event in rank["timeline_events"]]
        for rank in trial["ranks"]
    ]


class PaperPlanTest(ProgramTest):
    def run_on_paper(self, plan, *arguments, out="paper", **env):
        env = {"XDG_CACHE_HOME": str(CACHE)} | env
        return self.run_plan(plan, "--device", "paper", *arguments, out=out, env=env)

    def on_paper(self, plan, *arguments, out="paper"):
        outcome = self.run_on_paper(plan, *arguments, out=out)
        self.assertEqual(outcome.status, 0, outcome.err)
        for trial in self.trials(out):
            if trial["status"] == "ok":
                self.assertTrue(trial["ledger"]["matches"], trial["ledger"]["mismatch"])
        return outcome

    def assert_same_collectives(self, plan, out="paper"):
        """Returns the trials on paper."""
        self.on_paper(plan, out=out)
        outcome = self.run_plan(plan, "--device", "cpu", "--backend", "gloo", out=f"{out}_gloo")
        self.assertEqual(outcome.status, 0, outcome.err)
        on_cpu = {trial["order"]: trial for trial in self.trials(f"{out}_gloo")}
        trials = self.trials(out)
        self.assertEqual(len(trials), len(on_cpu))
        for trial in trials:
            twin = on_cpu[trial["order"]]
            self.assertEqual(trial["cell"], twin["cell"])
            self.assertEqual(trial["status"], twin["status"], trial["cell"])
            if trial["status"] != "ok":
                continue
            self.assertEqual(trial["ledger"]["per_step"], twin["ledger"]["per_step"])
            self.assertEqual(sent(trial), sent(twin), trial["cell"])
        return trials


@unittest.skipUnless(has_module(), "this build has no CUDA module")
class PaperRunTest(PaperPlanTest):
    def test_every_wrapper_sends_what_it_sends_over_gloo(self):
        self.assert_same_collectives(EVERYTHING)

    @needs_network_namespaces
    def test_groups_of_nodes_too(self):
        self.assert_same_collectives(
            with_cells(
                BRIEF,
                topology=["2x2_200mbit"],
                model=["bert_tiny"],
                wrapper=["fsdp"],
                hybrid_shard=[True],
            )
        )

    def test_memory_is_the_allocators_and_times_are_none(self):
        outcome = self.on_paper(with_cells(BRIEF, model=["bert_tiny"], strategy=STRATEGIES))
        self.assertIn(f"**{SAID}**", outcome.out)
        for trial in self.trials("paper"):
            for rank in trial["ranks"]:
                self.assertGreater(rank["peak_allocated_bytes"], 0)
                self.assertEqual(rank["peak_allocated_bytes"] % 512, 0)
                self.assertGreaterEqual(rank["peak_reserved_bytes"], rank["peak_allocated_bytes"])
                self.assertEqual(rank["peak_reserved_bytes"] % (2 << 20), 0)
        result = self.result("paper")
        self.assertEqual(result["context"]["timing_reason"], SAID)
        for cell in result["cells"]:
            self.assertEqual(cell["timing"], "paper")
            for field in ("step_s", "exposed_comm_s", "account"):
                self.assertIsNone(cell[field])
                self.assertEqual(cell["null_reasons"][field], SAID)

    def skip_unless_declared(self, out):
        """cuBLAS takes its own workspaces from torch 2.15 on, and not from the allocator."""
        torch = self.result(out)["context"]["torch"]
        if not torch.startswith("2.11"):
            self.skipTest(f"declared for torch 2.11, this is {torch}")

    def test_what_is_allocated_is_what_was_predicted(self):
        plan = BRIEF | {
            "name": "predicted",
            "parts": [
                part("ddp", model=["mlp", "bert_tiny"], strategy=["baseline", "no_sync"]),
                part(
                    "fsdp",
                    model=["mlp", "bert_tiny"],
                    wrapper=["fsdp"],
                    strategy=["no_sync", "sync_each_batch"],
                ),
                # Where blocks lie is decided before the first step.
                part("four_ranks", topology=["1x4"], model=["bert_tiny"], wrapper=["fsdp"]),
            ],
        }
        self.on_paper(plan)
        self.skip_unless_declared("paper")
        trials = self.trials("paper")
        self.assertEqual(len(trials), 9)
        for trial in trials:
            predicted = trial["predicted_peak_allocated_bytes"]
            for rank in trial["ranks"]:
                self.assertEqual(rank["peak_allocated_bytes"], predicted, trial["cell"])

    def test_accumulation_ends_where_it_was_predicted_to(self):
        for wrapper, budget in (("ddp", "180MiB"), ("fsdp", "164MiB")):
            axes = [f"wrapper={wrapper}", "accumulation_steps=1,2", "device=paper"]
            sets = [word for axis in axes for word in ("--set", axis)]
            outcome = self.call(
                "predict", "memory", "bert_tiny", *sets, "--budget", budget, "--json"
            )
            self.assertEqual(outcome.status, 0, outcome.err)
            predicted = json.loads(outcome.out)
            self.assertEqual([row["fits"] for row in predicted], [True, False])
            self.assertEqual({row["largest_accumulation_steps"] for row in predicted}, {1})
            plan = with_cells(
                BRIEF,
                model=["bert_tiny"],
                wrapper=[wrapper],
                accumulation_steps=[1, 2],
                memory_budget_bytes=[budget],
            )
            self.on_paper(plan, out=wrapper)
            self.skip_unless_declared(wrapper)
            ended = {
                trial["cell"]["accumulation_steps"]: trial["status"]
                for trial in self.trials(wrapper)
            }
            self.assertEqual(ended, {1: "ok", 2: "oom"}, wrapper)

    def test_a_budget_ends_in_torchs_own_out_of_memory(self):
        plan = with_cells(BRIEF, model=["bert_tiny"], memory_budget_bytes=["40MiB", "4GiB"])
        self.on_paper(plan)
        statuses = {
            trial["cell"]["memory_budget_bytes"]: (trial["status"], trial["reason"])
            for trial in self.trials("paper")
        }
        self.assertEqual(statuses[4 << 30][0], "ok")
        self.assertEqual(statuses[40 << 20][0], "oom")

    def test_what_nccl_fails_at_is_the_trials_reason(self):
        for injected, status, words in (
            ("duplicate_gpu", "failed", "NCCL error"),
            ("async_error:rank=1,call=9", "failed", "NCCL .*(was aborted|remote process exited)"),
            ("never:rank=1,call=9", "timeout", "in collective #9"),
        ):
            with self.subTest(injected):
                plan = QUICK | {"timeout_s": 3}
                outcome = self.run_on_paper(plan, out=injected, GRADSYNC_PAPER_NCCL=injected)
                self.assertEqual(outcome.status, 5, outcome.err)
                [trial] = self.trials(injected)
                self.assertEqual(trial["status"], status)
                self.assertRegex(trial["reason"], words)

    def test_instances_of_one_gpu_are_refused_where_nccl_takes_them_for_it(self):
        port = str(free_port())
        place = {
            "WORLD_SIZE": "2",
            "LOCAL_WORLD_SIZE": "2",
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": port,
        }
        tasks = []
        for rank in range(2):
            instance = f"MIG-70617065-7200-0000-0000-000000000{rank + 1}01"
            env = place | {"RANK": str(rank), "LOCAL_RANK": str(rank), "GRADSYNC_PAPER_MIG": "2"}
            env |= {"CUDA_VISIBLE_DEVICES": instance, "XDG_CACHE_HOME": str(CACHE)}
            options = ("--device", "paper", "--on", "h100", "--out", self.place / "run")
            tasks.append(self.start("run", self.plan_file(QUICK), *options, env=env))
        first, _ = [self.finish(task) for task in tasks]
        if first.status == 0:  # its NCCL is 2.30 or later
            return
        self.assert_refused(first, "MIG instances of one GPU", "nvidia-smi -mig 0", status=4)

    def run_where_the_driver_is_of_paper(self, *arguments, out, **env):
        """The program sees the GPUs, too: `gradsync watch --on` starts it as its job."""
        job = (PROGRAM, "run", self.plan_file(QUICK), "--out", self.place / out, *arguments)
        options = ("--on", "2xh100", "--python", TORCH_PYTHON)
        return self.call("watch", *options, "--", *job, env={"XDG_CACHE_HOME": str(CACHE)} | env)

    def test_what_holds_gpus_down_under_load_is_told(self):
        for throttle, hertz, counts in (
            ("", None, {}),
            ("sw_power_cap:900", 900_000_000, {"sw_power_cap": 1}),
        ):
            with self.subTest(throttle):
                outcome = self.run_where_the_driver_is_of_paper(
                    *("--device", "paper"),
                    out=f"held {throttle}",
                    GRADSYNC_PAPER_THROTTLE=throttle,
                )
                self.assertEqual(outcome.status, 0, outcome.err)
                loaded = self.result(f"held {throttle}")["context"]["gpus_under_load"]
                self.assertEqual([gpu["readings"] for gpu in loaded], [1, 1])
                self.assertEqual([gpu["least_sm_clock_hz"] for gpu in loaded], [hertz] * 2)
                self.assertEqual([gpu["throttled"] for gpu in loaded], [counts] * 2)
                said = "GPU 1 ran below its clocks under load: sw_power_cap in 1 of 1 readings"
                self.assertEqual(said in outcome.out, bool(throttle), outcome.out)

    def test_gpus_of_paper_are_not_taken_for_real_ones(self):
        outcome = self.run_where_the_driver_is_of_paper("--device", "cuda", out="run")
        self.assertEqual(outcome.status, 2, outcome.err)
        self.assertIn("the GPUs that are here are of paper: use --device paper", outcome.err)

    def test_what_does_not_go_together_is_refused(self):
        for arguments, words in {
            ("--device", "paper", "--backend", "gloo"): "backend",
            ("--device", "cpu", "--on", "8xh100"): "none where device is not",
            ("--device", "paper", "--on", "8xh1000"): "GPUs are v100-16",
        }.items():
            with self.subTest(arguments=arguments):
                self.assert_refused(self.run_plan(QUICK, *arguments), words)

    def test_nothing_is_left(self):
        before = set(os.listdir("/dev/shm"))
        self.on_paper(BRIEF)
        self.assertEqual(set(os.listdir("/dev/shm")) - before, set())


if __name__ == "__main__":
    unittest.main(verbosity=2)
