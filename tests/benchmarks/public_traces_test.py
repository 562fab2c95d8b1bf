"""gradsync judge on traces that others published of what they ran on GPUs.

They are none of this repository: GRADSYNC_PUBLIC_TRACES names a folder with a folder of each
repository of public_traces.json, which has their commits, paths and sums, and what judge says of
each. Without the variable the cases are skipped, as is a trace that is not in the folder.

The seconds are compared with those of two others: a sum over the trace's own events, written anew
here, and HolisticTraceAnalysis (HTA) where GRADSYNC_HTA_PYTHON names an interpreter that has it.
Where the two disagree, HTA is wrong:

  - In a trace of several ProfilerStep# HTA leaves out what the host launched before the trace,
    although the GPU ran it within the trace. The list calls such traces "launched". HTA then agrees
    with the sum over the rest.
  - HTA cuts times to whole microseconds, so that kernels of a few microseconds lose a part of them,
    unless HTA_DISABLE_NS_ROUNDING=1 is set, as it is here. It leaves out the last step of a
    profiler's schedule, unless that is turned off, as it is here.
  - Older versions took kernels of NCCL 2.19 and later ("ncclDevKernel_...") for computation: HTA's
    issues 109, 208 and 241. Its search for stragglers still finds none of them (issue 360). Here
    they are communication.

Covers: judge_command.cpp, nccl_kernels.cpp, device_events.cpp, predict_traced.cpp.
"""

import functools
import gzip
import hashlib
import json
import os
import subprocess
import unittest
from pathlib import Path

from program import PROGRAM, ProgramTest

LIST = json.loads(Path(__file__).with_name("public_traces.json").read_text())
FOLDER = os.environ.get("GRADSYNC_PUBLIC_TRACES")
HTA_PYTHON = os.environ.get("GRADSYNC_HTA_PYTHON")
WITHIN = 0.01
PREDICTED_WITHIN = 0.03
OF_HTA = """
import json, logging, sys, warnings
warnings.filterwarnings("ignore")
logging.disable(logging.CRITICAL)
from hta.trace_analysis import TraceAnalysis
trace = TraceAnalysis({0: sys.argv[1]}, "/", include_last_profiler_step=True)
times = trace.get_temporal_breakdown(visualize=False).iloc[0]
overlap = trace.get_comm_comp_overlap(visualize=False).iloc[0]
print(json.dumps({
    "span_s": times["kernel_time(us)"] / 1e6,
    "computation_s": times["compute_time(us)"] / 1e6,
    "idle_s": times["idle_time(us)"] / 1e6,
    "overlap_percent": overlap["comp_comm_overlap_pctg"],
}))
"""


def merged(spans):
    """Returns what spans of (begin, end) cover."""
    covered = []
    for begin, end in sorted(spans):
        if covered and begin <= covered[-1][1]:
            covered[-1][1] = max(covered[-1][1], end)
        else:
            covered.append([begin, end])
    return covered


def length(spans):
    return sum(end - begin for begin, end in merged(spans))


def summed(path, launched_alone=False):
    """Returns the times of a GPU, in seconds, by what its trace's events are called."""
    text = path.read_bytes()
    events = json.loads(gzip.decompress(text) if path.suffix == ".gz" else text)["traceEvents"]
    launched = {
        event.get("args", {}).get("correlation")
        for event in events
        if str(event.get("cat")).endswith(("_runtime", "_driver"))
    }
    communication, computation, everything = [], [], []
    for event in events:
        if event.get("cat") not in ("kernel", "gpu_memcpy", "gpu_memset"):
            continue
        if launched_alone and event["args"]["correlation"] not in launched:
            continue
        span = (event["ts"], event["ts"] + event["dur"])
        everything.append(span)
        if event["cat"] == "kernel":
            (communication if event["name"].startswith("nccl") else computation).append(span)
    if not everything:
        return None
    both = length(communication + computation)
    total = max(end for _, end in everything) - min(begin for begin, _ in everything)
    times = {
        "span_s": total,
        "communication_s": length(communication),
        "computation_s": length(computation),
        "overlapped_s": length(communication) + length(computation) - both,
        "exposed_s": both - length(computation),
        "idle_s": total - length(everything),
    }
    return {name: microseconds / 1e6 for name, microseconds in times.items()}


@functools.cache
def traces():
    """Returns each trace of the list that is in the folder, by its path."""
    found = []
    for repository in LIST["repositories"]:
        for trace in repository["traces"]:
            path = Path(FOLDER, repository["folder"], trace["path"])
            if path.exists():
                found.append((path, trace))
    return found


