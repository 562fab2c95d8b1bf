"""gradsync watch from end to end: each job of tests/harness/watch/jobs/, with the verdict and the
line that it deserves, and the collectives that it counted itself.

    watch_verdict_test.py [--repetitions N] [--tally FILE] [VerdictTest] [TorchrunTest] ...

RecordedTest judges what was recorded of the jobs, and runs them where this Python has another
torch; the others run them, N times (once), whatever came of the times before. At the end, and as
JSON in FILE, stands how often the verdict was right, and on how many ranks each collective was
counted.
"""

import json
import os
import shutil
import subprocess
import sys
import unittest
from dataclasses import dataclass
from pathlib import Path

from program import PROGRAM, ROOT, Outcome, free_port
from recordings import HOW, IS_ON, record, recorded, unpack
from tallies import parse, run
from truths import TO_CHANGE, gate_status, jobs_in, with_lines
from watch_test import CACHE, FORKED_RANKS, TORCH_PYTHON, WatchTest, objects_in, watched_server

JOBS = ROOT / "tests" / "harness" / "watch" / "jobs"
STRANGERS = jobs_in(JOBS / "strangers")
CASES = jobs_in(JOBS) | STRANGERS
SAY_TORCH = "import importlib.metadata; print(importlib.metadata.version('torch'))"
WATCHING_RANK = ROOT / "tests" / "harness" / "python" / "watching_rank.py"
BY_MPIRUN = ("by_mpi",)
# Run with every change: under torchrun, each of whose ranks imports torch by itself; as a program
# that forks its ranks; and, forked from a process that has imported torch, what the watcher sees in
# ways of its own.
UNDER_TORCHRUN = ("baseline_fixed",)
BY_THEMSELVES = ("baseline_fixed",)
LIVE = (
    *("cleared_by_hand", "compiled", "fsdp1", "hsdp_mixed", "one_f_one_b_fixed", "chatter"),
    "noise_by_hand",
)
# Jobs whose verdict rests on what was computed, and on GPUs of paper nothing is: bits of replicas,
# weights that change without a trace, closures that run until they are content, sizes of objects
# that torch adds up on the GPU. The last one reads more from a GPU than from a CPU.
BY_VALUES = (
    *("epoch_end", "two_losses", "varying_by_number", "local_sgd", "local_sgd_at_the_end"),
    *("local_sgd_gathered", "post_local_sgd"),
    *("perturbed", "noise_by_hand", "reduced_first", "forgotten", "apart", "local_sgd_by_hand"),
    *("lbfgs", "lbfgs_accumulating"),
    *("pipelining", "pipelining_fsdp", "pipelining_interleaved"),
    "chatter",
)


@dataclass
class Tally:
    """Counts for one job, over its repetitions."""

    runs: int = 0
    right_verdicts: int = 0
    wrong_accusations: int = 0  # of a job that deserves none
    ranks: int = 0  # that counted for themselves
    ranks_counted_alike: int = 0


tallies = {}  # by job
repetitions = 1


def launched_by_torchrun(ranks, *job):
    torchrun = Path(TORCH_PYTHON).with_name("torchrun")
    return (torchrun, f"--nproc-per-node={ranks}", f"--master-port={free_port()}", *job)


def launched_by_fork(ranks, *job):
    return (TORCH_PYTHON, FORKED_RANKS, ranks, *job)


def launched_by_itself(ranks, *job):
    return (TORCH_PYTHON, *job, "--forked")


def launched_by_mpirun(ranks, *job):
    options = ("--allow-run-as-root", "--oversubscribe", "--bind-to", "none")
    return ("mpirun", *options, "-n", ranks, TORCH_PYTHON, *job)


class WatchedJobTest(WatchTest):
    launched = staticmethod(launched_by_fork)

    def place_of_server(self):
        return watched_server().place

    def watch_job(self, ranks, *job):
        file = self.place / "watched.json"
        outcome = self.watch(
            *self.launched(ranks, *job),
            options=("--json", file, "--fail-on-excess"),
            python=None,
            env={
                "MASTER_ADDR": "127.0.0.1",
                "MASTER_PORT": str(free_port()),
                "OMP_NUM_THREADS": "1",
                "TORCHINDUCTOR_CACHE_DIR": str(self.place / "inductor"),
                **self.place_of_server(),
            },
        )
        return json.loads(file.read_text()), objects_in(outcome.out), outcome


