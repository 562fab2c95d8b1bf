"""Where a step went, on real records: the parts are the step, and a rank that is late is named.

Covers: harness/sync/backward.cpp.
"""

import signal
import time
import unittest

from program import PACED, ProgramTest, with_cells

STRATEGIES = ["baseline", "no_sync_improper", "no_sync", "accumulate"]
HELD_S = 0.5


def parts_s(entry):
    return entry["own_compute_s"], entry["copy_s"], entry["late_peer_s"], entry["wire_s"]


class AttributionTest(ProgramTest):
    def attributed(self, trial):
        """The attribution of the only trial of its cell."""
        (cell,) = [cell for cell in self.result()["cells"] if cell["cell"] == trial["cell"]]
        self.assertIsNotNone(cell["attribution"], cell["null_reasons"])
        self.assertEqual(cell["attribution"]["steps"], 1)
        self.assertEqual(cell["attribution"]["clock_error_s"], 0, "one host, one clock")
        return cell["attribution"]["ranks"]

    def assert_adds_up(self, trial):
        for rank, recorded in zip(self.attributed(trial), trial["ranks"], strict=True):
            own_s, copy_s, late_s, wire_s = parts_s(rank)
            step_s = recorded["step_s"][-1]
            self.assertAlmostEqual(sum(parts_s(rank)), step_s, delta=1e-6 * step_s)
            # Found in another way, while the step ran.
            self.assertAlmostEqual(late_s + wire_s, recorded["exposed_comm_s"][-1], delta=1e-6)
            sums = [sum(part) for part in zip(*map(parts_s, rank["collectives"]), strict=True)]
            self.assertAlmostEqual(sums[2], late_s, delta=1e-6)
            self.assertAlmostEqual(sums[3], wire_s, delta=1e-6)
            self.assertLessEqual(sums[0], own_s + 1e-6, "hidden behind what was computed")
            self.assertLessEqual(sums[1], copy_s + 1e-6, "hidden behind what was copied")
            self.assertAlmostEqual(copy_s, recorded["phase_s"]["copy"][-1], delta=1e-6)
            self.assertAlmostEqual(sum(rank["waited_for_s"].values()), late_s, delta=1e-6)

    def stays_in_a_wait(self, rank):
        """Not one for a collective that is under way already, and ends without the held rank."""
        before = rank.look()
        time.sleep(HELD_S / 2)
        return before == rank.look() and before[1:] == ("wait", True)

    def test_the_parts_are_the_step(self):
        outcome = self.run_plan(with_cells(PACED, strategy=STRATEGIES))
        self.assertEqual(outcome.status, 0, outcome.err)
        self.assertEqual(len(self.trials()), len(STRATEGIES))
        for trial in self.trials():
            self.assert_adds_up(trial)
            buckets = {entry["bucket"] for entry in self.attributed(trial)[0]["collectives"]}
            self.assertLessEqual(set(range(trial["ledger"]["buckets"])), buckets)
        self.assertIn("| own compute |", outcome.out)

    def test_gradients_that_are_views_of_buckets_are_not_copied(self):
        views = {"gradient_as_bucket_view": [False, True]}
        # Buffers that are broadcast are copied to where they belong in any case.
        plan = with_cells(PACED, strategy=["no_sync"], broadcast_buffers=[False], **views)
        outcome = self.run_plan(plan)
        self.assertEqual(outcome.status, 0, outcome.err)
        copied_s = {}
        for trial in self.trials():
            self.assert_adds_up(trial)
            are_views = trial["cell"]["gradient_as_bucket_view"]
            copied_s[are_views] = [rank["copy_s"] for rank in self.attributed(trial)]
            for rank in trial["ranks"]:
                phases = [phase["phase"] for phase in rank["timeline_phases"]]
                self.assertEqual("copy" in phases, not are_views)
        self.assertTrue(all(each > 0 for each in copied_s[False]), copied_s)
        self.assertEqual(copied_s[True], [0, 0])
        self.assertRegex(outcome.out, r"own compute \| +copy \|")

    def test_a_rank_that_is_held_is_what_the_other_waited_for(self):
        plan = self.plan_file(PACED)
        process = self.start("run", plan, "--out", self.place / "run")
        # The second trial: the model has settled, which takes steps of its own.
        last = PACED["warmup_steps"] + PACED["steps"] - 1
        held, order = self.hold(1, lambda activity, _: activity == "forward", trial=1, step=last)
        other = self.rank_processes()[0]
        self.wait_until(lambda: self.stays_in_a_wait(other), what="rank 0's wait")
        time.sleep(HELD_S)
        held.signal(signal.SIGCONT)
        outcome = self.finish(process)
        self.assertEqual(outcome.status, 0, outcome.err)
        (trial,) = [trial for trial in self.trials() if trial["order"] == order]
        self.assert_adds_up(trial)
        waiting, late = self.attributed(trial)
        self.assertGreaterEqual(waiting["late_peer_s"], HELD_S)
        self.assertGreaterEqual(waiting["waited_for_s"]["1"], HELD_S)
        self.assertGreaterEqual(late["own_compute_s"], HELD_S)


if __name__ == "__main__":
    unittest.main(verbosity=2)
