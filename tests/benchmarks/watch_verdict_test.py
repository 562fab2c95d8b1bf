"""gradsync watch from end to end: each training script of tests/harness/watch/jobs/ as a real job,
with the verdict and the line that it deserves, and the collectives that it counted itself.

    watch_verdict_test.py [--repetitions N] [--tally FILE] [VerdictTest] [TorchrunTest] ...

Each script runs N times (once), whatever came of the times before. At the end, and as JSON in FILE,
stands how often the verdict was right, and on how many ranks each collective was counted. Where
expected.json names a "torch", the script runs from that version on; before, torch itself fails.
"ranks" are two and "wastes" none unless it says more; where a job "varies", how many micro-batches
are usual depends on which of its steps were seen; "calls" are how often a step calls for one of
these, from one line, "axes" are counts of a step by what process groups do, and "holds" is the
policy of which the script itself notes what it holds of gradients.
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
from tallies import parse, run
from watch_test import (
    CACHE,
    FORKED_RANKS,
    RANKS,
    TORCH_PYTHON,
    WatchTest,
    objects_in,
    watched_server,
)

JOBS = ROOT / "tests" / "harness" / "watch" / "jobs"
EXPECTED = json.loads((JOBS / "expected.json").read_text())
SAY_TORCH = "import importlib.metadata; print(importlib.metadata.version('torch'))"
WATCHING_RANK = ROOT / "tests" / "harness" / "python" / "watching_rank.py"
# Every rank that torchrun starts imports torch by itself. The others are forked in CI.
UNDER_TORCHRUN = ("no_sync",)
BY_THEMSELVES = ("forked_by_itself",)
BY_MPIRUN = ("by_mpi",)
# Of forked ones: what differs from another script's in what leads to the same verdict.
NIGHTLY = (
    "plain", "overlapped_by_hand", "baseline", "mirrored", "never", "fsdp1_no_sync", "two_models",
    "evaluation", "scaler", "short_window", "sharpness", "by_hand", "local_sgd",
    "compiled_by_inductor", "accelerate_baseline", "varying", "closure", "told_to", "perturbed",
    "noise_scale", "hsdp_undone", "hsdp_all_deferred", "hsdp_cleared", "fsdp1_hybrid",
    "replicate_deferred", "replicate_never", "replicate_over_ddp", "replicate_over_ddp_deferred",
    "replicate_over_ddp_improper", "fsdp1_hybrid_no_sync", "fsdp_tensor_no_sync",
    "hsdp_last_backward", "hsdp_mixed_replicas_deferred", "hsdp_mixed_all_deferred",
    "varying_no_sync", "varying_fixed", "one_f_one_b_every", "one_f_one_b_never",
    "adversarial_accumulating", "adversarial_apart",
    "lbfgs_accumulating", "checkpointed", "checkpointed_no_sync", "fsdp_checkpointed", "ema",
    "evaluation_within", "local_sgd_at_the_end", "post_local_sgd", "pipelining_fsdp",
    "pipelining", "ema_no_sync", "adversarial_apart_no_sync", "checkpointed_reentrant", "fgm",
    "hsdp_never", "gradient_penalty",
)  # fmt: skip


@dataclass
class Tally:
    """Of one job, over its repetitions."""

    runs: int = 0
    right_verdicts: int = 0
    wrong_accusations: int = 0  # of a job that deserves none
    ranks: int = 0  # that counted for themselves
    ranks_counted_alike: int = 0


tallies = {}  # by job
repetitions = 1


def launched_by_torchrun(script, ranks):
    torchrun = Path(TORCH_PYTHON).with_name("torchrun")
    return (torchrun, f"--nproc-per-node={ranks}", f"--master-port={free_port()}", script)


def launched_by_fork(script, ranks):
    return (TORCH_PYTHON, FORKED_RANKS, ranks, script)


def launched_by_itself(script, ranks):
    return (TORCH_PYTHON, script)


def launched_by_mpirun(script, ranks):
    options = ("--allow-run-as-root", "--oversubscribe", "--bind-to", "none")
    return ("mpirun", *options, "-n", ranks, TORCH_PYTHON, script)


def line_with(script, mark):
    for number, line in enumerate(script.read_text().splitlines(), 1):
        if mark in line:
            return number
    return None


class JobTest(WatchTest):
    launched = staticmethod(launched_by_torchrun)

    def place_of_server(self):
        return {}

    def check(self, name):
        for repetition in range(repetitions):
            with self.subTest(name, repetition=repetition):
                self.check_once(name, self.place / f"watched{repetition}.json")

    def check_once(self, name, file):
        expected = EXPECTED[name]
        tally = tallies.setdefault(name, Tally())
        tally.runs += 1
        self.ranks = expected.get("ranks", RANKS)
        outcome = self.watch(
            *self.launched(JOBS / f"{name}.py", self.ranks),
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
        # Not by the exit status: a job that dies by itself may end with 1, too.
        watched = json.loads(file.read_text())
        if watched["has_excess"] and not expected["fails"]:
            tally.wrong_accusations += 1
        self.assertEqual(outcome.status, 1 if expected["fails"] else 0, outcome.err)
        self.assert_counts(watched, outcome, tally)
        self.assert_verdicts(watched, expected)
        self.assert_line(watched, JOBS / f"{name}.py")
        self.assert_wastes(watched, JOBS / f"{name}.py", expected.get("wastes", []))
        for kind, calls in expected.get("calls", {}).items():
            [waste] = [waste for waste in watched["wastes"] if waste["kind"] == kind]
            self.assertEqual([place["calls"] for place in waste["places"]], [calls], waste)
        if "holds" in expected:
            self.assert_held(watched, outcome, expected["holds"])
        tally.right_verdicts += 1

    def assert_verdicts(self, watched, expected):
        shown = json.dumps(watched["verdicts"], indent=1)
        verdict, *others = watched["verdicts"]
        self.assertEqual(watched["faults"], [])
        self.assertEqual(verdict["kind"], expected["kind"], shown)
        self.assertEqual([other["kind"] for other in others], expected["also"], shown)
        if expected["why"]:
            self.assertIn(expected["why"], verdict["why"])
        self.assertEqual(watched["has_excess"], expected["fails"])
        self.assertEqual(watched["per_step"]["micro_batches"], expected["micro_batches"])
        self.assertEqual(watched["per_step"]["synchronized"], expected["synchronized"])
        if "flags" in expected:
            names = ("name", "is_on_root", "line", "on", "off")
            flags = [[flag[name] for name in names] for flag in watched["flags"]]
            self.assertEqual(flags, expected["flags"])
        axes = {axis["role"]: axis for axis in watched["per_step"]["axes"] or []}
        for role, counts in expected.get("axes", {}).items():
            for which, operations in counts.items():
                got = {op: sums["count"] for op, sums in axes[role][which].items()}
                self.assertEqual(got, operations, f"{which} of {role}")

    def assert_held(self, watched, outcome, when):
        """What one policy is said to hold of gradients is what the job found that it does."""
        [policy] = [one for one in watched["per_step"]["policies"] if one["when"] == when]
        for line in objects_in(outcome.out):
            self.assertEqual(policy["held_bytes"], line["held_bytes"], policy["null_reasons"])

    def assert_line(self, watched, script):
        changes = [verdict["change"] for verdict in watched["verdicts"] if verdict["change"]]
        line = line_with(script, "# to change")
        expected = (str(script), line) if line else None
        named = (changes[0]["file"], changes[0]["line"]) if changes else None
        self.assertEqual(named, expected)

    def assert_wastes(self, watched, script, expected):
        wastes = watched["wastes"]
        shown = json.dumps(wastes, indent=1)
        self.assertEqual([waste["kind"] for waste in wastes], expected, shown)
        for waste in wastes:
            named = (waste["change"]["file"], waste["change"]["line"])
            line = line_with(script, f"# the waste: {waste['kind']}")
            self.assertEqual(named, (str(script), line or line_with(script, "# the waste")))
            self.assertGreater(waste["saved_s"], 0)
            self.assertLess(waste["saved_s"], watched["per_step"]["step_s"])

    def assert_counts(self, watched, outcome, tally):
        counted = {line["rank"]: line["collectives"] for line in objects_in(outcome.out)}
        self.assertEqual(sorted(counted), list(range(self.ranks)))
        seen = {rank["rank"]: rank["collectives"] for rank in watched["ranks"]}
        tally.ranks += len(counted)
        tally.ranks_counted_alike += sum(seen.get(rank) == counted[rank] for rank in counted)
        self.assertEqual(seen, counted)


class ForkedTest(JobTest):
    """Of scripts whose ranks are forked from a process that has imported torch."""

    launched = staticmethod(launched_by_fork)

    def place_of_server(self):
        return watched_server().place


class VerdictTest(ForkedTest):
    """What every change is tested with."""


class SlowVerdictTest(ForkedTest):
    """More of these, each like another script but for one thing."""


class TorchrunTest(JobTest):
    """As users start them."""


class SlowTorchrunTest(JobTest):
    """The others, as users start them."""


class ByThemselvesTest(JobTest):
    """Scripts that start their ranks."""

    launched = staticmethod(launched_by_itself)


class InProcessTest(JobTest):
    """The same scripts in ranks that watch themselves: the same verdicts, lines and counts."""

    def watch(self, *launched, options, env, **_):
        python, forked, count, script = launched
        json_file = Path(options[1])
        done = subprocess.run(
            [str(word) for word in (python, forked, count, WATCHING_RANK, json_file, script)],
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
        status = 1 if done.returncode == 0 and seen[0]["json"]["has_excess"] else done.returncode
        return Outcome(status, done.stdout, done.stderr)

    launched = staticmethod(launched_by_fork)


@unittest.skipIf(shutil.which("mpirun") is None, "mpirun is not installed")
class MpirunTest(JobTest):
    """Scripts whose ranks meet past torch.distributed: each is a job of its own to the watcher."""

    launched = staticmethod(launched_by_mpirun)

    def assert_counts(self, watched, outcome, tally):
        self.assertEqual(len(objects_in(outcome.out)), RANKS)
        for rank in watched["ranks"]:
            self.assertEqual(rank["collectives"], {})


def as_numbers(version):
    """Returns of "2.10.0+cpu" (2, 10)."""
    return tuple(map(int, version.split(".")[:2]))


def needing_torch(version):
    """Skips a test where torch is older."""
    is_too_old = as_numbers(version) > TORCH
    return unittest.skipIf(is_too_old, f"torch itself fails there before {version}")


def add_test(case, name):
    needs_torch = needing_torch(EXPECTED[name].get("torch", "0.0"))
    setattr(case, f"test_{name}", needs_torch(lambda self: self.check(name)))


TORCH = as_numbers(
    subprocess.run([TORCH_PYTHON, "-c", SAY_TORCH], capture_output=True, text=True).stdout
)
for each in EXPECTED:
    if each in UNDER_TORCHRUN:
        add_test(TorchrunTest, each)
    elif each in BY_THEMSELVES:
        add_test(ByThemselvesTest, each)
    elif each in BY_MPIRUN:
        add_test(MpirunTest, each)
    else:
        add_test(SlowVerdictTest if each in NIGHTLY else VerdictTest, each)
        add_test(SlowTorchrunTest, each)
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
