"""A job on two hosts whose GPUs are of paper: each host is watched into a folder of its own, and
both are one job, with the verdict and the counts that it has over gloo.

A host has a network, a name and processes of its own, as containers have: the ranks meet in a
folder that both have, or are refused.
"""

import json
import os
import unittest

from hosts import Hosts
from program import CACHE, PROGRAM, ROOT, ProgramTest, can_unshare, free_port
from truths import TO_CHANGE, jobs_in
from watch_test import TORCH_PYTHON, objects_in

JOBS = ROOT / "tests" / "harness" / "watch" / "jobs"
GPUS = "h100"


class TwoHostsOnPaperTest(ProgramTest):
    def setUp(self):
        super().setUp()
        if os.geteuid() != 0 or not can_unshare("--net", "--uts", "--mount", "--pid"):
            self.skipTest("hosts take root, and namespaces of networks and processes")
        self.hosts = Hosts(2, self.place)
        self.addCleanup(self.hosts.end)
        self.folders = [self.place / "first", self.place / "second"]

    def start_on(self, host, job, port, **meeting):
        place = meeting | {
            "RANK": host,
            "WORLD_SIZE": 2,
            "LOCAL_RANK": 0,
            "MASTER_ADDR": self.hosts.address(0),
            "MASTER_PORT": port,
        }
        watch = ("watch", "--on", GPUS, "--keep", self.folders[host], "--python", TORCH_PYTHON)
        return self.start(
            *(*watch, "--", TORCH_PYTHON, job.script, *job.words),
            command=self.hosts.command(host, PROGRAM),
            env={name: str(value) for name, value in place.items()}
            | {"GRADSYNC_JOB_DEVICE": "cuda", "OMP_NUM_THREADS": "1", "XDG_CACHE_HOME": str(CACHE)},
        )

    def end_both(self, job, **meeting):
        port = free_port()
        hosts = [self.start_on(number, job, port, **meeting) for number in range(2)]
        return [self.finish(host) for host in hosts]

    def watch_both(self, job):
        """Returns what the ranks of the job counted themselves."""
        folder = self.place / "meetings"
        folder.mkdir()
        counted = {}
        for outcome in self.end_both(job, GRADSYNC_PAPER_FOLDER=folder):
            self.assertEqual(outcome.status, 0, outcome.err)
            self.assertIn("1 of 2 ranks were seen", outcome.err)
            counted |= {said["rank"]: said["collectives"] for said in objects_in(outcome.out)}
        self.assertEqual(sorted(counted), [0, 1])
        self.assertEqual(list(folder.iterdir()), [])
        return counted

    def report(self, *options):
        return self.call("report", *self.folders, *options)

    def test_both_are_one_job(self):
        job = jobs_in(JOBS)["improper"]
        counted = self.watch_both(job)
        outcome = self.report("--format", "json")
        self.assertEqual(outcome.status, 0, outcome.err)
        seen = json.loads(outcome.out)
        self.assertEqual(seen["world_size"], 2)
        self.assertEqual({rank["rank"]: rank["collectives"] for rank in seen["ranks"]}, counted)
        [verdict] = seen["verdicts"]
        self.assertEqual((verdict["kind"], verdict["cause"]), (job.truth.kind, job.truth.cause))
        self.assertEqual(verdict["change"]["line"], job.marks[TO_CHANGE])
        self.assertEqual(seen["per_step"]["synchronized"], job.truth.synchronized)
        # What was kept says by itself that time means nothing there.
        self.assertIsNone(seen["per_step"]["step_s"])
        self.assertIn(f"nothing was computed or timed ({GPUS})", " ".join(seen["faults"]))
        self.assert_refused(self.report("--format", "trace"), "GPUs of paper", "nothing was timed")

    def test_without_a_folder_the_remedy_is_named_and_nobody_waits_for_ever(self):
        first, second = self.end_both(jobs_in(JOBS)["improper"], GRADSYNC_PAPER_DEADLINE_S=5)
        self.assertIn("set GRADSYNC_PAPER_FOLDER for every rank to a folder", second.err)
        self.assertIn("rank 1 never came to the opening of the communicator within 5 s", first.err)
        self.assertEqual({outcome.status for outcome in (first, second)}, {1})


if __name__ == "__main__":
    unittest.main(verbosity=2)
