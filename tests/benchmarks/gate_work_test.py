"""gradsync gate counts holds what a step computes: its operators, on real jobs.

Covers: harness/watch/inject/preload/operator_work.cpp, operator_flops.cpp,
harness/watch/inject/hook/gradsync_watch_lines.py.
"""

import json
import os
import re
import subprocess
import unittest
from pathlib import Path

from gate_counts_test import REGRESSION, GateCountsTest, two_ranks
from program import ROOT
from slowed_training import KINDS
from watch_test import FORKED_RANKS, TORCH_PYTHON

HERE = Path(__file__).resolve().parent
TRAINING, COUNTED = HERE / "slowed_training.py", HERE / "counted_training.py"
QUICK = ("host_read", "recomputation", "forward", "dtype")
# What is counted beside the operators that torch's profiler sees.
COUNTED_BESIDE = {"allocations": 100, "copy Double to Float": 1, "copy Long to Float": 5}


def line_of(kind):
    """The number of the line that the slow-down comes from."""
    lines = TRAINING.read_text().splitlines()
    [number] = [i for i, line in enumerate(lines, 1) if line.endswith(f"  # {kind}")]
    return number


class SlowDowns(GateCountsTest):
    def differences(self, *job):
        outcome = self.gate(two_ranks(TRAINING, *job), "--quiet")
        gate = json.loads((self.place / "seen" / "gate.json").read_text())
        found = gate["rows"][0]["counts"]["differences"]
        return outcome, [each["sentence"] for each in found if each["what"] == "work"]

    def assert_found(self, kinds):
        self.write_counts((TRAINING,))
        self.assert_obeys_its_schema()
        for kind in kinds:
            with self.subTest(kind=kind):
                outcome, work = self.differences(kind)
                self.assertEqual(outcome.status, REGRESSION, outcome.out + outcome.err)
                self.assertEqual(len(work), 1, "both ranks do the same")
                lines = re.findall(r"slowed_training.py line (\d+)", work[0])
                self.assertIn(str(line_of(kind)), lines, work[0])


class QuickSlowDowns(SlowDowns):
    def test_the_same_job_passes_and_a_slow_down_is_found_with_its_line(self):
        self.assert_found(QUICK)
        outcome, work = self.differences()
        self.assertEqual((outcome.status, work), (0, []), outcome.out + outcome.err)
        older = self.counts()
        del older["work"]
        (self.place / "counts.json").write_text(json.dumps(older))
        outcome, work = self.differences("host_read")
        self.assertEqual((outcome.status, work), (0, []), outcome.out + outcome.err)
        self.assertIn("note: what the job computes is not compared", outcome.out)


class SlowSlowDowns(SlowDowns):
    def test_sixteen_kinds_are_found_with_their_lines(self):
        self.assert_found(KINDS)


class Oracles(GateCountsTest):
    maxDiff = None

    def test_operators_are_those_of_torchs_profiler_and_its_counter_of_flops(self):
        printed = subprocess.run(
            [TORCH_PYTHON, COUNTED, "--print"], capture_output=True, text=True, check=True
        )
        expected = json.loads(printed.stdout)
        outcome = self.gate((TORCH_PYTHON, FORKED_RANKS, 1, COUNTED), "--update")
        self.assertEqual(outcome.status, 0, outcome.out + outcome.err)
        [group] = self.counts()["work"]["ranks"]
        times = {name: each["times"] for name, each in group["operators"].items()}
        self.assertEqual(times, expected["operators"] | COUNTED_BESIDE)
        self.assertEqual(group["flops"], expected["flops"])


if __name__ == "__main__":
    os.chdir(ROOT)
    unittest.main(verbosity=2)
