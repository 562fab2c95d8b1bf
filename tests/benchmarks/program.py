"""Runs the built program the way a user does, and looks for what it leaves behind.

Every process a test starts carries a mark in its environment, which ranks inherit: that tells our
processes from those of another run on the same machine.
"""

import functools
import json
import os
import shutil
import signal
import struct
import subprocess
import tempfile
import time
import unittest
import uuid
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = os.environ.get("GRADSYNC_PROGRAM", str(ROOT / "build" / "release" / "gradsync"))
MARK = "GRADSYNC_TEST_MARK"
WATCHDOG_S = 90  # no run of these tests takes as long, on a busy machine either
GONE_WITHIN_S = 2.0

# Two ranks on one node, a tiny model, one trial: a second.
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
    "timeout_s": 30,
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
        sorted(os.listdir("/sys/class/net")),
        sorted(os.listdir(names)) if names.exists() else [],
        sum(" - nsfs " in line for line in mounts),
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
        inherited = {
            name: os.environ[name] for name in ("PATH", "HOME", "TMPDIR") if name in os.environ
        }
        # Without a Python that can draw, runs end sooner; the plots have tests of their own.
        return inherited | {MARK: self.mark, "GRADSYNC_PYTHON": "false"} | extra

    def plan_file(self, plan, name="plan.json"):
        path = self.place / name
        path.write_text(json.dumps(plan))
        return path

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
        return [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines()]

    def result(self, out="run"):
        return json.loads((self.place / out / "result.json").read_text())

    def wait_until(self, condition, timeout_s=WATCHDOG_S, what="the condition"):
        """Returns the first true value of condition()."""
        until = time.monotonic() + timeout_s
        while time.monotonic() < until:
            if value := condition():
                return value
            time.sleep(0.002)
        return self.fail(f"{what} did not come within {timeout_s} s")

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
        errors = [line for line in outcome.err.splitlines() if not line.startswith("warn: ")]
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
        self.assertEqual(traces_in_host(), self.before, "interfaces or namespaces are left")
        self.assertEqual(list(self.place.rglob("*.tmp-*")), [], "temporary files are left")


class RankProcess:
    """A rank, and the page on which it says where it is (harness/launch/rank_page.h)."""

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
        self.page_fd = environment["GRADSYNC_PAGE_FD"]

    def look(self):
        """Returns (trial, activity, whether a collective is under way)."""
        with open(f"/proc/{self.pid}/fd/{self.page_fd}", "rb") as page:
            fields = self.LAYOUT.unpack(page.read(self.LAYOUT.size))
        return fields[0], self.ACTIVITIES[fields[3]], fields[4] > fields[5]

    def signal(self, number):
        os.kill(self.pid, number)
