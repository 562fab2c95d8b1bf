"""The Google Benchmark programs: they run, on several ranks too, and count bandwidth as stated.

Covers: collectives.cpp, engine.cpp, ranks.cpp, watch.cpp.
"""

import json
import os
import unittest
from pathlib import Path

from program import ProgramTest

FOLDER = Path(os.environ["GRADSYNC_MICRO"])
CACHE = FOLDER.parent / "watch_cache"  # of the preloaded library, as watch_test.py has it
QUICK = ("--benchmark_format=json", "--benchmark_min_time=0.001")


class MicroTest(ProgramTest):
    def run_micro(self, program, *arguments, **options):
        outcome = self.call(*QUICK, *arguments, command=(str(FOLDER / program),), **options)
        self.assertEqual(outcome.status, 0, outcome.err)
        return json.loads(outcome.out[outcome.out.index("{") :])["benchmarks"]

    def test_collectives_on_two_and_three_ranks(self):
        for ranks in (2, 3):
            runs = self.run_micro(
                "micro_collectives", f"--topology=1x{ranks}", "--benchmark_filter=/65536/"
            )
            factors = {
                "all_reduce": 2 * (ranks - 1) / ranks,
                "reduce_scatter": (ranks - 1) / ranks,
                "all_gather": (ranks - 1) / ranks,
                "broadcast": 1,
            }
            self.assertEqual({run["name"].split("/")[0] for run in runs}, set(factors))
            for run in runs:
                share = 65536 // ranks * ranks
                seconds = run["real_time"] * 1e-3
                self.assertAlmostEqual(run["algbw_GB"] * seconds, share * 1e-9, delta=1e-12)
                factor = factors[run["name"].split("/")[0]]
                self.assertAlmostEqual(run["busbw_GB"], run["algbw_GB"] * factor)

    def test_links_of_what_collectives_printed(self):
        """Real times: what is found is not known, but that it is read is."""
        command = (str(FOLDER / "micro_collectives"), "--topology=1x2")
        timed = self.call(*QUICK, "--benchmark_filter=/(65536|4194304)/", command=command)
        self.assertEqual(timed.status, 0, timed.err)
        file = self.place / "times.json"
        file.write_text(timed.out)
        outcome = self.call("predict", "links", file)
        self.assertEqual(outcome.status, 0, outcome.err)
        self.assertIn("a rank's link inside of a node", outcome.out)
        for collective in ("all_reduce", "reduce_scatter", "all_gather", "broadcast"):
            self.assertRegex(outcome.out, rf"\| 1 x 2 +\| {collective} +\| +2 \|")

    def test_engine(self):
        names = {
            run["name"].split("/")[0]
            for run in self.run_micro(
                "micro_engine", "--benchmark_filter=phase|event|alloc|toggle|all_reduce|mlp"
            )
        }
        self.assertLessEqual(
            {
                "recorder_phase",
                "ledger_event",
                "allocation",
                "caching_allocator_model",
                "no_sync_toggle",
                "all_reduce",
                "model_forward",
            },
            names,
        )

    def test_watch(self):
        """Built for this torch, as for a job, and then in the process: with everything it times."""
        kinds = ("optimizer_range", "collective", "operation")
        runs = self.run_micro("micro_watch", env={"XDG_CACHE_HOME": str(CACHE)})
        self.assertEqual([run for run in runs if run.get("error_occurred")], [])
        self.assertEqual(
            [run["name"].split("/iterations")[0] for run in runs],
            ["recorder_event", *(f"{k}/alone" for k in kinds), *(f"{k}/watched" for k in kinds)],
        )

    def test_wrong_usage(self):
        command = (str(FOLDER / "micro_collectives"),)
        self.assertEqual(self.call("--benchmark_nonsense=1", command=command).status, 2)
        outcome = self.call("--topology=nowhere", command=command)
        self.assert_refused(outcome, "topology 'nowhere'")


if __name__ == "__main__":
    unittest.main(verbosity=2)
