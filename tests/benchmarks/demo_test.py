"""gradsync demo: the tour, to its end, cut off, and where there is no torch.

Covers: demo_command.cpp, train.py.
"""

import re
import signal
import sys
import unittest

from program import ProgramTest
from watch_test import CACHE, TORCH_PYTHON

UNFIT, INTERRUPTED = 4, 130


class DemoTest(ProgramTest):
    def start_demo(self, python=TORCH_PYTHON, **more):
        places = {"XDG_CACHE_HOME": str(CACHE), "TMPDIR": str(self.place)}
        return self.start("demo", "--python", python, env=places, **more)

    def assert_no_files_left(self):
        self.assertEqual(list(self.place.glob("gradsync_watch_*")), [])

    def test_the_tour(self):
        outcome = self.finish(self.start_demo())
        self.assertEqual(outcome.status, 0, outcome.err)
        self.assertIn("VERDICT: synchronizes in every micro-batch (8 x per step", outcome.out)
        self.assertRegex(outcome.out, r"->\s+\d+\s+with unsynchronized\(model, micro_batch\):")
        self.assertIn("VERDICT: synchronizes once per optimizer step: good", outcome.out)
        self.assertRegex(outcome.out, r"\| synchronizations \| +8 \| +1 \|")
        # 4 layers with 1024 x 1024 weights and 1024 biases each, 4 bytes per number.
        size = 4 * (1024 * 1024 + 1024) * 4 / 2**20
        self.assertRegex(outcome.out, rf"\| bytes +\| {8 * size:.1f} MiB \| +{size:.1f} MiB \|")
        self.assertRegex(outcome.out, r"\| seconds +\| +\d+\.\d{3} \| +\d+\.\d{3} \|")
        self.assertIn("One line moved: 7 synchronizations", re.sub(r"\s+", " ", outcome.out))
        self.assert_no_files_left()

    def test_cut_off_it_leaves_nothing(self):
        demo = self.start_demo()
        # Both ranks and torchrun, beside the program.
        self.wait_until(lambda: len(self.marked_processes()) >= 4, what="both ranks")
        demo.send_signal(signal.SIGINT)
        self.assertEqual(self.finish(demo).status, INTERRUPTED)
        self.assert_nothing_left()
        self.assert_no_files_left()

    def test_without_torch_it_says_so(self):
        python = self.place / "python3"
        python.write_text(f'#!/bin/sh\nexec {sys.executable} -S -E "$@"\n')
        python.chmod(0o755)
        outcome = self.finish(self.start_demo(python))
        self.assertEqual(outcome.status, UNFIT, outcome.out + outcome.err)
        self.assertIn("torch", outcome.err)


if __name__ == "__main__":
    unittest.main(verbosity=2)
