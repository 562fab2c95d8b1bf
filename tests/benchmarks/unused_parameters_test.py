"""The plan unused_parameters: what fails by design is a row with its reason, the plan goes on."""

import unittest

from program import ROOT, ProgramTest

PLAN = ROOT / "benchmarks" / "plans" / "unused_parameters.json"
STRATEGIES = {"baseline", "no_sync_improper", "no_sync", "accumulate"}
ACCUMULATION_STEPS = 4
PARAMETERS = 8

# One small step of each cell, on one node.
SMALL = [
    "--set",
    "steps=1",
    "--set",
    "warmup_steps=1",
    "--set",
    "launches=1",
    "--set",
    "micro_batch_size=2",
    "--set",
    "sequence_length=8",
    "--set",
    "topology=1x2",
    "--set",
    "timeout_s=300",
]


def parts(*names):
    return ["--set", "parts=" + ",".join(names)]


class UnusedParametersTest(ProgramTest):
    def test_what_fails_by_design_is_a_row_and_the_plan_goes_on(self):
        chosen = parts("without_search", "static_graph", "search", "no_search")
        outcome = self.call("run", PLAN, "--out", self.place / "run", *SMALL, *chosen)
        trials = self.trials()
        self.assertEqual(outcome.status, 0, outcome.err)
        reasons = {
            "without_search": r"^\[rank [01]/2 node0\] parameter (left|right)_weight and 1 more "
            r"got no gradient in the last synchronized micro-batch, .* expected every parameter in "
            r"use, or find_unused_parameters \(torch: Expected to have finished reduction",
            "static_graph": r"^\[rank [01]/2 node0\] .*training graph has changed",
        }
        for part in ("without_search", "static_graph"):
            failed = [trial for trial in trials if trial["part"] == part]
            self.assertEqual({trial["cell"]["strategy"] for trial in failed}, STRATEGIES)
            for trial in failed:
                self.assertEqual(trial["status"], "failed")
                self.assertRegex(trial["reason"], reasons[part])
                self.assertIn(trial["reason"], outcome.out)
        trained = [trial for trial in trials if trial["part"] in ("search", "no_search")]
        self.assertEqual(len(trained), 4 * len(STRATEGIES))
        for trial in trained:
            self.assertEqual((trial["status"], trial["ledger"]["matches"]), ("ok", True))
            self.check_counts(trial)

    def check_counts(self, trial):
        """The search's map is one more all_reduce, of 4 bytes per parameter."""
        cell, ledger = trial["cell"], trial["ledger"]
        needless = cell["strategy"] in ("baseline", "no_sync_improper")
        syncs = ACCUMULATION_STEPS if needless else 1
        search = int(cell["find_unused_parameters"])
        reduced = ledger["per_step"]["all_reduce"]
        self.assertEqual(reduced["count"], syncs * (ledger["buckets"] + search))
        gradient_bytes = trial["model_info"]["gradient_bytes"]
        self.assertEqual(reduced["bytes"], syncs * (gradient_bytes + search * 4 * PARAMETERS))

    def test_a_failure_that_is_not_the_expected_one_is_a_fault(self):
        other = self.place / "other.json"
        other.write_text(PLAN.read_text().replace("got no gradient in", "got a gradient in"))
        for plan, status in ((PLAN, 0), (other, 5)):
            out = f"ends_with_{status}"
            outcome = self.call(
                "run",
                plan,
                "--out",
                self.place / out,
                *SMALL,
                *parts("without_search"),
                "--strategy",
                "baseline",
            )
            self.assertEqual(outcome.status, status, outcome.err)
            (trial,) = self.trials(out)
            self.assertIn("got no gradient in", trial["reason"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
