"""A rank is killed or stopped while it works: the trial says where, the plan goes on."""

import signal
import time
import unittest

from program import PACED, ProgramTest, needs_network_namespaces, with_cells


class LostRankTest(ProgramTest):
    def hold(self, rank, wanted, trial=0):
        """Stops `rank` in its `trial`-th trial or later, when wanted(activity, in_collective)."""

        def caught():
            process = self.rank_processes().get(rank)
            while process:
                try:
                    if self.is_there(process, wanted, trial):
                        process.signal(signal.SIGSTOP)
                        time.sleep(0.01)  # a stop takes effect a moment later
                        if self.is_there(process, wanted, trial):
                            return process
                        process.signal(signal.SIGCONT)
                except (FileNotFoundError, ProcessLookupError):
                    return None  # that group of ranks has ended
                time.sleep(0.001)
            return None

        return self.wait_until(caught, what=f"such a moment of rank {rank}")

    @staticmethod
    def is_there(process, wanted, trial):
        order, activity, in_collective = process.look()
        return order >= trial and wanted(activity, in_collective)

    def assert_killed_trial(self, outcome, place, *, rank):
        self.assertEqual(outcome.status, 5, outcome.err)
        trials = self.trials()
        self.assertEqual([trial["status"] for trial in trials], ["failed", "ok"], outcome.err)
        reason = trials[0]["reason"]
        self.assertTrue(reason.startswith(f"[rank {rank}/2 node"), reason)
        self.assertIn("killed by signal 9", reason)
        self.assertIn(place, reason)
        self.assertIn("FAILED", outcome.err)
        result = self.result()
        self.assertEqual(result["exit_status"], 5)
        statuses = {cell["cell"]["strategy"]: cell["status"] for cell in result["cells"]}
        self.assertEqual(sorted(statuses.values()), ["failed", "ok"])
        failed = next(cell for cell in result["cells"] if cell["status"] == "failed")
        self.assertIn("killed by signal 9", failed["reason"])

    def kill_in(self, plan, rank, wanted):
        process = self.start("run", self.plan_file(plan), "--out", self.place / "run")
        self.hold(rank, wanted).signal(signal.SIGKILL)
        return self.finish(process)

    def test_killed_in_forward(self):
        outcome = self.kill_in(PACED, 1, lambda activity, _: activity == "forward")
        self.assert_killed_trial(outcome, "forward", rank=1)

    def test_killed_in_backward(self):
        outcome = self.kill_in(PACED, 0, lambda activity, _: activity == "backward")
        self.assert_killed_trial(outcome, "backward", rank=0)

    @needs_network_namespaces
    def test_killed_in_an_all_reduce(self):
        plan = with_cells(PACED, topology=["t4_2x1"])
        outcome = self.kill_in(plan, 1, lambda activity, busy: activity == "wait" and busy)
        self.assert_killed_trial(outcome, "in collective #", rank=1)

    def test_a_failed_trial_runs_again_on_resume(self):
        self.kill_in(PACED, 1, lambda activity, _: activity == "forward")
        kept = self.trials()[1]
        outcome = self.run_plan(PACED, "--resume")
        self.assertEqual(outcome.status, 0, outcome.err)
        trials = self.trials()
        self.assertEqual([trial["status"] for trial in trials], ["failed", "ok", "ok"])
        self.assertEqual(trials[1], kept)
        self.assertEqual(trials[2]["cell"], trials[0]["cell"])
        self.assertEqual({cell["status"] for cell in self.result()["cells"]}, {"ok"})

    def test_stopped_rank(self):
        timeout_s = 3
        process = self.start(
            "run",
            self.plan_file(PACED),
            "--out",
            self.place / "run",
            "--set",
            f"timeout_s={timeout_s}",
        )
        stopped = self.hold(1, lambda activity, _: activity == "forward")
        since = time.monotonic()
        self.wait_until(self.trials, what="the trial's record")
        self.assertLess(time.monotonic() - since, timeout_s + 5)
        self.wait_until(
            lambda: stopped.pid not in self.marked_processes(),
            timeout_s=2,
            what="the stopped rank's end",
        )
        outcome = self.finish(process)
        self.assertEqual(outcome.status, 5, outcome.err)
        trials = self.trials()
        self.assertEqual([trial["status"] for trial in trials], ["timeout", "ok"], outcome.err)
        self.assertTrue(trials[0]["reason"].startswith("[rank 1/2 node0]"), trials[0]["reason"])
        self.assertIn("stopped", trials[0]["reason"])
        self.assertIn("forward", trials[0]["reason"])

    def test_killed_in_a_later_trial_spares_the_earlier(self):
        process = self.start("run", self.plan_file(PACED), "--out", self.place / "run")
        self.hold(1, lambda activity, _: activity == "backward", trial=1).signal(signal.SIGKILL)
        outcome = self.finish(process)
        self.assertEqual(outcome.status, 5, outcome.err)
        self.assertEqual([trial["status"] for trial in self.trials()], ["ok", "failed"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
