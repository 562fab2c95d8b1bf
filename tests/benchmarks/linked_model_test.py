"""A model from a file of its own, linked into the program, is listed and runs as any other.

Covers: models/examples/logistic.cpp.
"""

import unittest

from program import QUICK, ProgramTest, with_cells


class LinkedModelTest(ProgramTest):
    def test_it_is_listed_after_the_others(self):
        lines = self.call("list", "models").out.splitlines()
        names = [line.split()[0] for line in lines]
        self.assertEqual(names[-2:], ["logistic", "FILE.json"])
        self.assertIn("mlp", names)
        self.assertIn("logistic regression on bags of words", lines[-2])

    def test_it_runs(self):
        outcome = self.run_plan(with_cells(QUICK, model=["logistic"]))
        self.assertEqual(outcome.status, 0, outcome.err)
        (trial,) = self.trials()
        self.assertEqual((trial["cell"]["model"], trial["status"]), ("logistic", "ok"))
        self.assertEqual(trial["model_info"]["parameters"], 5000 * 2 + 2)
        self.assertTrue(trial["ledger"]["matches"])

    def test_it_refuses_what_it_does_not_have(self):
        plan = with_cells(QUICK, model=["logistic"], scale=[2])
        self.assert_refused(self.run_plan(plan), "logistic", "scale")


if __name__ == "__main__":
    unittest.main(verbosity=2)
