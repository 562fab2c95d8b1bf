"""gradsync equal from end to end: jobs of tests/harness/watch/equal_jobs/ whose losses are
normalized rightly and wrongly, split three times.

    equal_test.py [FastTest | SlowTest]

Covers: equal_command.cpp.
"""

import json
import unittest

from program import ROOT, ProgramTest, free_port
from watch_test import CACHE, FORKED_RANKS, TORCH_PYTHON, watched_server

JOBS = ROOT / "tests" / "harness" / "watch" / "equal_jobs"
ARGUMENTS = ("{micro_batches}", "{micro_batch_size}")
SPLIT = ("--ranks", "2", "--micro-batches", "4", "--micro-batch-size", "2")


class EqualTest(ProgramTest):
    def equal(self, *job, options=SPLIT):
        return self.call(
            "equal", *options, "--", *job, env={"XDG_CACHE_HOME": str(CACHE), **self.places()}
        )

    @staticmethod
    def places():
        place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
        return place | {"OMP_NUM_THREADS": "1"} | watched_server().place

    def equal_of(self, script, *arguments, more=()):
        """Ranks are forked from a process that has imported torch: see fork_server.py."""
        job = (TORCH_PYTHON, FORKED_RANKS, "{ranks}", JOBS / script, *arguments)
        return self.equal(*job, options=(*SPLIT, *more))

    def assert_said(self, outcome, status, *texts):
        self.assertEqual(outcome.status, status, outcome.err + outcome.out)
        said = " ".join(outcome.out.split())
        for text in texts:
            self.assertIn(text, said)


class FastTest(EqualTest):
    """What every change is tested with."""

    def test_a_mean_over_the_tokens_of_the_step_is_equal(self):
        outcome = self.equal_of("plain.py", "step", *ARGUMENTS)
        self.assert_said(outcome, 0, "| 1 | 1 | 16 | reference |", "EQUAL: the gradient is")
        self.assertEqual(outcome.out.count("equal within"), 2)

    def test_of_one_micro_batch_ranks_alone_are_split(self):
        split = ("--ranks", "2", "--micro-batches", "1", "--micro-batch-size", "8")
        job = (TORCH_PYTHON, FORKED_RANKS, "{ranks}", JOBS / "plain.py", "step", *ARGUMENTS)
        outcome = self.equal(*job, options=split)
        self.assert_said(outcome, 0, "| 1 | 1 | 16 | reference |", "| 2 | 1 | 8 | equal within")
        self.assertEqual(outcome.out.count("equal within"), 1)

    def test_a_mean_over_the_tokens_of_a_micro_batch_is_not(self):
        file = self.place / "equal.json"
        outcome = self.equal_of("plain.py", "micro_batch", *ARGUMENTS, more=("--json", file))
        self.assert_said(
            outcome,
            1,
            "the same samples, with other weights: in the right gradient its",
            "NOT EQUAL: the gradient depends on the split",
            "| 2 | 4 | 2 | the same samples, with other weights |",
            "why: weights stand in the ratio of tokens: micro-batches have",
            "the loss of each is a mean over its own, not over those of the step",
        )
        written = json.loads(file.read_text())
        self.assertEqual(written["schema"], "gradsync.equal/1")
        self.assertEqual(written["equality"], "not_equal")
        self.assertEqual(written["command"][-2:], list(ARGUMENTS))
        for other, (ranks, count) in zip(written["others"], ((2, 4), (4, 2)), strict=True):
            split = {"ranks": ranks, "micro_batches": count, "micro_batch_size": 2}
            self.assertEqual(other["split"], split)
            self.assertEqual(other["verdict"]["kind"], "other_weights")
            self.assertGreater(other["verdict"]["gradient"]["left_over"], 0.001)

    def test_what_cannot_be_meant_is_said_before_anything_runs(self):
        for options, sentence in (
            (("--micro-batches", "3"), "--micro-batches: got 3, expected an even number"),
            (("--ranks", "0"), "--ranks"),
        ):
            outcome = self.equal("true", options=options)
            self.assertEqual(outcome.status, 2, outcome.err)
            self.assertIn(sentence, outcome.err)
        outcome = self.call("equal")
        self.assertEqual(outcome.status, 2)
        self.assertIn("equal: COMMAND is missing", outcome.err)


class SlowTest(EqualTest):
    """The other ways to be wrong, and the libraries that people train with."""

    def test_a_mean_over_the_tokens_of_a_rank_is_not(self):
        outcome = self.equal_of("plain.py", "rank", *ARGUMENTS)
        self.assert_said(outcome, 1, "weights stand in the ratio of tokens: ranks have")

    def test_a_sum_over_micro_batches_is_a_factor(self):
        outcome = self.equal_of("plain.py", "once", *ARGUMENTS)
        self.assert_said(
            outcome,
            1,
            "4 times the right gradient",
            "2 times the right gradient",
            "2 ranks x 4 micro-batches: 4 times the right gradient why: summed over micro-batches,",
        )

    def test_other_samples_or_another_start_are_no_fault_of_the_loss(self):
        outcome = self.equal_of("plain.py", "drawn", *ARGUMENTS)
        self.assert_said(outcome, 4, "another gradient:", "UNKNOWN:", "its samples are others")
        outcome = self.equal_of("plain.py", "unseeded", *ARGUMENTS)
        self.assert_said(
            outcome, 4, "is not the same before the first step", "is each rank seeded?"
        )

    def test_a_job_that_is_not_told_its_split(self):
        outcome = self.equal_of("plain.py", "step", "4", "2")
        self.assertEqual(outcome.status, 4, outcome.err)
        self.assertIn("of 1 rank x 4 micro-batches, expected 1 rank x 1 micro-batch", outcome.err)

    def test_a_job_that_fails(self):
        kept = self.place / "kept"
        outcome = self.equal_of("plain.py", "step", "no number", "2", more=("--keep", kept))
        self.assertEqual(outcome.status, 4, outcome.err)
        self.assertIn("ValueError", (kept / "output_1_1.log").read_text())
        self.assertIn("split into 1 rank x 1 micro-batch, the job", outcome.err)

    def test_accelerate(self):
        self.assert_said(self.equal_of("with_accelerate.py", "step"), 0, "EQUAL")
        outcome = self.equal_of("with_accelerate.py", "micro_batch")
        self.assert_said(outcome, 1, "NOT EQUAL", "weights stand in the ratio of tokens")

    def test_trainer(self):
        folder = self.place / "trainer"
        outcome = self.equal_of("with_trainer.py", folder, *ARGUMENTS)
        self.assert_said(outcome, 0, "EQUAL")


if __name__ == "__main__":
    unittest.main(verbosity=2)