class Recorded:
    """Judges jobs from their recordings. They run if the recording is of another torch, and must be
    recorded anew if it is not of the job as it is.
    """

    def judged(self, kind, name, digest, marks, run):
        """Returns what `run()` does: what is watched, the job's lines, and how all ended; and the
        numbers of the lines that have marks.
        """
        recording = recorded(kind).get(name, {"torch": TORCH, "digest": None})
        if recording["torch"] != TORCH and not IS_ON:
            return *run(), marks
        if (recording["torch"], recording["digest"]) == (TORCH, digest):
            folder = self.place / name
            unpack(recording, folder)
            outcome = self.call("report", folder, "--format", "json")
            self.assertEqual(outcome.status, 0, f"{outcome.err}{HOW}")
            watched = json.loads(outcome.out)
            # Older recordings passed where nothing was judged.
            status = recording["status"] or gate_status(watched["verdicts"][0]["kind"], False)
            ended = Outcome(status, "", HOW)
            return watched, recording["printed"], ended, recording["marks"]
        self.assertTrue(IS_ON, f"{name} has changed: {HOW}")
        watched, printed, outcome = run()
        of = {"torch": TORCH, "digest": digest, "status": outcome.status}
        record(kind, name, self.events_folder(), **of, marks=marks, printed=printed)
        return watched, printed, outcome, marks


class JobTest(WatchedJobTest):
    def check(self, name):
        for repetition in range(repetitions):
            with self.subTest(name, repetition=repetition):
                self.check_once(CASES[name])

    def seen(self, case):
        return *self.watch_job(case.ranks, case.script, *case.words), case.marks

    def check_once(self, case):
        truth = case.truth
        tally = tallies.setdefault(case.name, Tally())
        tally.runs += 1
        self.ranks = case.ranks
        watched, printed, outcome, self.marks = self.seen(case)
        # Not by the exit status: a job that dies by itself may end with 1, too.
        if watched["has_excess"] and not truth.fails:
            tally.wrong_accusations += 1
        self.assertEqual(outcome.status, gate_status(truth.kind, truth.fails), outcome.err)
        self.assert_counts(watched, printed, tally)
        self.assert_verdicts(watched, truth)
        self.assert_line(watched, case)
        if case.name not in STRANGERS:  # too short to say what they wait for
            self.assert_wastes(watched, case)
        for kind, calls in truth.calls.items():
            [waste] = [waste for waste in watched["wastes"] if waste["kind"] == kind]
            self.assertEqual([place["calls"] for place in waste["places"]], [calls], waste)
        if truth.holds:
            self.assert_held(watched, printed, truth.holds)
        tally.right_verdicts += 1

    def assert_verdicts(self, watched, truth):
        shown = json.dumps(watched["verdicts"], indent=1)
        verdict, *others = watched["verdicts"]
        self.assertEqual(watched["faults"], [])
        self.assertEqual(verdict["kind"], truth.kind, shown)
        self.assertEqual([other["kind"] for other in others], list(truth.also), shown)
        self.assertEqual(verdict["cause"], truth.cause, shown)
        if truth.why:
            self.assertIn(with_lines(truth.why, self.marks), verdict["why"])
        self.assertEqual(watched["has_excess"], truth.fails)
        self.assertEqual(watched["per_step"]["micro_batches"], truth.micro_batches)
        self.assertEqual(watched["per_step"]["synchronized"], truth.synchronized)
        if truth.flags:
            names = ("name", "is_on_root", "line", "on", "off")
            flags = [[flag[name] for name in names] for flag in watched["flags"]]
            expected = [[name, on, self.marks[f"# {name}"], *n] for name, on, *n in truth.flags]
            self.assertEqual(flags, expected)
        axes = {axis["role"]: axis for axis in watched["per_step"]["axes"] or []}
        for role, counts in truth.axes.items():
            for which, operations in counts.items():
                got = {op: sums["count"] for op, sums in axes[role][which].items()}
                self.assertEqual(got, operations, f"{which} of {role}")

    def assert_held(self, watched, printed, when):
        """The gradients reported for a policy are those that the job measured."""
        [policy] = [one for one in watched["per_step"]["policies"] if one["when"] == when]
        for line in printed:
            self.assertEqual(policy["held_bytes"], line["held_bytes"], policy["null_reasons"])

    def assert_line(self, watched, case):
        changes = [verdict["change"] for verdict in watched["verdicts"] if verdict["change"]]
        expected = (str(case.script), self.marks[TO_CHANGE]) if case.truth.names_line else None
        named = (changes[0]["file"], changes[0]["line"]) if changes else None
        self.assertEqual(named, expected)

    def assert_wastes(self, watched, case):
        wastes = watched["wastes"]
        shown = json.dumps(wastes, indent=1)
        self.assertEqual([waste["kind"] for waste in wastes], list(case.truth.wastes), shown)
        for waste in wastes:
            named = (waste["change"]["file"], waste["change"]["line"])
            mark = f"# the waste: {waste['kind']}"
            line = self.marks[mark if mark in self.marks else "# the waste"]
            self.assertEqual(named, (str(case.script), line))
            self.assert_waste_saves(waste, watched)

    def assert_waste_saves(self, waste, watched):
        self.assertGreater(waste["saved_s"], 0)
        self.assertLess(waste["saved_s"], watched["per_step"]["step_s"])

    def assert_counts(self, watched, printed, tally):
        counted = {line["rank"]: line["collectives"] for line in printed}
        self.assertEqual(sorted(counted), list(range(self.ranks)))
        seen = {rank["rank"]: rank["collectives"] for rank in watched["ranks"]}
        tally.ranks += len(counted)
        tally.ranks_counted_alike += sum(seen.get(rank) == counted[rank] for rank in counted)
        self.assertEqual(seen, counted)


