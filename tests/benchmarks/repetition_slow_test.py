"""The plans that pass over micro-batches, whole and run in full: no byte and no count differs."""

import unittest

from program import ProgramTest
from repetition import declared, exact

HOURS_S = 2 * 3600  # for hangs alone


class RepetitionSlow(ProgramTest):
    def trials_of(self, out, *arguments):
        run = self.start("run", *arguments, "--out", self.place / out)
        outcome = self.finish(run, timeout_s=HOURS_S)
        self.assertEqual(outcome.status, 0, outcome.err)
        return self.trials(out)

    def assert_same(self, *arguments):
        short = self.trials_of("short", *arguments)
        whole = self.trials_of("whole", *arguments, "--every-micro-batch")
        self.assertEqual([exact(trial) for trial in short], [exact(trial) for trial in whole])
        self.assertEqual({declared(trial) for trial in whole}, {0})
        passed_over = sum(declared(trial) for trial in short)
        self.assertGreater(passed_over, 0)
        print(f"{len(short)} trials, {passed_over} micro-batches of a step not run")

    def test_memory_sweep(self):
        self.assert_same("memory_sweep", "--set", "parts=shards,budget,dtypes,ddp")

    def test_mixtral_8x7b(self):
        self.assert_same("mixtral_8x7b")


if __name__ == "__main__":
    unittest.main()
