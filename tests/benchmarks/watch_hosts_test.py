"""A job on two hosts, each watched into a folder of its own, and put together again.

The second host is this machine with another clock: a time namespace, 5000 s ahead.

Covers: merged_hosts.cpp.
"""

import json
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

from program import PROGRAM, ROOT, ProgramTest, free_port
from watch_test import TORCH_PYTHON

DDP = ROOT / "tests" / "harness" / "watch" / "jobs" / "ddp.py"
STEPS, MICRO_BATCHES = 6, 4  # of the job
AHEAD_S = 5000
OTHER_CLOCK = ("unshare", "--time", "--monotonic", str(AHEAD_S), "--fork", "--kill-child")
DEADLINE_S = 300


def why_no_other_clock():
    done = subprocess.run(
        [*OTHER_CLOCK, "true"], capture_output=True, text=True, timeout=DEADLINE_S
    )
    return done.stderr.strip() if done.returncode else ""


class TwoHostsTest(ProgramTest):
    folders = None

    def setUp(self):
        super().setUp()
        if why := why_no_other_clock():
            self.skipTest(f"no clock of its own for a host: {why}")
        if TwoHostsTest.folders is None:
            TwoHostsTest.folders = self.watch_both()

    def watch_both(self):
        place = Path(tempfile.mkdtemp(prefix="gradsync_test_"))
        unittest.addModuleCleanup(shutil.rmtree, place, ignore_errors=True)
        folders = [place / "first", place / "second"]
        port = free_port()
        hosts = [
            subprocess.Popen(
                [
                    *(OTHER_CLOCK if node else ()),
                    *(PROGRAM, "watch", "--account", "--every", "2", "--keep", folder, "--"),
                    *(Path(TORCH_PYTHON).with_name("torchrun"), "--nnodes=2"),
                    *(f"--node-rank={node}", "--nproc-per-node=1"),
                    *("--master-addr=127.0.0.1", f"--master-port={port}", DDP, "improper"),
                ],
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
            )
            for node, folder in enumerate(folders)
        ]
        for host in hosts:
            self.addCleanup(host.kill)
            _, said = host.communicate(timeout=DEADLINE_S)
            self.assertEqual(host.returncode, 0, said)
            self.assertIn("1 of 2 ranks were seen", said)
        return folders

    def report(self, *arguments):
        outcome = self.call("report", *arguments)
        self.assertEqual(outcome.status, 0, outcome.err)
        return outcome.out

    def test_both_are_one_job_in_either_order(self):
        page = self.report(*self.folders)
        self.assertIn("WATCH 2 of 2 ranks", page)
        self.assertIn("VERDICT: synchronizes in every micro-batch", page)
        self.assertIn("second (ranks 1): its clock is known within", page.replace("\n", " "))
        self.assertNotIn("ranks were seen", page)
        self.assertEqual(page, self.report(*reversed(self.folders)))

    def test_the_account_is_of_both(self):
        page = self.report(*self.folders)
        self.assertIn("| rank 1", page)
        self.assertIn("all 8 weigh the same", page)

    def test_times_are_of_one_clock(self):
        """No rank sees the end of an all_reduce before all have begun it."""
        trace = json.loads(self.report(*self.folders, "--format", "trace"))
        slices = {}
        for event in trace["traceEvents"]:
            if event["ph"] == "X" and event["name"] == "all_reduce":
                slices.setdefault(event["pid"], []).append(event)
        first, second = slices.values()
        self.assertEqual(len(first), STEPS * MICRO_BATCHES)
        [fault] = json.loads(self.report(*self.folders, "--format", "json"))["faults"]
        error_us = 1e3 * float(fault.split("within ")[1].split(" ms")[0])
        self.assertLess(error_us, AHEAD_S * 1e6 / 100)
        for a, b in zip(first, second, strict=True):
            for one, other in ((a, b), (b, a)):
                self.assertLessEqual(one["ts"] - error_us, other["ts"] + other["dur"] + error_us)

    def test_html_is_of_both(self):
        self.assertIn("2 of 2 ranks", self.report(*self.folders, "--format", "html"))

    def test_one_folder_twice_is_compared(self):
        self.assertIn("VERDICT a", self.report(self.folders[0], self.folders[0]))

    def test_each_alone(self):
        self.assertEqual(self.report(*self.folders, "--each").count("WATCH 1 of 2 ranks"), 2)


if __name__ == "__main__":
    unittest.main(verbosity=2)
