"""What tests of the program under launchers share."""

import functools
import os
import shutil
import signal
import subprocess
import sys

from program import ProgramTest

TORCH_PYTHON = os.environ.get("GRADSYNC_TEST_PYTHON", sys.executable)
SBIN = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"


def find(program):
    return shutil.which(program, path=SBIN)


# Without importing torch, which takes seconds.
LOOK_FOR_TORCHRUN = """
import importlib.util, pathlib, sys
torch = importlib.util.find_spec("torch")
sys.exit(not torch or not pathlib.Path(torch.origin).parent.joinpath("distributed/run.py").exists())
"""


@functools.cache
def has_torchrun():
    look = [TORCH_PYTHON, "-c", LOOK_FOR_TORCHRUN]
    return subprocess.run(look, capture_output=True).returncode == 0


def has_slurm():
    daemons = ("slurmctld", "slurmd", "srun", "munged")
    return os.geteuid() == 0 and all(map(find, daemons))


class LauncherTest(ProgramTest):
    def arguments(self, plan, *more):
        return ["run", self.plan_file(plan), "--out", self.place / "run", *more]

    def assert_ran(self, outcome, launcher, topology, ranks):
        self.assertEqual(outcome.status, 0, outcome.err)
        # Only the leading task prints: one table, however many tasks.
        self.assertEqual(outcome.out.count("s/step |"), 1, outcome.out)
        result = self.result()
        self.assertEqual(result["exit_status"], 0)
        self.assertEqual(result["context"]["launcher"], launcher)
        self.assertEqual({cell["cell"]["topology"] for cell in result["cells"]}, {topology})
        for trial in self.trials():
            self.assertEqual(trial["status"], "ok", trial["reason"])
            self.assertTrue(trial["ledger"]["matches"])
            self.assertEqual([rank["rank"] for rank in trial["ranks"]], list(range(ranks)))
        for clock in result["context"]["clocks"]:
            # One host: the clocks are one, and the bound must hold that.
            self.assertLessEqual(abs(clock["offset_s"]), clock["error_s"])
        for cell in result["cells"]:
            self.assertNotIn("clock", cell["null_reasons"].get("attribution", ""))

    def kill_a_rank(self, process, rank):
        """Returns the outcome and the number of the trial that the rank worked at."""
        held, order = self.hold(
            rank, lambda activity, _: activity in ("forward", "backward", "wait")
        )
        held.signal(signal.SIGKILL)
        return self.finish(process), order

    def assert_went_on(self, rank, order):
        """The trial that the rank died in failed, and no other."""
        trials = self.trials()
        expected = ["ok", "ok"]
        expected[order] = "failed"
        self.assertEqual([trial["status"] for trial in trials], expected)
        self.assertIn(f"[rank {rank}/2", trials[order]["reason"])
        self.assertIn("killed by signal 9", trials[order]["reason"])
        self.assertEqual(self.result()["exit_status"], 5)
