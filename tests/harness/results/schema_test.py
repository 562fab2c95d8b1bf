"""What the suite writes obeys results/schema/*, and the schemas refuse what they should.

Usage: schema_test.py WRITE_SAMPLES, the program that writes a sample run into a directory.
"""

import copy
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from schemas import complaints, load, place_in

OK_IN_BOTH = 1  # index of such a cell in the written comparison
# Fields that trials of this version written earlier lack: such files stay valid.
ADDED_TO_TRIALS = {
    "account",
    "memory_timeline_at",
    "predicted_peak_allocated_bytes",
    "predicted_peak_by_category",
    "timelines_at",
}
ADDED_TO_RANKS = {
    "parameter_distance",
    "peak_by_category",
    "peak_reserved_estimate_bytes",
    "queue_wait_s",
    "running_statistics",
    "throttled_s",
    "unaccounted_s",
}


class SchemaCase(unittest.TestCase):
    """Changes one thing at a time in what was written, and expects a complaint."""

    @classmethod
    def setUpClass(cls):
        with tempfile.TemporaryDirectory(prefix="gradsync_test_") as folder:
            subprocess.run([cls.program, f"{folder}/run"], check=True)
            lines = Path(f"{folder}/run/trials.jsonl").read_text().splitlines()
            cls.timelines_text = Path(f"{folder}/run/timelines.jsonl").read_text()
            cls.result = load(Path(f"{folder}/run/result.json").read_text())
            cls.comparison = load(Path(f"{folder}/run/comparison.json").read_text())
            cls.forbidden = load(Path(f"{folder}/run/comparison_forbidden.json").read_text())
        cls.trials = [load(line) for line in lines]

    def assert_refused(self, kind, value, *path, to):
        wrong = copy.deepcopy(value)
        place_in(wrong, path[:-1])[path[-1]] = to
        self.assertNotEqual(complaints(kind, wrong), [], f"{path} = {to!r} was accepted")


class TrialTest(SchemaCase):
    def test_every_written_trial_is_valid(self):
        statuses = {trial["status"] for trial in self.trials}
        self.assertEqual(statuses, {"ok", "oom", "timeout", "failed", "skipped", "invalid"})
        for trial in self.trials:
            self.assertEqual(complaints("trial", trial), [])

    def test_every_field_is_required(self):
        for field in self.trials[0]:
            wrong = copy.deepcopy(self.trials[0])
            del wrong[field]
            if field in ADDED_TO_TRIALS:
                self.assertEqual(complaints("trial", wrong), [], f"trials before {field}")
                continue
            self.assertNotEqual(complaints("trial", wrong), [], f"{field} may be missing")
        for field in self.trials[0]["ranks"][0]:
            wrong = copy.deepcopy(self.trials[0])
            del wrong["ranks"][0][field]
            if field in ADDED_TO_RANKS:
                self.assertEqual(complaints("trial", wrong), [], f"trials before {field}")
                continue
            self.assertNotEqual(complaints("trial", wrong), [], f"a rank's {field} may be missing")

    def test_wrong_values_are_refused(self):
        good = self.trials[0]
        self.assert_refused("trial", good, "schema", to="gradsync.trial/2")
        self.assert_refused("trial", good, "surprise", to=1)
        self.assert_refused("trial", good, "status", to="fine")
        self.assert_refused("trial", good, "launch", to=-1)
        self.assert_refused("trial", good, "step_s", to=0.25)
        self.assert_refused("trial", good, "step_s", to=[-0.25])
        self.assert_refused("trial", good, "step_s", to=[])
        self.assert_refused("trial", good, "cell", "strategy", to="")
        self.assert_refused("trial", good, "ranks", 0, "surprise", to=1)
        self.assert_refused("trial", good, "ranks", 0, "peak_allocated_bytes", to=1.5)
        self.assert_refused("trial", good, "ranks", 0, "peak_by_category", to={"other": -1})
        self.assert_refused("trial", good, "ranks", 0, "peak_reserved_estimate_bytes", to=1.5)
        self.assert_refused("trial", good, "timelines_at", to={"offset": -1, "bytes": 10})
        self.assert_refused("trial", good, "timelines_at", to={"offset": 0})
        self.assert_refused("trial", good, "predicted_peak_allocated_bytes", to=1.5)
        self.assert_refused("trial", good, "predicted_peak_by_category", to={"other": -1})
        self.assert_refused("trial", good, "ledger", "per_step", "all_reduce", to={"count": 1})

    def test_a_status_and_its_reason_belong_together(self):
        failed = next(trial for trial in self.trials if trial["status"] == "failed")
        self.assert_refused("trial", self.trials[0], "reason", to="because")
        self.assert_refused("trial", self.trials[0], "ledger", "matches", to=False)
        self.assert_refused("trial", failed, "reason", to="")


