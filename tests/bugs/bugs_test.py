"""The set of bugs: its data, and a part of its jobs, proved and watched.

    bugs_test.py [DataTest | ProofTest | WatchTest | SlowProofTest | SlowWatchTest]

Covers: nothing of the product.
"""

import os
import sys
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[1:1] = [str(HERE), str(HERE / "jobs")]
sys.path.append(str(HERE.parent / "benchmarks"))

SKIPPED = 77  # as SKIP_RETURN_CODE in CMakeLists.txt
try:
    import torch  # noqa: F401
except ImportError:
    print("skipped: Python's torch is not installed; harness/setup --oracles has it")
    sys.exit(SKIPPED)

import launch  # noqa: E402
import table  # noqa: E402
import truth  # noqa: E402

JOBS = truth.jobs()
OWN = [job for job in JOBS.values() if not job.is_elsewhere]
PROVED_EVERY, WATCHED_EVERY = 20, 10
BUGS, ODD = 100, 30


def ways(jobs):
    """Yields each job with whether it is to be right."""
    for job in jobs:
        for is_fixed in (False, True) if job.wrong else (True,):
            yield job, is_fixed


class DataTest(unittest.TestCase):
    def test_there_are_enough(self):
        bugs = [job for job in JOBS.values() if job.wrong]
        self.assertGreaterEqual(len(bugs), BUGS)
        self.assertGreaterEqual(len(JOBS) - len(bugs), ODD)

    def test_every_bug_has_its_own_thread(self):
        seen = {}
        for job in JOBS.values():
            if job.wrong is None:
                continue
            self.assertTrue(job.thread.startswith("https://"), job.name)
            self.assertIn(job.year, range(2017, 2027), job.name)
            self.assertTrue(job.findings, job.name)
            self.assertNotIn(job.thread, seen, job.name)
            seen[job.thread] = job.name

    def test_every_job_says_what_it_is(self):
        for job in JOBS.values():
            self.assertTrue(job.about or job.wrong is None, job.name)

    def test_every_way_has_been_judged(self):
        judged = table.kept("gradsync")
        words = {" ".join(job.words(is_fixed)) for job, is_fixed in ways(JOBS.values())}
        self.assertEqual(words, set(judged))

    def test_every_miss_has_its_reason(self):
        bugs, right = table.judged_by(table.OURS)
        missed = {
            name
            for name, said in {**bugs, **right}.items()
            if said not in ("line", "named", "quiet")
        }
        self.assertEqual(missed, set(table.kept("misses")))


class ProofTest(unittest.TestCase):
    """What is true of some jobs, as their ranks note it."""

    jobs = tuple(OWN[::PROVED_EVERY])

    def test_jobs_do_what_their_truth_says(self):
        from checkers import proof

        launch.import_torch()
        for job, is_fixed in ways(self.jobs):
            with self.subTest(job.name, is_fixed=is_fixed):
                self.assertEqual(proof.check(job, is_fixed), ("proved", ""))


class SlowProofTest(ProofTest):
    """Of all."""

    jobs = tuple(OWN)


@unittest.skipIf("GRADSYNC_PROGRAM" not in os.environ, "no GRADSYNC_PROGRAM")
class WatchTest(unittest.TestCase):
    """Some jobs are judged as they were when they were last kept. Those that waste time are left
    out: what a step waits for depends on the machine.
    """

    jobs = tuple(JOBS.values())[::WATCHED_EVERY]

    def test_jobs_are_judged_as_before(self):
        from checkers import gradsync

        before = table.kept("gradsync")
        for job, is_fixed in ways(job for job in self.jobs if job.kind != "waste"):
            with self.subTest(job.name, is_fixed=is_fixed):
                said, words = gradsync.check(job, is_fixed)
                self.assertEqual(said, before[" ".join(job.words(is_fixed))], words)


class SlowWatchTest(WatchTest):
    """All are."""

    jobs = tuple(JOBS.values())


if __name__ == "__main__":
    unittest.main(verbosity=2)
