"""Runs the built program the way a user does, and looks for what it leaves behind.

Every process a test starts carries a mark in its environment, which ranks inherit: that tells our
processes from those of another run on the same machine.
"""

import contextlib
import functools
import json
import os
import random
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
import unittest
import uuid
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "plot"))
sys.path.insert(0, str(ROOT / "tests" / "harness" / "watch"))

import timelines  # noqa: E402

PROGRAM = os.environ.get("GRADSYNC_PROGRAM", str(ROOT / "build" / "release" / "gradsync"))
# Cache of what the program compiles on first use, for all tests.
CACHE = Path(PROGRAM).parent / "watch_cache"
RANK_PROGRAM = str(Path(PROGRAM).parent / "gradsync-rank")
MARK = "GRADSYNC_TEST_MARK"
# The last two: where a container has its driver, and which GPUs are ours.
INHERITED = (
    "PATH",
    "HOME",
    "TMPDIR",
    "GRADSYNC_RANK",
    "LD_LIBRARY_PATH",
    "CUDA_VISIBLE_DEVICES",
)
# These two are for hangs alone, and far above what a busy machine takes.
WATCHDOG_S = 600
GONE_WITHIN_S = 60

# Two ranks on one node, a tiny model, one trial: a second, and the deadline is for hangs alone.
QUICK = {
    "schema": "gradsync.plan/1",
    "name": "quick",
    "cells": {
        "topology": ["1x2"],
        "model": ["mlp"],
        "strategy": ["baseline"],
        "accumulation_steps": [2],
    },
    "steps": 3,
    "warmup_steps": 2,
    "timeout_s": 300,
}

# Forward, backward and the wait for the link last long enough to be hit on purpose.
PACED = QUICK | {
    "name": "paced",
    "cells": {
        "topology": ["1x2"],
        "model": ["paced_bert_base_t4"],
        "scale": [50],
        "strategy": ["baseline", "no_sync"],
        "accumulation_steps": [2],
    },
    "steps": 2,
    "warmup_steps": 1,
}


def with_cells(plan, **cells):
    return plan | {"cells": plan["cells"] | cells}


def free_port():
    """Returns a free port, outside of the range from which the kernel gives any free one."""
    first_given = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    while True:
        port = random.randrange(10_000, max(first_given, 20_000))
        with socket.socket() as finder:
            try:
                finder.bind(("", port))
            except OSError:
                continue
        return port


# What any run may say before its first trial: warnings, and how long it will take.
USUAL_LINE = re.compile(r"warn: |\d+ trials?[,;] ")


class NoSuchMoment(AssertionError):
    """All that was started has ended, and what a test waited for never was."""


@dataclass
class Outcome:
    status: int
    out: str
    err: str


@functools.cache
def can_unshare(*flags):
    """Whether this user may make such namespaces here."""
    return subprocess.run(["unshare", *flags, "true"], capture_output=True).returncode == 0


def private_flags():
    """What makes `unshare` private for root, and for others through a user namespace."""
    return [] if os.geteuid() == 0 else ["-U", "-r"]


needs_network_namespaces = unittest.skipUnless(
    can_unshare(*private_flags(), "-n"), "network namespaces are forbidden here"
)


def traces_in_host():
    """What a leaky run would add to: interfaces, named namespaces, mounted ones."""
    names = Path("/run/netns")
    mounts = Path("/proc/self/mountinfo").read_text().splitlines()
    return (
        {f"interface {name}" for name in os.listdir("/sys/class/net")}
        | {f"namespace {path.name}" for path in (names.iterdir() if names.exists() else ())}
        | {f"mount {line}" for line in mounts if " - nsfs " in line}
    )


