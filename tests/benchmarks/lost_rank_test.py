"""A rank is killed or stopped while it works: the trial says where, the plan goes on."""

import signal
import unittest

from program import PACED, NoSuchMoment, ProgramTest, needs_network_namespaces, with_cells


def in_forward(activity, _in_collective):
    return activity == "forward"


def in_backward(activity, _in_collective):
    return activity == "backward"


def in_all_reduce(activity, in_collective):
    return activity == "wait" and in_collective


class LostRankTest(ProgramTest):
    def assert_one_differs(self, order, status, out="run", count=2):
        """All trials ran, and all but that one are ok. Returns its reason.

        Nearly always the first is hit. But on a busy machine it may be over before it is seen.
        """
        trials = self.trials(out)
        expected = ["ok"] * count
        expected[order] = status
        self.assertEqual([trial["status"] for trial in trials], expected)
        return trials[order]["reason"]

    def assert_killed_trial(self, outcome, order, place, *, rank):
        self.assertEqual(outcome.status, 5, outcome.err)
        reason = self.assert_one_differs(order, "failed")
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

    def kill_in(self, plan, rank, wanted, trial=0):
        """Returns the outcome and the number of the trial that it was in."""
        process = self.start("run", self.plan_file(plan), "--out", self.place / "run")
        held, order = self.hold(rank, wanted, trial)
        held.signal(signal.SIGKILL)
        return self.finish(process), order

    def test_killed_in_forward(self):
        self.assert_killed_trial(*self.kill_in(PACED, 1, in_forward), "forward", rank=1)

    def test_killed_in_backward(self):
        self.assert_killed_trial(*self.kill_in(PACED, 0, in_backward), "backward", rank=0)

    @needs_network_namespaces
    def test_killed_in_an_all_reduce(self):
        plan = with_cells(PACED, topology=["t4_2x1"])
        killed = self.kill_in(plan, 1, in_all_reduce)
        self.assert_killed_trial(*killed, "in collective #", rank=1)

    def test_a_failed_trial_runs_again_on_resume(self):
        _, order = self.kill_in(PACED, 1, in_forward)
        before = self.trials()
        outcome = self.run_plan(PACED, "--resume")
        self.assertEqual(outcome.status, 0, outcome.err)
        trials = self.trials()
        self.assertEqual(trials[:2], before)
        self.assertEqual([trial["status"] for trial in trials[2:]], ["ok"])
        self.assertEqual(trials[2]["cell"], trials[order]["cell"])
        self.assertEqual({cell["status"] for cell in self.result()["cells"]}, {"ok"})

    def test_stopped_rank(self):
        """A busy machine may overrun a short deadline by itself: then a longer one is tried."""
        for timeout_s in (3, 30, 300):
            if self.stop_a_rank(timeout_s, out=f"within_{timeout_s}"):
                return
        self.fail("the machine takes minutes for a trial of a second")

    def stop_a_rank(self, timeout_s, out):
        """Returns whether the rank that was stopped is all that kept a trial from ending."""
        limit = ("--set", f"timeout_s={timeout_s}")
        process = self.start(
            "run", self.plan_file(PACED), "--out", self.place / out, "--launches", 2, *limit
        )
        try:
            stopped, order = self.hold(1, in_forward)
        except NoSuchMoment:
            return False
        self.wait_until(lambda: len(self.trials(out)) > order, what="the trial's record")
        self.wait_until(
            lambda: stopped.pid not in self.marked_processes(), what="the stopped rank's end"
        )
        outcome = self.finish(process)
        self.assertEqual(outcome.status, 5, outcome.err)
        others = [trial for trial in self.trials(out) if trial["order"] != order]
        if any(trial["status"] == "timeout" for trial in others):
            return False
        reason = self.assert_one_differs(order, "timeout", out, count=4)
        self.assertTrue(reason.startswith("[rank 1/2 node0]"), reason)
        self.assertIn("stopped", reason)
        self.assertIn("forward", reason)
        return True

    def test_killed_in_a_later_trial_spares_the_earlier(self):
        outcome, order = self.kill_in(PACED | {"launches": 2}, 1, in_backward, trial=1)
        self.assertEqual(outcome.status, 5, outcome.err)
        self.assertGreaterEqual(order, 1)
        self.assert_one_differs(order, "failed", count=4)


if __name__ == "__main__":
    unittest.main(verbosity=2)
