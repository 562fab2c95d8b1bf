"""gradsync watch --seconds on jobs of NCCL, on GPUs of paper, where CUPTI cannot be had: what the
profiler leaves of such a job, and that it stays out of the way of a profiler of the job's own. In a
test that says so kernels are then written into the job's traces, as a GPU would have run them, and
the job is no longer one on paper.

Covers: harness/watch/inject/hook/gradsync_watch_seconds.py.
"""

import json
import unittest

from program import free_port
from watch_test import FORKED_RANKS, TORCH_PYTHON, WatchTest, watched_server

GPUS = "2xh100"
RANKS, STEPS, RECORDED = 2, 9, 4
# Two ranks that synchronize in both of their micro-batches.
TRAINING = f"""import os, torch, torch.distributed as dist
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("nccl")
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(64, 64).cuda())
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
for step in range({STEPS}):
    for micro_batch in range(2):
        model(torch.ones(8, 64, device="cuda")).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
dist.destroy_process_group()
"""
# Each rank by itself has another reason for which nothing can be recorded. Those with a profiler
# say how many steps it saw.
ALONE = """import json, os, sys, torch
import gradsync_watch_seconds as seconds
from torch.profiler import profile
how = sys.argv[1 + int(os.environ["RANK"])]
place = "cpu" if how == "no_gpu" else "cuda"
model = torch.nn.Linear(64, 64).to(place)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
if how == "larger":
    seconds.MOST_BYTES = 1
if how == "in_backward":
    for parameter in model.parameters():
        parameter.register_post_accumulate_grad_hook(lambda _: optimizer.step())
own = None
for step in range(5 if how == "short" else 9):
    if how == f"profiles_from_{step}":
        own = profile()
        own.start()
    model(torch.ones(8, 64, device=place)).sum().backward()
    if how != "in_backward":
        optimizer.step()
if own:
    own.stop()
    seen = sum(event.name == "Optimizer.step#SGD.step" for event in own.events())
    print(json.dumps([how, seen]))
"""
REASONS = {
    "no_gpu": "the job uses no GPU; seconds of gloo need no --seconds",
    "larger": "the trace of 4 steps is larger than 0 MiB",
    "in_backward": "an optimizer of the job steps within backward",
    "short": "the job ended after 5 optimizer steps, and it takes 7",
    "profiles_from_1": "the job has a profiler of its own; gradsync judge reads its traces",
    "profiles_from_5": "the job has a profiler of its own; gradsync judge reads its traces",
}
NO_CUPTI = "its trace has no work of a GPU: CUPTI may be in use"
US_AHEAD = 1000  # of all that the hosts did: their GPUs run behind them


def add_kernels(traces):
    """Adds to each rank's trace the kernels of 2 micro-batches a step, which compute and then
    all-reduce, both in 1500 us, and of the optimizer, in 100. Rank 1 comes 200 later.
    """
    ranges = [
        event
        for trace in traces
        for event in trace["traceEvents"]
        if event.get("ph") == "X" and event.get("cat") == "cpu_op"
    ]
    begin = max(event["ts"] + event["dur"] for event in ranges) + US_AHEAD
    for rank, trace in enumerate(traces):
        now, events = begin, trace["traceEvents"]
        names = ("c10d::allreduce_", "Optimizer.step#SGD.step")
        calls = [event for event in events if event.get("name") in names and event["ph"] == "X"]
        for number, call in enumerate(sorted(calls, key=lambda call: call["ts"])):
            is_step = call["name"] != names[0]
            computes = 100 if is_step else 1000 + 200 * rank
            work = [("gemm", computes, 7)]
            if not is_step:
                work.append(("ncclDevKernel_AllReduce_Sum_f32_RING_LL", 1500 - computes, 8))
            for place, (name, took, stream) in enumerate(work):
                told = {"correlation": 10**6 + 2 * number + place, "device": 0, "stream": stream}
                at = {"ph": "X", "pid": call["pid"], "tid": call["tid"]}
                launch = {"cat": "cuda_runtime", "name": "cudaLaunchKernel", "dur": 0.001}
                events.append(at | launch | {"ts": call["ts"] + 0.01, "args": told})
                kernel = {"cat": "kernel", "name": name, "ts": now, "dur": took}
                events.append(at | kernel | {"args": told})
                now += took


