"""The habits that results/evidence/gate_habits compares the gate with, on turns made by hand."""

import importlib.util
import sys
import unittest
from pathlib import Path

SKIPPED = 77
if not all(importlib.util.find_spec(module) for module in ("numpy", "scipy")):
    print("skipped: this Python has no numpy or no scipy; run harness/setup --tests")
    sys.exit(SKIPPED)

import numpy as np  # noqa: E402

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "results" / "evidence"))
from gate_habits import habits  # noqa: E402

SETTINGS = {"margin": 0.01, "alpha": 0.01}
DRIFT = [1 + 0.01 * turn for turn in range(10)]


def flagged(baseline_s, candidate_s, **settings):
    """Returns which habits call the candidate slower whose blocks have these mean steps."""
    means = np.array([baseline_s, candidate_s, baseline_s]).T
    steps = means[:, :, np.newaxis] + 1e-6 * (np.arange(20) - 9.5)
    row = habits.Row(steps, steps.sum(axis=2), np.zeros(len(means), int))
    gate = habits.Gate([row], np.array([[0, 1, 2]]))
    return {n for n in habits.HABITS if habits.as_measured(n, gate, SETTINGS | settings)[0]}


class GateHabitsTest(unittest.TestCase):
    def test_a_threshold_compares_means_with_the_margin(self):
        self.assertNotIn("fixed threshold", flagged([1, 2, 3], [1.009, 2.018, 3.027]))
        self.assertIn("fixed threshold", flagged([1, 2, 3], [1.011, 2.022, 3.033]))
        self.assertEqual(flagged([1, 1, 1], [1, 1, 1.2]), {"fixed threshold"}, "one stall will do")

    def test_sequential_arms_take_the_drift_for_the_change(self):
        self.assertEqual(flagged(DRIFT, DRIFT), {"sequential arms"})

    def test_pooled_steps_take_the_mood_of_a_block_for_twenty_answers(self):
        three = [1.00, 1.03, 1.01], [1.02, 1.04, 1.005]
        self.assertEqual(flagged(*three, margin=0), {"fixed threshold", "pooled Mann-Whitney"})
        self.assertEqual(flagged(*three, margin=0.05), set())

    def test_orders_are_squares_of_which_none_is_left_out(self):
        random = np.random.default_rng(1)
        drawn = {habits.drawn_orders(3, random).tobytes() for _ in range(1000)}
        self.assertEqual(len(drawn), 12)
        for square in (np.frombuffer(one, int).reshape(3, 3) for one in drawn):
            for column in square.T:
                self.assertEqual(sorted(column), [0, 1, 2])

    def test_whoever_had_a_place_is_called_by_another_name(self):
        orders = np.array([[[2, 0, 1]], [[0, 1, 2]]])  # two labellings of one start
        gate = habits.Gate([], np.array([[1, 2, 0]]))
        self.assertEqual(habits.arms_of(habits.CANDIDATE, gate, orders).tolist(), [[0], [2]])


if __name__ == "__main__":
    unittest.main(verbosity=2)
