"""What the tensors of a watched job held at most: to the byte, the same in every start, and not
told where it is not known.

Covers: tensor_memory.cpp.
"""

import json
import unittest
from pathlib import Path

from program import free_port
from watch_test import FORKED_RANKS, TORCH_PYTHON, WatchTest, watched_server

HOLDING = Path(__file__).with_name("holding_training.py")
MORE = 1 << 20
# A plain step of known size: what is held at most is the parameter, its gradient, and the product.
KNOWN = """
import torch
weight = torch.zeros(1000, requires_grad=True)
optimizer = torch.optim.SGD([weight], lr=0.1)
for _ in range(3):
    (weight * 2.0).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
big = torch.empty(50_000, dtype=torch.uint8)
"""


class PeakTest(WatchTest):
    def ranks_of(self, *job):
        place = {"MASTER_PORT": str(free_port()), **watched_server().place}
        outcome = self.watch(*job, options=("--json", self.place / "watched.json"), env=place)
        self.assertEqual(outcome.status, 0, outcome.err)
        self.said = outcome.err
        return json.loads((self.place / "watched.json").read_text())["ranks"]

    def peaks_of(self, *job):
        ranks = self.ranks_of(TORCH_PYTHON, FORKED_RANKS, 2, *job)
        self.assertEqual([rank["no_peak_because"] for rank in ranks], [None, None])
        self.assertFalse(any(rank["peak_is_on_gpu"] for rank in ranks))
        return [rank["peak_allocated_bytes"] for rank in ranks]

    def test_two_starts_hold_the_same_and_a_tensor_more_is_that_much_more(self):
        first = self.peaks_of(HOLDING)
        self.assertIn(
            f"tensors held at most {first[0] / 1024:.1f} KiB ({first[0]} bytes)", self.said
        )
        self.assertEqual(self.peaks_of(HOLDING), first)
        self.assertEqual(self.peaks_of(HOLDING, "--more", MORE), [peak + MORE for peak in first])

    def test_what_is_held_is_counted_to_the_byte(self):
        (self.place / "known.py").write_text(KNOWN)
        [rank] = self.ranks_of(TORCH_PYTHON, self.place / "known.py")
        # After the steps: the parameter and the last tensor.
        self.assertEqual(rank["peak_allocated_bytes"], 4000 + 50_000)

    def test_an_allocator_of_the_jobs_own_is_left_alone_and_told(self):
        ranks = self.ranks_of(TORCH_PYTHON, FORKED_RANKS, 2, HOLDING, "--own-allocator")
        self.assertIsNone(ranks[0]["peak_allocated_bytes"])
        self.assertEqual(ranks[0]["no_peak_because"], "the job has an allocator of its own")
        self.assertIn("tensors held at most is not known: the job has an allocator", self.said)

    def test_a_job_that_trains_on_a_thread_is_not_counted_by_halves(self):
        ranks = self.ranks_of(TORCH_PYTHON, FORKED_RANKS, 2, HOLDING, "--on-a-thread")
        self.assertIn("another thread", ranks[0]["no_peak_because"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