class RecordedTest(Recorded, JobTest):
    """All jobs, as they were recorded."""

    def seen(self, case):
        kind = "strangers" if case.name in STRANGERS else f"jobs_{case.script.stem}"
        run = lambda: super(RecordedTest, self).seen(case)[:3]  # noqa: E731
        return self.judged(kind, case.name, case.digest, case.marks, run)


# Its gradients are reduced, and nothing reads them.
NEVER_STEPS = """
import torch
torch.distributed.init_process_group("gloo")
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(7, 1))
for _ in range(3):
    model(torch.ones(1, 7)).sum().backward()
torch.distributed.destroy_process_group()
"""


class VerdictTest(JobTest):
    """Jobs whose ranks are forked, with every change."""

    def test_a_gate_does_not_pass_what_nobody_judged(self):
        script = self.place / "never_steps.py"
        script.write_text(NEVER_STEPS)
        watched, _, outcome = self.watch_job(2, script)
        self.assertEqual(outcome.status, 4, outcome.err)
        self.assertEqual(watched["verdicts"][0]["kind"], "no_steps")
        seen = "seen of rank 0: 3 backwards, 0 optimizer steps and 3 reductions (96 B)"
        self.assertIn(seen, " ".join(outcome.err.split()))


class SlowVerdictTest(JobTest):
    """The others."""


class OnPaper:
    """Runs jobs on GPUs of paper, over NCCL: verdicts, lines and counts are those on the CPU. No
    number of seconds is known, and no replicas are compared."""

    on = ("--on", "8xh100")

    def place_of_server(self):
        return watched_server(*self.on).place | {"GRADSYNC_JOB_DEVICE": "cuda"}

    def watch(self, *job, options=(), **more):
        return super().watch(*job, options=(*options, *self.on), **more)

    def assert_verdicts(self, watched, truth):
        [fault] = watched["faults"]
        self.assertIn("GPUs of paper", fault)
        self.assertIsNone(watched["per_step"]["step_s"])
        super().assert_verdicts(watched | {"faults": []}, truth)

    def assert_waste_saves(self, waste, watched):
        self.assertIsNone(waste["saved_s"])


