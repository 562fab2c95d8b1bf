"""Ctrl-C, SIGTERM and kill -9 of the program: what is finished stays, nothing else does."""

import os
import signal
import time
import unittest

from program import GONE_WITHIN_S, PACED, PROGRAM, ProgramTest, needs_network_namespaces, with_cells


class InterruptTest(ProgramTest):
    def start_and_finish_one_trial(self, plan=PACED):
        process = self.start("run", self.plan_file(plan), "--out", self.place / "run")
        self.wait_until(self.trials, what="the first trial")
        self.wait_until(lambda: len(self.rank_processes()) == 2, what="both ranks")
        return process

    def assert_interrupted(self, outcome):
        self.assertEqual(outcome.status, 130, outcome.err)
        self.assertIn("interrupted", outcome.err)
        self.assertIn("--resume", outcome.err)
        self.assertNotIn("FAILED", outcome.err)
        self.assertEqual([trial["status"] for trial in self.trials()], ["ok"])
        result = self.result()
        self.assertEqual(result["exit_status"], 130)
        self.assertEqual([cell["status"] for cell in result["cells"]].count("ok"), 1)
        self.assert_nothing_left()

    def assert_resumable(self):
        kept = self.trials()
        outcome = self.run_plan(PACED, "--resume")
        self.assertEqual(outcome.status, 0, outcome.err)
        self.assertEqual(self.trials()[: len(kept)], kept)
        self.assertEqual([trial["status"] for trial in self.trials()], ["ok", "ok"])
        self.assertEqual(self.result()["exit_status"], 0)

    def test_interrupted_then_resumed(self):
        process = self.start_and_finish_one_trial()
        process.send_signal(signal.SIGINT)
        self.assert_interrupted(self.finish(process))
        self.assert_resumable()

    def test_the_command_it_prints_goes_on(self):
        plan = self.plan_file(PACED)
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
        printed = self.finish(process).err.rpartition("go on with: gradsync ")[2]
        outcome = self.call("-c", f'"{PROGRAM}" {printed}', command=("sh",))
        self.assertEqual(outcome.status, 0, outcome.err)
        self.assertEqual([trial["status"] for trial in self.trials()], ["ok", "ok"])

    def test_ctrl_c_reaches_the_whole_foreground_group(self):
        process = self.start_and_finish_one_trial()
        os.killpg(process.pid, signal.SIGINT)
        self.assert_interrupted(self.finish(process))

    def test_terminated(self):
        process = self.start_and_finish_one_trial()
        process.send_signal(signal.SIGTERM)
        self.assert_interrupted(self.finish(process))

    def test_a_second_signal_ends_it_at_once(self):
        process = self.start_and_finish_one_trial()
        for rank in self.rank_processes().values():
            rank.signal(signal.SIGSTOP)  # these take a second to be given up on
        process.send_signal(signal.SIGINT)
        time.sleep(0.3)
        self.assertIsNone(process.poll(), "the first signal waits for the ranks")
        process.send_signal(signal.SIGINT)
        since = time.monotonic()
        self.assertEqual(process.wait(timeout=10), -signal.SIGINT)
        self.assertLess(time.monotonic() - since, 0.5)
        self.assert_nothing_left()
        self.assertEqual([trial["status"] for trial in self.trials()], ["ok"])

    def kill_launcher(self, plan):
        process = self.start_and_finish_one_trial(plan)
        for rank in self.rank_processes().values():
            rank.signal(signal.SIGSTOP)  # a busy rank would notice the launcher's end by itself
        process.kill()
        process.wait()
        self.wait_until(
            lambda: not self.marked_processes(),
            timeout_s=GONE_WITHIN_S,
            what="the end of the ranks",
        )
        self.assert_nothing_left()

    def test_killed_then_resumed(self):
        self.kill_launcher(PACED)
        self.assertIsNone(self.result()["exit_status"])
        self.assert_resumable()

    @needs_network_namespaces
    def test_killed_with_namespaces(self):
        self.kill_launcher(with_cells(PACED, topology=["t4_2x1"]))


if __name__ == "__main__":
    unittest.main(verbosity=2)
