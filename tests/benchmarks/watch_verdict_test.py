"""gradsync watch from end to end: each training script of tests/harness/watch/jobs/ under torchrun,
with the verdict that it deserves and the collectives that it counted itself.

The environment variable GRADSYNC_REPETITIONS says how often each script runs (once).
"""

import json
import os
import unittest
from pathlib import Path

from program import ROOT, free_port
from watch_test import RANKS, TORCH_PYTHON, WatchTest, objects_in

JOBS = ROOT / "tests" / "harness" / "watch" / "jobs"
EXPECTED = json.loads((JOBS / "expected.json").read_text())
# The others take minutes together.
MAIN = ("no_sync", "improper", "fsdp", "accelerate_accumulate")


class JobTest(WatchTest):
    def check(self, name):
        for repetition in range(int(os.environ.get("GRADSYNC_REPETITIONS", "1"))):
            self.check_once(name, self.place / f"watched{repetition}.json")

    def check_once(self, name, file):
        expected = EXPECTED[name]
        outcome = self.watch(
            Path(TORCH_PYTHON).with_name("torchrun"),
            f"--nproc-per-node={RANKS}",
            f"--master-port={free_port()}",
            JOBS / f"{name}.py",
            options=("--json", file, "--fail-on-excess"),
            python=None,
            env={"OMP_NUM_THREADS": "1"},
        )
        self.assertEqual(outcome.status, 1 if expected["fails"] else 0, outcome.err)
        watched = json.loads(file.read_text())
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
        self.assert_counts(watched, outcome)

    def assert_counts(self, watched, outcome):
        counted = {line["rank"]: line["collectives"] for line in objects_in(outcome.out)}
        self.assertEqual(sorted(counted), list(range(RANKS)))
        seen = {rank["rank"]: rank["collectives"] for rank in watched["ranks"]}
        self.assertEqual(seen, counted)


class VerdictTest(JobTest):
    """What every change is tested with."""


class SlowVerdictTest(JobTest):
    """The others."""


def add_test_of(name):
    case = VerdictTest if name in MAIN else SlowVerdictTest
    setattr(case, f"test_{name}", lambda self: self.check(name))


for each in EXPECTED:
    add_test_of(each)


if __name__ == "__main__":
    unittest.main(verbosity=2)
