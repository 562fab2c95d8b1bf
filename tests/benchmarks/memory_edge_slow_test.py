"""Every point of memory_sweep at the edge: a budget of its peak fits, one byte less is out of it.

Minutes a part, so the parts are cases of their own.
"""

import json
import unittest

from program import ROOT, ProgramTest

SWEEP = json.loads((ROOT / "benchmarks" / "plans" / "memory_sweep.json").read_text())
TRIAL_S = 300  # for hangs alone: one takes seconds


class MemoryEdge(ProgramTest):
    def assert_edges(self, part):
        peaks = self.peaks_of(part)
        self.assertGreater(len(peaks), 1)
        points = [
            cell | {"memory_budget_bytes": peak - less} for cell, peak in peaks for less in (0, 1)
        ]
        plan = {name: SWEEP[name] for name in ("schema", "steps", "warmup_steps", "timeout_s")} | {
            "name": "edges",
            "parts": [
                {"name": f"point{number}", "cells": {name: [value] for name, value in cell.items()}}
                for number, cell in enumerate(points)
            ],
        }
        outcome = self.finish(
            self.start("run", self.plan_file(plan), "--out", self.place / "edges"),
            timeout_s=TRIAL_S * len(points),
        )
        self.assertEqual(outcome.status, 0, outcome.err)
        statuses = [trial["status"] for trial in self.trials("edges")]
        wrong = [
            (cell["strategy"], cell["accumulation_steps"], peak, pair)
            for (cell, peak), pair in zip(
                peaks, zip(statuses[::2], statuses[1::2], strict=True), strict=True
            )
            if pair != ("ok", "oom")
        ]
        self.assertEqual(wrong, [])
        print(f"{part}: {len(peaks)} points, {len(statuses)} trials")

    def peaks_of(self, part):
        """The points of a part that ran, each with the most that one of its ranks held."""
        outcome = self.finish(
            self.start(
                *("run", "memory_sweep", "--set", f"parts={part}", "--set", f"{part}.launches=1"),
                *("--out", self.place / "sweep"),
            ),
            timeout_s=TRIAL_S * 40,
        )
        self.assertEqual(outcome.status, 0, outcome.err)
        return [
            (trial["cell"], max(rank["peak_allocated_bytes"] for rank in trial["ranks"]))
            for trial in self.trials("sweep")
            if trial["status"] == "ok"
        ]

    def test_shards(self):
        self.assert_edges("shards")

    def test_budget(self):
        self.assert_edges("budget")

    def test_dtypes(self):
        self.assert_edges("dtypes")

    def test_ddp(self):
        self.assert_edges("ddp")

    def test_times(self):
        self.assert_edges("times")


if __name__ == "__main__":
    unittest.main()