class ProgramTest(unittest.TestCase):
    def setUp(self):
        self.mark = uuid.uuid4().hex
        self.place = Path(tempfile.mkdtemp(prefix="gradsync_test_"))
        self.addCleanup(shutil.rmtree, self.place, ignore_errors=True)
        self.started = []
        self.addCleanup(self.end_all)
        self.before = traces_in_host()

    def tearDown(self):
        self.assert_nothing_left()

    def end_all(self):
        """The watchdog's last word: nothing outlives a failed test."""
        for pid in self.marked_processes():
            os.kill(pid, signal.SIGKILL)
        for process in self.started:
            process.communicate()

    # Starting

    def environment(self, **extra):
        inherited = {name: os.environ[name] for name in INHERITED if name in os.environ}
        # Without a Python that can draw, runs end sooner; the plots have tests of their own. And
        # tests run beside each other: what that does to their times is no test's business.
        usual = {"GRADSYNC_PYTHON": "false", "GRADSYNC_BUSY_TIMES": "keep"}
        return inherited | {MARK: self.mark} | usual | extra

    def plan_file(self, plan, name="plan.json"):
        path = self.place / name
        # In one piece: a task that was started before may be reading it.
        written = path.with_suffix(".new")
        written.write_text(json.dumps(plan))
        return written.replace(path)

    def start(self, *arguments, env=None, command=(PROGRAM,), **options):
        """Starts it as the leader of a process group, as a shell does."""
        process = subprocess.Popen(
            [*command, *map(str, arguments)],
            env=self.environment(**(env or {})),
            cwd=self.place,
            stdin=options.pop("stdin", subprocess.DEVNULL),
            stdout=subprocess.PIPE,
            stderr=options.pop("stderr", subprocess.PIPE),
            text=True,
            process_group=0,
            **options,
        )
        self.started.append(process)
        return process

    def finish(self, process, timeout_s=WATCHDOG_S):
        out, err = process.communicate(timeout=timeout_s)
        return Outcome(process.returncode, out, err or "")

    def call(self, *arguments, **options):
        return self.finish(self.start(*arguments, **options))

    def run_plan(self, plan, *arguments, out="run", **options):
        return self.call(
            "run", self.plan_file(plan), "--out", self.place / out, *arguments, **options
        )

    # Looking

    def trials(self, out="run"):
        path = self.place / out / "trials.jsonl"
        if not path.exists():
            return []
        text = path.read_text()
        lines = text[: text.rfind("\n") + 1].splitlines()
        return [self.with_timelines(json.loads(line), path.parent) for line in lines]

    @staticmethod
    def with_timelines(trial, directory):
        """The trial, each rank with what timelines.jsonl has of it."""
        trial = timelines.steps_of(directory, trial)
        memory = timelines.memory_of(directory, trial)
        for rank in trial["ranks"]:
            rank["memory_timeline"] = memory if rank["rank"] == 0 else []
        return trial

    def result(self, out="run"):
        return json.loads((self.place / out / "result.json").read_text())

    def assert_holds_what_is_predicted(self, trial):
        for of in ("allocated_bytes", "by_category"):
            seen = trial["ranks"][0][f"peak_{of}"]
            self.assertEqual(trial[f"predicted_peak_{of}"], seen, trial["cell"])

    def wait_until(self, condition, timeout_s=WATCHDOG_S, what="the condition"):
        """Returns the first true value of condition()."""
        until = time.monotonic() + timeout_s
        while time.monotonic() < until:
            if value := condition():
                return value
            time.sleep(0.002)
        return self.fail(f"{what} did not come within {timeout_s} s")

    def hold(self, rank, wanted, trial=0, step=0):
        """Stops `rank` in trial number `trial` or later, when wanted(activity, in_collective).

        `step`: so many steps of the trial have ended, or more. Returns the rank and the number of
        its trial. Errors: NoSuchMoment.
        """

        def there(process):
            order, activity, in_collective = process.look()
            return (
                order >= trial and process.steps_ended() >= step and wanted(activity, in_collective)
            )

        def caught():
            if all(started.poll() is not None for started in self.started):
                raise NoSuchMoment(f"rank {rank} was never seen where it should be stopped")
            process = self.rank_processes().get(rank)
            while process:
                try:
                    if there(process):
                        stop(process.pid)
                        if there(process):
                            return process, process.look()[0]
                        process.signal(signal.SIGCONT)
                except (FileNotFoundError, ProcessLookupError):
                    return None  # that group of ranks has ended
                time.sleep(0.001)
            return None

        return self.wait_until(caught, what=f"such a moment of rank {rank}")

    def stop_both_ranks(self):
        """Stops the two ranks of a launch: one that ends meanwhile was of the launch before."""

        def stopped():
            ranks = self.rank_processes()
            try:
                for process in ranks.values():
                    stop(process.pid)
            except (FileNotFoundError, ProcessLookupError):
                return False
            return len(ranks) == 2

        self.wait_until(stopped, what="two ranks to stop")

    @contextlib.contextmanager
    def frozen(self, process):
        """The program and its ranks stand still, however long what is done meanwhile takes."""
        self.wait_until(lambda: len(self.rank_processes()) == 2, what="both ranks")
        stop(process.pid)
        still = self.marked_processes()
        for pid in still:
            stop(pid)
        try:
            yield
        finally:
            for pid in still:
                os.kill(pid, signal.SIGCONT)

    def marked_processes(self):
        wanted = f"{MARK}={self.mark}".encode()
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit() and int(entry.name) != os.getpid():
                try:
                    environment = (entry / "environ").read_bytes().split(b"\0")
                except OSError:
                    continue
                if wanted in environment:
                    found.append(int(entry.name))
        return found

    def rank_processes(self):
        """Returns the running ranks: rank -> RankProcess."""
        ranks = {}
        for pid in self.marked_processes():
            try:
                arguments = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
                if arguments[1:2] == [b"rank"]:
                    process = RankProcess(pid)
                    ranks[process.rank] = process
            except OSError:
                continue
        return ranks

    # Judging

    def assert_refused(self, outcome, *texts, status=2):
        """One clear sentence, nothing on stdout, no traces of how it came about."""
        self.assertEqual(outcome.status, status, outcome.err)
        self.assertEqual(outcome.out, "")
        errors = [line for line in outcome.err.splitlines() if not USUAL_LINE.match(line)]
        self.assertEqual(len(errors), 1, outcome.err)
        self.assertTrue(errors[0].startswith("error: "), errors[0])
        for text in texts:
            self.assertIn(text, errors[0])
        for noise in ("Exception raised from", "terminate called", ".cpp:", "frame #", "[rank "):
            self.assertNotIn(noise, outcome.err)

    def assert_nothing_left(self):
        until = time.monotonic() + GONE_WITHIN_S
        while self.marked_processes() and time.monotonic() < until:
            time.sleep(0.02)
        self.assertEqual(self.marked_processes(), [], "processes are left")
        # What else runs on the machine may come and go: what stays is ours.
        while (left := traces_in_host() - self.before) and time.monotonic() < until:
            time.sleep(0.02)
        self.assertEqual(left, set(), "interfaces or namespaces are left")
        self.assertEqual(list(self.place.rglob("*.tmp-*")), [], "temporary files are left")


