"""Ctrl-C, SIGTERM and kill -9 of the program: what is finished stays, nothing else does.

Covers: interrupt.cpp.
"""

import os
import re
import signal
import unittest
from pathlib import Path

from program import GONE_WITHIN_S, PACED, PROGRAM, ProgramTest, needs_network_namespaces, with_cells

# Four trials: three are left when the first is seen.
FOUR = PACED | {"launches": 2}
# Takes minutes, for runs that are not resumed.
LONG = PACED | {"launches": 100}


class InterruptTest(ProgramTest):
    def start_and_finish_one_trial(self, plan, out="run"):
        process = self.start("run", self.plan_file(plan), "--out", self.place / out)
        self.wait_until(lambda: self.trials(out), what="the first trial")
        self.wait_until(lambda: len(self.rank_processes()) == 2, what="both ranks")
        return process

    def assert_interrupted(self, outcome):
        self.assertEqual(outcome.status, 130, outcome.err)
        self.assertIn("interrupted", outcome.err)
        self.assertIn("--resume", outcome.err)
        self.assertNotIn("FAILED", outcome.err)
        # How many trials there were by then is the machine's affair.
        self.assertEqual({trial["status"] for trial in self.trials()}, {"ok"})
        result = self.result()
        self.assertEqual(result["exit_status"], 130)
        finished = {trial["cell"]["strategy"] for trial in self.trials()}
        for cell in result["cells"]:
            self.assertEqual(cell["status"] == "ok", cell["cell"]["strategy"] in finished)
        self.assert_nothing_left()

    def assert_resumable(self, plan):
        kept = self.trials()
        outcome = self.run_plan(plan, "--resume")
        self.assertEqual(outcome.status, 0, outcome.err)
        self.assertEqual(self.trials()[: len(kept)], kept)
        self.assertEqual([trial["status"] for trial in self.trials()], ["ok"] * 4)
        self.assertEqual(self.result()["exit_status"], 0)

    def test_interrupted_then_resumed(self):
        process = self.start_and_finish_one_trial(FOUR)
        process.send_signal(signal.SIGINT)
        self.assert_interrupted(self.finish(process))
        self.assert_resumable(FOUR)

    def test_the_command_it_prints_goes_on(self):
        plan = self.plan_file(FOUR)
        process = self.start(
            "run",
            plan,
            "--out",
            self.place / "run",
            "--seed",
            9,
            "--set",
            "about=It's the same run",
        )
        self.wait_until(self.trials, what="the first trial")
        process.send_signal(signal.SIGINT)
        printed = self.finish(process).err.rpartition("continue with: gradsync ")[2]
        outcome = self.call("-c", f'"{PROGRAM}" {printed}', command=("sh",))
        self.assertEqual(outcome.status, 0, outcome.err)
        self.assertEqual([trial["status"] for trial in self.trials()], ["ok"] * 4)

    def test_ctrl_c_reaches_the_whole_foreground_group(self):
        process = self.start_and_finish_one_trial(LONG)
        os.killpg(process.pid, signal.SIGINT)
        self.assert_interrupted(self.finish(process))

    def test_terminated(self):
        process = self.start_and_finish_one_trial(LONG)
        process.send_signal(signal.SIGTERM)
        self.assert_interrupted(self.finish(process))

    def test_a_second_signal_ends_it_at_once(self):
        """Within the second in which the first one waits for ranks that do not end."""
        statuses = []
        for attempt in range(5):  # that second may pass before a busy machine lets us go on
            statuses.append(self.signal_twice(out=f"attempt_{attempt}"))
            if statuses[-1] != 130:
                break
        self.assertEqual(statuses[-1], -signal.SIGINT, statuses)

    def signal_twice(self, out):
        process = self.start_and_finish_one_trial(LONG, out)
        self.stop_both_ranks()
        process.send_signal(signal.SIGINT)
        self.wait_until(lambda: not handles_interrupts(process.pid), what="the first signal's end")
        process.send_signal(signal.SIGINT)
        process.communicate()
        self.assert_nothing_left()
        self.assertEqual({trial["status"] for trial in self.trials(out)}, {"ok"})
        return process.returncode

    def kill_launcher(self, plan):
        process = self.start_and_finish_one_trial(plan)
        self.stop_both_ranks()  # a busy rank would notice the launcher's end by itself
        process.kill()
        process.wait()
        self.wait_until(lambda: not self.marked_processes(), GONE_WITHIN_S, "the end of the ranks")
        self.assert_nothing_left()

    def test_killed_then_resumed(self):
        self.kill_launcher(FOUR)
        self.assertIsNone(self.result()["exit_status"])
        self.assert_resumable(FOUR)

    @needs_network_namespaces
    def test_killed_with_namespaces(self):
        self.kill_launcher(with_cells(LONG, topology=["t4_2x1"]))


def handles_interrupts(pid):
    """Whether the process still has a handler of its own for SIGINT; the first signal takes it."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False
    caught = re.search(r"(?m)^SigCgt:\s*([0-9a-f]+)$", status)
    return caught is not None and bool(int(caught[1], 16) & 1 << (signal.SIGINT - 1))


if __name__ == "__main__":
    unittest.main(verbosity=2)