class TracesTest(ProgramTest):
    def predicted(self, *words):
        outcome = self.call("predict", "step", "--json", *words)
        self.assertEqual(outcome.status, 0, outcome.err)
        return json.loads(outcome.out)

    def assert_predicted_as_it_ran(self, row):
        measured = row["measured_step_s"]
        self.assertAlmostEqual(row["step_s"], measured, delta=PREDICTED_WITHIN * measured)


@unittest.skipUnless(FOLDER, "GRADSYNC_PUBLIC_TRACES names no folder with them")
class PublicTracesTest(TracesTest):
    def judged(self, *paths):
        file = self.place / "judged.json"
        outcome = self.call("judge", "--json", file, *paths)
        self.assertEqual(outcome.status, 0, outcome.err)
        return json.loads(file.read_text()), outcome.out

    def each(self):
        """Yields each trace with what judge says of it."""
        self.assertTrue(traces(), f"no trace of the list is in {FOLDER}")
        for path, trace in traces():
            yield path, trace, *self.judged(path)

    def test_they_are_those_of_the_list(self):
        for path, trace in traces():
            with self.subTest(trace["path"]):
                self.assertEqual(hashlib.sha256(path.read_bytes()).hexdigest(), trace["sha256"])

    def test_each_is_judged_rightly_or_refused_with_a_reason(self):
        for path, trace, judged, page in self.each():
            first = judged["verdicts"][0]
            with self.subTest(path):
                self.assertEqual(first["kind"], trace["verdict"], page)
                self.assertEqual(first["cause"], trace["cause"], page)
                self.assertFalse(judged["has_excess"], page)

    def test_the_step_of_a_job_under_ddp_is_predicted_as_it_ran(self):
        predicted = 0
        for path, trace, judged, _ in self.each():
            if not trace["verdict"].endswith("per_step"):
                continue
            with self.subTest(path):
                (row,) = self.predicted("--trace", path)
                self.assert_predicted_as_it_ran(row)
                self.assertAlmostEqual(row["measured_step_s"], judged["per_step"]["step_s"])
                predicted += 1
        self.assertGreater(predicted, 0)

    def test_seconds_are_those_of_the_events(self):
        for path, _, judged, page in self.each():
            times = summed(path)
            gpu = judged["ranks"][0]["gpu"]
            with self.subTest(path):
                self.assertEqual(gpu is None, times is None, page)
                for name, value in (times or {}).items():
                    # A double keeps quarters of a microsecond of a time since 1970.
                    delta = 1e-6 + 1e-4 * times["span_s"]
                    self.assertAlmostEqual(gpu[name], value, delta=delta, msg=name)

    @unittest.skipUnless(HTA_PYTHON, "GRADSYNC_HTA_PYTHON names no Python that has it")
    def test_seconds_are_those_of_holistic_trace_analysis(self):
        compared = 0
        for path, trace, judged, _ in self.each():
            if not trace["hta"]:
                continue
            done = subprocess.run(
                [HTA_PYTHON, "-c", OF_HTA, path],
                capture_output=True,
                text=True,
                check=True,
                env=os.environ | {"HTA_DISABLE_NS_ROUNDING": "1"},
            )
            of_hta = json.loads(done.stdout.splitlines()[-1])
            if trace["hta"] == "launched":
                self.assert_alike(summed(path, launched_alone=True), of_hta)
            else:
                self.assert_alike(judged["ranks"][0]["gpu"], of_hta)
            compared += 1
        self.assertGreater(compared, 0)

    def assert_alike(self, gpu, of_hta):
        for name in ("span_s", "computation_s", "idle_s"):
            self.assertAlmostEqual(gpu[name], of_hta[name], delta=WITHIN * of_hta[name], msg=name)
        if not gpu["communication_s"]:
            return
        percent = 100 * gpu["overlapped_s"] / gpu["communication_s"]
        # It rounds to two places.
        delta = WITHIN * of_hta["overlap_percent"] + 0.005
        self.assertAlmostEqual(percent, of_hta["overlap_percent"], delta=delta, msg="overlap")


