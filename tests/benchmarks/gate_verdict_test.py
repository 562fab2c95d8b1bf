"""A gate's verdict from end to end: half as slow again is a regression, and a build passes against
itself. A gate that is undecided whatever it sees fails both.

With arms that are scripts, whose steps take what a test says and no time, the verdicts are the same
on every machine. With real arms the model is paced: its layers wait on the clock, and those of the
candidate half as long again. There a busy machine gets a second try.
"""

import json
import shlex
import sys
import unittest
from pathlib import Path

from arm_test import Arm
from program import PROGRAM, QUICK, ProgramTest, with_cells

PASS, REGRESSION = 0, 1
SLOWED = 1.5
TRIES = 2

TWO_ROWS = with_cells(QUICK, strategy=["baseline", "no_sync"])
SCRIPTED_ARM = Path(__file__).with_name("scripted_arm.py")
SCRIPTED_STEP_S = [0.008, 0.006]  # of each row

PACED = with_cells(QUICK, model=["profile.json"], strategy=["no_sync"])
LAYERS = 3
FORWARD_S, BACKWARD_S = 0.002, 0.004


class GateVerdictTest(ProgramTest):
    def gate(self, plan, baseline, candidate, *options):
        """Returns the outcome, and the rows of its report."""
        self.gates = getattr(self, "gates", 0) + 1
        out = self.place / f"gate{self.gates}"
        outcome = self.call(
            *(
                "gate",
                "builds",
                self.plan_file(plan),
                "--baseline",
                baseline,
                "--candidate",
                candidate,
            ),
            *("--out", out, "--time-budget", "60m", *options),
        )
        file = out / "gate.json"
        return outcome, json.loads(file.read_text())["rows"] if file.exists() else []

    def program(self, name, *lines):
        path = self.place / name
        path.write_text("\n".join(["#!/bin/sh", *lines, ""]))
        path.chmod(0o755)
        return path


class Scripted(GateVerdictTest):
    recorded = None

    def setUp(self):
        super().setUp()
        if Scripted.recorded is None:
            Scripted.recorded = self.record()

    def record(self):
        """What a real arm says, for the scripts to say."""
        arm = Arm(self, TWO_ROWS)
        hello = arm.answer()
        arm.open()
        trials = [arm.turn(cell=cell) for cell in range(len(SCRIPTED_STEP_S))]
        self.assertEqual(arm.end(), 0)
        return {"hello": hello, "trials": trials}

    def build(self, name, step_s):
        """A build whose rows take so long."""
        script = self.place / f"{name}.json"
        script.write_text(json.dumps(self.recorded | {"step_s": step_s}))
        command = shlex.join(map(str, (sys.executable, SCRIPTED_ARM, script)))
        return self.program(name, f'exec {command} "$@"')

    def verdicts(self, candidate_s):
        baseline = self.build("baseline", SCRIPTED_STEP_S)
        outcome, rows = self.gate(TWO_ROWS, baseline, self.build("candidate", candidate_s))
        return outcome, [row["verdict"] for row in rows]

    def test_half_as_slow_again_in_one_row_is_a_regression(self):
        baseline_s, no_sync_s = SCRIPTED_STEP_S
        outcome, verdicts = self.verdicts([baseline_s, SLOWED * no_sync_s])
        self.assertEqual(outcome.status, REGRESSION, outcome.out + outcome.err)
        self.assertEqual(verdicts[1], "regression", outcome.out)
        self.assertNotEqual(verdicts[0], "regression", outcome.out)

    def test_the_same_times_pass(self):
        outcome, verdicts = self.verdicts(SCRIPTED_STEP_S)
        self.assertEqual(outcome.status, PASS, outcome.out + outcome.err)
        self.assertEqual(verdicts, ["pass", "pass"])


class PacedTest(GateVerdictTest):
    def profile(self, folder, factor=1):
        """Writes one whose layers take `factor` times as long."""
        layers = [
            {
                "name": f"layer.{index}",
                "forward_s": factor * FORWARD_S,
                "backward_s": factor * BACKWARD_S,
                "parameters": [{"name": f"layer.{index}.weight", "shape": [64, 64]}],
            }
            for index in range(LAYERS)
        ]
        profile = {"schema": "gradsync.profile/1", "name": "small", "about": "Three layers."}
        profile |= {"source": "made up", "dtype": "float32", "optimizer_s": 0.0}
        profile |= {"layers": layers, "buffers": []}
        folder.mkdir(exist_ok=True)
        (folder / "profile.json").write_text(json.dumps(profile))

    def build(self, name, factor):
        """A build that finds such a profile where the plan says profile.json."""
        folder = self.place / name
        self.profile(folder, factor)
        command = f'cd {shlex.quote(str(folder))} && exec {shlex.quote(PROGRAM)} "$@"'
        return self.program(f"{name}_build", command)

    def assert_verdict(self, factor, status):
        self.profile(self.place)
        baseline = self.build("baseline", 1)
        candidate = self.build("candidate", factor)
        for _ in range(TRIES):
            outcome, rows = self.gate(
                *(PACED, baseline, candidate, "--margin", "5%", "--smallest-effect", "10%")
            )
            if outcome.status == status:
                return
        self.fail(json.dumps(rows, indent=1) + outcome.out + outcome.err)


class Paced(PacedTest):
    def test_a_build_against_itself_passes(self):
        self.assert_verdict(1, PASS)


class SlowPaced(PacedTest):
    """A regression takes twice as long: it is confirmed by new starts."""

    def test_half_as_slow_again_is_a_regression(self):
        self.assert_verdict(SLOWED, REGRESSION)


if __name__ == "__main__":
    unittest.main(verbosity=2)