class TimelinesTest(SchemaCase):
    def line_of(self, part):
        """Returns the first trial's line that its field `part` points at."""
        place = self.trials[0][part]
        return load(self.timelines_text[place["offset"] :][: place["bytes"]])

    def test_every_written_line_is_valid(self):
        lines = [load(line) for line in self.timelines_text.splitlines()]
        self.assertGreater(len(lines), 2)
        for line in lines:
            self.assertEqual(complaints("timelines", line), [])

    def test_wrong_values_are_refused(self):
        steps, memory = self.line_of("timelines_at"), self.line_of("memory_timeline_at")
        self.assert_refused("timelines", steps, "schema", to="gradsync.memory_timeline/1")
        self.assert_refused("timelines", steps, "ranks", to=[])
        self.assert_refused("timelines", steps, "ranks", 0, "start_s", to="noon")
        self.assert_refused("timelines", steps, "ranks", 0, "events", "bytes", to=[-1])
        self.assert_refused("timelines", steps, "ranks", 0, "phases", "phase", to=["asleep"])
        self.assert_refused("timelines", memory, "points", "micro_batch", to=[-2])
        self.assert_refused("timelines", memory, "points", "bytes", "other", to=[-1])
        self.assert_refused("timelines", memory, "points", "surprise", to=[1])


class ResultTest(SchemaCase):
    def test_the_written_result_is_valid(self):
        self.assertEqual(len(self.result["cells"]), 7)
        self.assertEqual(complaints("result", self.result), [])

    def test_exit_statuses_are_those_of_the_program(self):
        for status in (0, 5, 130, None):
            self.assertEqual(complaints("result", self.result | {"exit_status": status}), [])
        self.assert_refused("result", self.result, "exit_status", to=1000)

    def test_wrong_values_are_refused(self):
        ok = next(i for i, cell in enumerate(self.result["cells"]) if cell["status"] == "ok")
        self.assert_refused("result", self.result, "schema", to="gradsync.result/2")
        self.assert_refused("result", self.result, "surprise", to=1)
        self.assert_refused("result", self.result, "context", "timing_valid", to="yes")
        for path, wrong in (
            (("surprise",), 1),
            (("status",), "fine"),
            (("reason",), "because"),
            (("timing",), "simulated"),
            (("step_s", "n"), 0),
            (("step_s", "mean"), None),
            (("step_s", "ci95"), [1.0]),
            (("slowdown", "ratio"), 0),
            (("attribution", "steps"), 0),
            (("attribution", "ranks", 0, "wire_s"), -1),
            (("attribution", "ranks", 0, "collectives", 0, "bucket"), None),
            (("peak_allocated_bytes",), 1.5),
        ):
            self.assert_refused("result", self.result, "cells", ok, *path, to=wrong)

    def test_unknown_needs_a_reason(self):
        for i, cell in enumerate(self.result["cells"]):
            for field in (
                "step_s",
                "slowdown",
                "attribution",
                "peak_by_category",
                "peak_reserved_bytes",
                "peak_reserved_estimate_bytes",
                "predicted_peak_allocated_bytes",
                "predicted_peak_by_category",
                "collectives_per_step",
            ):
                if cell[field] is None:
                    reasons = {k: v for k, v in cell["null_reasons"].items() if k != field}
                    self.assert_refused(
                        "result", self.result, "cells", i, "null_reasons", to=reasons
                    )
                else:
                    self.assert_refused("result", self.result, "cells", i, field, to=None)


class ComparisonTest(SchemaCase):
    def test_written_comparisons_are_valid(self):
        self.assertEqual(complaints("comparison", self.comparison), [])
        self.assertEqual(complaints("comparison", self.forbidden), [])
        effects = [entry["effect"] for entry in self.forbidden["differences"]]
        self.assertEqual(effects, ["forbids_times"])
        for name in ("differences", "cells", "only_in_a", "only_in_b"):
            self.assertNotEqual(self.comparison[name], [])

    def test_every_field_is_required(self):
        for path in (
            (),
            ("a",),
            ("differences", 0),
            ("cells", OK_IN_BOTH),
            ("cells", OK_IN_BOTH, "b"),
        ):
            place = place_in(self.comparison, path)
            for field in place:
                wrong = copy.deepcopy(self.comparison)
                del place_in(wrong, path)[field]
                self.assertNotEqual(complaints("comparison", wrong), [], f"{path}: no {field}")

    def test_wrong_values_are_refused(self):
        for path, wrong in (
            (("schema",), "gradsync.comparison/2"),
            (("surprise",), 1),
            (("a", "directory"), ""),
            (("differences", 0, "effect"), "maybe"),
            (("differences", 0, "scale"), 0),
            (("cells", OK_IN_BOTH, "timing"), "simulated"),
            (("cells", OK_IN_BOTH, "step_ratio", "ratio"), 0),
            (("cells", OK_IN_BOTH, "step_ratio", "ci95"), [1.0]),
            (("cells", OK_IN_BOTH, "a", "status"), "fine"),
            (("cells", OK_IN_BOTH, "a", "reason"), "because"),
            (("only_in_a", 0, "cell"), "baseline"),
        ):
            self.assert_refused("comparison", self.comparison, *path, to=wrong)

    def test_unknown_needs_a_reason(self):
        self.assert_refused(
            "comparison", self.comparison, "cells", OK_IN_BOTH, "step_ratio", to=None
        )
        self.assert_refused(
            "comparison", self.comparison, "cells", OK_IN_BOTH, "same_collectives", to=None
        )
        for i, cell in enumerate(self.forbidden["cells"]):
            self.assertIsNone(cell["step_ratio"])
            self.assert_refused("comparison", self.forbidden, "cells", i, "null_reasons", to={})


if __name__ == "__main__":
    SchemaCase.program = sys.argv.pop(1)
    unittest.main(verbosity=2)