class MadeTraceTest(TracesTest):
    """Steps that are alike, of a processor's and its GPU's. 100 MB of them are read in 5 s of a
    processor, and in 500 MB."""

    def test_a_hundred_megabytes(self):
        file = self.place / "large.json"
        self.write(file, megabytes=100)
        pid = os.posix_spawn(
            PROGRAM,
            [PROGRAM, "judge", "--json", str(self.place / "judged.json"), str(file)],
            os.environ,
            file_actions=[(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)],
        )
        _, status, used = os.wait4(pid, 0)
        self.assertEqual(status, 0)
        judged = json.loads((self.place / "judged.json").read_text())
        self.assertEqual(judged["verdicts"][0]["kind"], "once_per_step")
        self.assertAlmostEqual(judged["per_step"]["gpu"]["exposed_s"], 30e-6, delta=1e-9)
        self.assertLess(used.ru_utime + used.ru_stime, 5)
        self.assertLess(used.ru_maxrss, 500_000)  # kB

    def test_its_step_is_predicted_as_it_ran_and_with_more_micro_batches(self):
        file = self.place / "small.json"
        self.write(file, megabytes=1)
        rows = self.predicted("--trace", file, "--accumulation-steps", "2")
        shapes = [(row["accumulation_steps"], row["synchronized"]) for row in rows]
        self.assertEqual(shapes, [(1, 1), (2, 1), (2, 2)])
        self.assert_predicted_as_it_ran(rows[0])
        self.assertLess(rows[1]["step_s"], rows[2]["step_s"])
        self.assertEqual({row["topology"] for row in rows}, {"as traced"})

    def test_it_is_predicted_on_links_of_a_topology(self):
        file = self.place / "small.json"
        self.write(file, megabytes=1)
        slow = {"nodes": 2, "ranks_per_node": 1, "inter_node": {"rate": "1Mbps"}}
        topology = self.place / "slow.json"
        topology.write_text(json.dumps({"schema": "gradsync.topology/1"} | slow))
        rows = self.predicted("--trace", file, "--topology", topology, "--nodes", "2,8")
        self.assertEqual([row["world_size"] for row in rows], [2, 2, 8])
        self.assertNotIn("measured_step_s", rows[1])
        self.assertLess(rows[0]["step_s"], rows[1]["step_s"])
        self.assertLess(rows[1]["step_s"], rows[2]["step_s"])

    def test_what_a_trace_does_not_hold_is_refused(self):
        file = self.place / "small.json"
        self.write(file, megabytes=1)
        for words, why in [
            (["--strategy", "no_sync"], "strategy=no_sync"),
            (["--nodes", "2"], "--topology"),
            (["--plan", "smoke"], "--plan"),
            (["--topology", "t4_2x7"], "t4_2x7"),
        ]:
            with self.subTest(words):
                outcome = self.call("predict", "step", "--trace", file, *words)
                self.assertEqual(outcome.status, 2)
                self.assertIn(why, outcome.err)

    def write(self, file, megabytes):
        node = "torch::autograd::AccumulateGrad"
        # What is called, when it begins on the host, and when its kernel begins and ends.
        ranges = [
            ("user_annotation", "DistributedDataParallel.forward", 0, 100),
            ("cpu_op", f"autograd::engine::evaluate_function: {node}", 200, 300),
            ("cpu_op", node, 201, 20),
            ("cpu_op", "aten::detach", 202, 2),
            ("cpu_op", "torch::distributed::reducer::mul_out", 230, 2),
            ("cpu_op", "c10d::allreduce_", 400, 50),
            ("user_annotation", "Optimizer.step#SGD.step", 600, 100),
        ]
        launches = [("sm90_gemm", 10 * i, 10 * i, 9) for i in range(40)]
        launches += [("ncclDevKernel_AllReduce_Sum_f32_RING_LL", 410, 390, 39)]
        launches += [("multi_tensor_apply_kernel", 610, 429, 20)]
        shapes = {"Input Dims": [[1000]], "Input type": ["float"]}
        group = {"pg_name": "0", "pg_desc": "default_pg", "ranks": [0, 1]}
        info = {"rank": 0, "world_size": 2, "pg_config": [group]}
        top = {"schemaVersion": 1, "distributedInfo": info}
        with file.open("w") as out:
            out.write(json.dumps(top)[:-1] + ', "traceEvents": [{}')
            for step in range(10**6):
                if out.tell() > megabytes * 10**6:
                    break
                at = 10_000 + 1000 * step
                for category, name, begin, took in ranges:
                    self.add(out, category, name, at + begin, took, shapes)
                for i, (name, host, gpu, took) in enumerate(launches):
                    tie = {"correlation": 100 * step + i, "grid": [1, 2, 3], "warps per SM": 0.07}
                    self.add(out, "cuda_runtime", "cudaLaunchKernel", at + host, 1, tie)
                    self.add(out, "kernel", name, at + 500 + gpu, took, tie | {"device": 0})
            out.write("]}")

    @staticmethod
    def add(out, category, name, begin, took, details):
        event = {"ph": "X", "cat": category, "name": name, "pid": 5, "tid": 7}
        out.write(",\n" + json.dumps(event | {"ts": begin, "dur": took, "args": details}))


if __name__ == "__main__":
    unittest.main()
