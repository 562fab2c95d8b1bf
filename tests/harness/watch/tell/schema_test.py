"""What gradsync watch and gradsync equal write obeys watch.schema.json and equal.schema.json of
results/schema, which refuse what they should.

Usage: schema_test.py WRITE_WATCH_SAMPLES, the program that writes samples into a directory.
"""

import copy
import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from schemas import complaints, place_in

# Absent in older files.
LATER = {
    "backwards",
    "inside",
    "account",
    "axes",
    "cause",
    "flags",
    "gpu",
    "kinds",
    "models",
    "parts",
    "no_parts_because",
    "policies",
    "series",
    "wastes",
}


class WatchTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        with tempfile.TemporaryDirectory(prefix="gradsync_test_") as folder:
            subprocess.run([cls.program, folder], check=True)
            cls.jobs = {p.stem: json.loads(p.read_text()) for p in Path(folder).glob("*.json")}
        cls.job = cls.jobs["improper"]

    def test_written_jobs_are_valid(self):
        self.assertEqual(len(self.jobs), 18)
        for name, job in self.jobs.items():
            self.assertEqual(complaints("watch", job), [], name)
        kinds = {job["verdicts"][0]["kind"] for job in self.jobs.values()}
        self.assertGreaterEqual(
            kinds, {"once_per_step", "more_than_once", "never", "not_recognised", "no_steps"}
        )

    def test_every_field_is_required(self):
        for path in (
            (),
            ("ranks", 0),
            ("ranks", 0, "collectives", "all_reduce"),
            ("per_step",),
            ("per_step", "excess", "all_reduce"),
            ("per_step", "parts"),
            ("verdicts", 0),
            ("verdicts", 0, "change"),
            ("series",),
        ):
            for field in place_in(self.job, path):
                if field in LATER:
                    continue
                wrong = copy.deepcopy(self.job)
                del place_in(wrong, path)[field]
                self.assertNotEqual(
                    complaints("watch", wrong), [], f"{path}: {field} may be missing"
                )

    def test_wrong_values_are_refused(self):
        for path, to in (
            (("schema",), "gradsync.watch/2"),
            (("surprise",), 1),
            (("world_size",), -1),
            (("verdicts",), []),
            (("verdicts", 0, "kind"), "fine"),
            (("verdicts", 0, "sentence"), ""),
            (("verdicts", 0, "change", "line"), 0),
            (("per_step", "steps"), 0),
            (("per_step", "step_s"), -1),
            (("per_step", "excess_s"), None),
            (("per_step", "parts"), None),
            (("per_step", "no_parts_because"), "it has parts"),
            (("per_step", "parts", "synchronization_s"), -1),
            (("per_step", "collectives", "all_reduce", "count"), 0),
            (("per_step", "collectives", "all_reduce", "bytes"), -1),
            (("ranks", 0, "rank"), -1),
            (("ranks", 0, "peak_allocated_bytes"), -1),
            (("ranks", 0, "peak_allocated_bytes"), 5),
            (("ranks", 0, "no_peak_because"), None),
            (("series", "exposed_s"), -1),
            (("series", "synchronization_share"), 1.5),
            (("series", "latest_rank"), -1),
        ):
            wrong = copy.deepcopy(self.job)
            place_in(wrong, path[:-1])[path[-1]] = to
            self.assertNotEqual(complaints("watch", wrong), [], f"{path} = {to!r} was accepted")

    def test_older_files_have_no_parts(self):
        older = copy.deepcopy(self.job)
        del older["per_step"]["parts"]
        self.assertNotEqual(complaints("watch", older), [], "only one of the two is missing")
        del older["per_step"]["no_parts_because"]
        self.assertEqual(complaints("watch", older), [])

    def test_axes_are_told(self):
        hybrid = self.jobs["hybrid"]
        axes = {axis["role"]: axis for axis in hybrid["per_step"]["axes"]}
        self.assertEqual(list(axes), ["shard", "replicate"])
        self.assertEqual(axes["replicate"]["excess"]["all_reduce"]["count"], 6)
        older = copy.deepcopy(hybrid)
        del older["per_step"]["axes"]
        self.assertEqual(complaints("watch", older), [])
        for field in axes["shard"]:
            wrong = copy.deepcopy(hybrid)
            del wrong["per_step"]["axes"][0][field]
            self.assertNotEqual(complaints("watch", wrong), [], f"{field} may be missing")
        for field, to in (("role", "both"), ("name", ""), ("ranks", []), ("ranks", [-1])):
            wrong = copy.deepcopy(hybrid)
            wrong["per_step"]["axes"][0][field] = to
            self.assertNotEqual(complaints("watch", wrong), [], f"{field} = {to!r} was accepted")

    def test_gpus_are_told(self):
        on_gpus = self.jobs["on_gpus"]
        self.assertEqual(on_gpus["per_step"]["gpu"]["most_exposed"]["of"], 8)
        older = copy.deepcopy(on_gpus)
        del older["per_step"]["gpu"], older["ranks"][0]["gpu"]
        self.assertEqual(complaints("watch", older), [])
        for path in (("per_step", "gpu"), ("per_step", "gpu", "most_exposed"), ("ranks", 0, "gpu")):
            for field in place_in(on_gpus, path):
                wrong = copy.deepcopy(on_gpus)
                del place_in(wrong, path)[field]
                self.assertNotEqual(complaints("watch", wrong), [], f"{field} may be missing")
        wrong = copy.deepcopy(on_gpus)
        wrong["ranks"][0]["gpu"]["exposed_s"] = -1
        self.assertNotEqual(complaints("watch", wrong), [], "less than nothing is exposed")

    def test_flags_are_told(self):
        hybrid = self.jobs["hybrid"]
        [flag] = hybrid["flags"]
        self.assertEqual((flag["name"], flag["on"]), ("set_is_last_backward", 24))
        older = copy.deepcopy(hybrid)
        del older["flags"]
        self.assertEqual(complaints("watch", older), [])
        for field in flag:
            wrong = copy.deepcopy(hybrid)
            del wrong["flags"][0][field]
            self.assertNotEqual(complaints("watch", wrong), [], f"{field} may be missing")

    def test_wastes_are_told(self):
        [waste] = self.jobs["one_bucket"]["wastes"]
        self.assertEqual((waste["kind"], waste["reductions"]), ("one_bucket", 1))
        by_hand = [waste["kind"] for waste in self.jobs["by_hand"]["wastes"]]
        self.assertEqual(by_hand, ["small_reductions", "no_overlap"])
        older = copy.deepcopy(self.jobs["one_bucket"])
        del older["wastes"]
        self.assertEqual(complaints("watch", older), [])
        for field in waste.keys() - {"places"}:  # of later files
            wrong = copy.deepcopy(self.jobs["one_bucket"])
            del wrong["wastes"][0][field]
            self.assertNotEqual(complaints("watch", wrong), [], f"{field} may be missing")
        for field, to in (("kind", "slow"), ("reductions", 0), ("saved_s", -1), ("saved_s", None)):
            wrong = copy.deepcopy(self.jobs["one_bucket"])
            wrong["wastes"][0][field] = to
            self.assertNotEqual(complaints("watch", wrong), [], f"{field} = {to!r} was accepted")

    def test_chatter_is_told_by_line(self):
        chattering = self.jobs["chattering"]
        told = {waste["kind"]: waste["places"] for waste in chattering["wastes"]}
        self.assertEqual(list(told), ["barriers", "object_collectives", "small_collectives"])
        lines = [(place["line"], place["calls"]) for place in told["small_collectives"]]
        self.assertEqual(lines, [(71, 3), (74, 1)])
        older = copy.deepcopy(chattering)
        for waste in older["wastes"]:
            del waste["places"]
        self.assertEqual(complaints("watch", older), [])
        for field in told["barriers"][0]:
            wrong = copy.deepcopy(chattering)
            del wrong["wastes"][0]["places"][0][field]
            self.assertNotEqual(complaints("watch", wrong), [], f"{field} may be missing")

    def test_models_are_told(self):
        several = self.jobs["several_models"]
        kinds = [model["verdict"]["kind"] for model in several["models"]]
        self.assertEqual(kinds, ["more_than_once", "once_per_step"])
        older = copy.deepcopy(several)
        del older["models"]
        self.assertEqual(complaints("watch", older), [])
        for field in several["models"][0]:
            wrong = copy.deepcopy(several)
            del wrong["models"][0][field]
            self.assertNotEqual(complaints("watch", wrong), [], f"{field} may be missing")

    def test_policies_are_told(self):
        hybrid = self.jobs["hybrid"]
        held = [policy["held_bytes"] for policy in hybrid["per_step"]["policies"]]
        self.assertEqual(held, [1000, 1000, 2000])
        older = copy.deepcopy(hybrid)
        del older["per_step"]["policies"]
        self.assertEqual(complaints("watch", older), [])
        for field in hybrid["per_step"]["policies"][0]:
            wrong = copy.deepcopy(hybrid)
            del wrong["per_step"]["policies"][0][field]
            came_later = field == "parameter_bytes"
            may_be_missing = complaints("watch", wrong) == []
            self.assertEqual(may_be_missing, came_later, field)

    def test_older_files_have_no_peaks(self):
        older = copy.deepcopy(self.job)
        for rank in older["ranks"]:
            del rank["peak_allocated_bytes"], rank["peak_is_on_gpu"], rank["no_peak_because"]
        self.assertEqual(complaints("watch", older), [])

    def test_older_files_have_no_series(self):
        older = copy.deepcopy(self.job)
        del older["series"]
        self.assertEqual(complaints("watch", older), [])

    def test_nobody_fails_for_what_is_not_recognised(self):
        wrong = copy.deepcopy(self.jobs["cleared"])
        wrong["verdicts"][0]["fails"] = True
        self.assertNotEqual(complaints("watch", wrong), [])


class EqualTest(unittest.TestCase):
    """gradsync equal's file, of which golden_test.cpp keeps one as it is written."""

    written = json.loads((Path(__file__).parent / "golden" / "equal.json").read_text())

    def test_what_is_written_is_valid(self):
        self.assertEqual(complaints("equal", self.written), [])

    def test_every_field_is_required(self):
        verdict = ("others", 0, "verdict")
        for path in ((), ("right",), ("others", 0), verdict, (*verdict, "gradient")):
            for field in place_in(self.written, path):
                wrong = copy.deepcopy(self.written)
                del place_in(wrong, path)[field]
                self.assertNotEqual(complaints("equal", wrong), [], f"{path}: {field}")


if __name__ == "__main__":
    WatchTest.program = sys.argv.pop(1)
    unittest.main(verbosity=2)