class PaperTest(OnPaper, JobTest):
    """Jobs on paper, with every change."""


class SlowPaperTest(OnPaper, JobTest):
    """The others, on paper."""


class StartedTest(JobTest):
    """Jobs whose ranks are not forked from the server."""

    launched = staticmethod(launched_by_torchrun)

    def place_of_server(self):
        return {}


class TorchrunTest(StartedTest):
    """As users start them."""


class SlowTorchrunTest(StartedTest):
    """The others, as users start them."""


class ByThemselvesTest(StartedTest):
    """Programs that start their ranks."""

    launched = staticmethod(launched_by_itself)


class InProcessTest(StartedTest):
    """The same jobs in ranks that watch themselves: the same verdicts, lines and counts."""

    launched = staticmethod(launched_by_fork)

    def watch(self, *launched, options, env, **_):
        python, forked, count, *job = launched
        json_file = Path(options[1])
        done = subprocess.run(
            [str(word) for word in (python, forked, count, WATCHING_RANK, json_file, *job)],
            capture_output=True,
            text=True,
            timeout=600,
            env={
                **{name: value for name, value in os.environ.items() if name != "LD_PRELOAD"},
                **env,
                "GRADSYNC_PROGRAM": str(PROGRAM),
                "PYTHONPATH": str(ROOT / "harness" / "python"),
                "XDG_CACHE_HOME": str(CACHE),
            },
        )
        ranks = range(self.ranks)
        seen = [json.loads(json_file.with_suffix(f".{rank}.json").read_text()) for rank in ranks]
        self.assertEqual(seen, seen[:1] * self.ranks)
        json_file.write_text(json.dumps(seen[0]["json"]))
        watched = seen[0]["json"]
        status = gate_status(watched["verdicts"][0]["kind"], watched["has_excess"])
        return Outcome(done.returncode or status, done.stdout, done.stderr)


@unittest.skipIf(shutil.which("mpirun") is None, "mpirun is not installed")
class MpirunTest(StartedTest):
    """Jobs whose ranks meet past torch.distributed: each is a job of its own to the watcher."""

    launched = staticmethod(launched_by_mpirun)

    def assert_counts(self, watched, printed, tally):
        self.assertEqual(len(printed), self.ranks)
        for rank in watched["ranks"]:
            self.assertEqual(rank["collectives"], {})


def as_numbers(version):
    """Returns of "2.10.0+cpu" (2, 10)."""
    return tuple(map(int, version.split(".")[:2]))


def needing_torch(version):
    """Skips a test where torch is older."""
    is_too_old = as_numbers(version) > as_numbers(TORCH)
    return unittest.skipIf(is_too_old, f"torch itself fails there before {version}")


def add_test(case, name):
    needs_torch = needing_torch(CASES[name].torch)
    setattr(case, f"test_{name}", needs_torch(lambda self: self.check(name)))


TORCH = subprocess.run([TORCH_PYTHON, "-c", SAY_TORCH], capture_output=True, text=True).stdout
TORCH = TORCH.strip()
for each in CASES:
    if each in BY_MPIRUN:
        add_test(MpirunTest, each)
        continue
    add_test(VerdictTest if each in LIVE else SlowVerdictTest, each)
    add_test(RecordedTest, each)
    if each in STRANGERS:
        continue
    if each not in BY_VALUES:
        add_test(PaperTest if each in LIVE else SlowPaperTest, each)
    if each in BY_THEMSELVES:
        add_test(ByThemselvesTest, each)
    add_test(TorchrunTest if each in UNDER_TORCHRUN else SlowTorchrunTest, each)
    add_test(InProcessTest, each)


def text_of(tally):
    return (
        f"{tally.right_verdicts} of {tally.runs} verdicts right, "
        f"{tally.wrong_accusations} wrong accusations, collectives counted on "
        f"{tally.ranks_counted_alike} of {tally.ranks} ranks"
    )


def main():
    global repetitions
    repetitions, file, rest = parse(__doc__, "--repetitions", int, 1)
    return run(rest, tallies, Tally, text_of, file, "jobs", repetitions=repetitions)


if __name__ == "__main__":
    sys.exit(main())