def stop(pid):
    """Returns when every thread of the process stands still. Errors: it has ended, an OSError."""
    os.kill(pid, signal.SIGSTOP)
    while (states := thread_states(pid)) != {"T"}:
        if states <= set("ZX"):
            raise ProcessLookupError(f"process {pid} has ended")
        time.sleep(0.001)


def thread_states(pid):
    stats = [path.read_text() for path in Path(f"/proc/{pid}/task").glob("*/stat")]
    return {stat.rpartition(")")[2].split()[0] for stat in stats}


class RankProcess:
    """A rank, and the memory in which it says where it is (harness/launch/rank_progress.h)."""

    ACTIVITIES = ("starting", "idle", "forward", "backward", "wait", "optimizer", "barrier")
    LAYOUT = struct.Struct("=iiiIIIq")

    def __init__(self, pid):
        self.pid = pid
        pairs = (
            pair.split("=", 1)
            for pair in Path(f"/proc/{pid}/environ").read_text().split("\0")
            if "=" in pair
        )
        environment = dict(pairs)
        self.rank = int(environment["RANK"])
        self.node = int(environment["GROUP_RANK"])
        self.progress_fd = environment["GRADSYNC_PROGRESS_FD"]

    def look(self):
        """Returns (trial, activity, whether a collective is under way)."""
        fields = self._progress()
        return fields[0], self.ACTIVITIES[fields[3]], fields[4] > fields[5]

    def steps_ended(self):
        """Returns how many steps of its trial have ended, those of the warm-up among them."""
        return self._progress()[1]

    def _progress(self):
        with open(f"/proc/{self.pid}/fd/{self.progress_fd}", "rb") as memory:
            return self.LAYOUT.unpack(memory.read(self.LAYOUT.size))

    def signal(self, number):
        os.kill(self.pid, number)