class SecondsTest(WatchTest):
    def watch_ranks(self, ranks, text, *arguments):
        """Returns the page as JSON, and what the job printed."""
        script, page = self.place / "train.py", self.place / "page.json"
        script.write_text(text)
        outcome = self.watch(
            *(TORCH_PYTHON, FORKED_RANKS, ranks, script, *arguments),
            options=("--on", GPUS, "--json", page),
            env={
                "MASTER_PORT": str(free_port()),
                "OMP_NUM_THREADS": "1",
                **watched_server("--on", GPUS, GRADSYNC_WATCH_SECONDS="1").place,
            },
        )
        self.assertEqual(outcome.status, 0, outcome.err)
        return json.loads(page.read_text()), outcome.out

    def test_the_job_is_asked_by_the_option(self):
        outcome = self.watch("env", options=("--seconds",))
        self.assertIn("GRADSYNC_WATCH_SECONDS=1", outcome.out.split())
        outcome = self.watch("env", options=("--seconds", "--on", GPUS))
        self.assertEqual(outcome.status, 2)
        outcome = self.watch("env", options=("--seconds", "--account", "--every", "6"))
        self.assertEqual(outcome.status, 2)

    def test_kernels_in_the_traces_of_a_job_of_nccl(self):
        page, _ = self.watch_ranks(RANKS, TRAINING)
        self.assertEqual(page["verdicts"][0]["kind"], "more_than_once")
        self.assertEqual(len([note for note in page["faults"] if NO_CUPTI in note]), 1)

        folder = self.events_folder()
        (folder / "on_paper").unlink()
        files = sorted(folder.glob("seconds-*.json"), key=lambda file: rank_of(file, folder))
        self.assertEqual(len(files), RANKS)
        traces = [json.loads(file.read_text()) for file in files]
        add_kernels(traces)
        for file, trace in zip(files, traces, strict=True):
            file.write_text(json.dumps(trace))
        said = self.call("report", folder, "--format", "json")
        page = json.loads(said.out)
        self.assertEqual(page["verdicts"][0]["kind"], "more_than_once")
        self.assertEqual([note for note in page["faults"] if "seconds" in note], [])
        step = page["per_step"]
        self.assertEqual(step["gpu"]["steps"], RECORDED - 1)
        self.assertAlmostEqual(step["step_s"], 3100e-6, places=8)
        self.assertAlmostEqual(step["excess_s"], 300e-6, places=8)
        self.assertAlmostEqual(step["gpu"]["exposed_s"], 1000e-6, places=8)
        most = step["gpu"]["most_exposed"]
        self.assertEqual([most["name"], most["of"]], ["all_reduce", 2])
        self.assertAlmostEqual(most["exposed_s"], 500e-6, places=8)
        self.assertAlmostEqual(page["series"]["exposed_s"], 600e-6, places=8)
        self.assertEqual(page["series"]["latest_rank"], 1)

    def test_nothing_is_recorded_for_a_reason_and_the_jobs_own_profile_is_whole(self):
        page, out = self.watch_ranks(len(REASONS), ALONE, *REASONS)
        told = {note for note in page["faults"] if "no seconds" in note}
        self.assertEqual(told, {f"no seconds of its GPU: {each}" for each in REASONS.values()})
        own = dict(map(json.loads, out.split("\n")[:-1]))
        self.assertEqual(own, {"profiles_from_1": 8, "profiles_from_5": 4})
        self.assertEqual(list(self.events_folder().glob("seconds-*")), [])


def rank_of(file, folder):
    """By the file that the hook wrote in the same process."""
    lines = (folder / file.name.replace("seconds", "hook")).with_suffix(".jsonl")
    told = map(json.loads, lines.read_text().splitlines())
    return next(line["rank"] for line in told if line["kind"] == "rank")


if __name__ == "__main__":
    unittest.main()
