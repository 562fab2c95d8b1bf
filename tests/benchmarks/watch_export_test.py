"""gradsync watch --prometheus, --tensorboard, --steps-json, while a job runs and however it ends.

What a job of two ranks amounts to there is in watch_report_test.py.

Covers: watch_command.cpp.
"""

import json
import signal
import unittest

from watch_test import TORCH_PYTHON, WatchTest

ENDLESS = """
import sys, time
import torch
model = torch.nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
while True:
    model(torch.ones(2, 4)).sum().backward()
    optimizer.step()
    time.sleep(0.05)
"""


class WatchExportTest(WatchTest):
    def setUp(self):
        super().setUp()
        self.prometheus = self.place / "job.prom"
        self.lines_file = self.place / "steps.jsonl"
        self.scalars = self.place / "scalars"
        self.options = (
            *("--prometheus", self.prometheus, "--job", "a job"),
            *("--steps-json", self.lines_file, "--tensorboard", self.scalars),
        )

    def value(self, name):
        """Returns the value in the line that begins so; None: there is no such line."""
        if not self.prometheus.exists():
            return None
        for line in self.prometheus.read_text().splitlines():
            if line.startswith(name):
                return float(line.rsplit(" ", 1)[1])
        return None

    def lines(self):
        return [json.loads(line) for line in self.lines_file.read_text().splitlines()]

    def test_while_it_runs_and_when_it_was_interrupted(self):
        process = self.start_watch(TORCH_PYTHON, "-c", ENDLESS, options=self.options, python=None)
        # A process without a group has no rank.
        steps = 'gradsync_steps_total{job="a job"}'
        first = self.wait_until(lambda: self.value(steps), what="the first steps")
        self.assertEqual(self.value("gradsync_job_running"), 1)
        self.assertGreaterEqual(len(self.lines()), first)
        process.send_signal(signal.SIGINT)
        outcome = self.finish(process)
        self.assertNotEqual(outcome.status, 0)
        self.assertIn("one process", outcome.err)
        self.assertEqual(self.value("gradsync_job_running"), 0)
        numbers = [line["steps"] for line in self.lines()]
        self.assertEqual(numbers, list(range(1, len(numbers) + 1)))
        self.assertEqual(self.value(steps), len(numbers))
        self.assertGreater(len(numbers), first)
        [events] = self.scalars.iterdir()
        self.assertGreater(events.stat().st_size, 0)

    def test_a_job_that_fails_unwatched_has_ended_all_the_same(self):
        outcome = self.watch(
            "sh", "-c", f"cp {self.prometheus} before; exit 7", options=self.options
        )
        self.assertEqual(outcome.status, 7, outcome.err)
        self.assertIn('gradsync_job_running{job="a job"} 1', (self.place / "before").read_text())
        self.assertEqual(self.value("gradsync_job_running"), 0)
        self.assertEqual(self.lines(), [])

    def test_a_job_is_called_as_its_script(self):
        self.watch("sh", "-c", "true", "train.py", options=("--prometheus", self.prometheus))
        self.assertIsNotNone(self.value('gradsync_job_running{job="train.py"}'))

    def test_what_cannot_be_written_is_told_before_the_job_starts(self):
        (self.place / "file").touch()
        for option, got, *words in (
            ("--prometheus", "nowhere/job.prom", "nowhere/job.prom: cannot be written"),
            ("--steps-json", "nowhere/steps", "nowhere/steps: cannot be opened"),
            ("--steps-json", "-", "standard output is the job's"),
            ("--tensorboard", "file", "file: cannot be made"),
            ("--job", "x", "--prometheus"),
        ):
            outcome = self.watch("touch", "started", options=(option, got))
            self.assert_refused(outcome, option, *words)
        self.assertFalse((self.place / "started").exists())


if __name__ == "__main__":
    unittest.main(verbosity=2)
