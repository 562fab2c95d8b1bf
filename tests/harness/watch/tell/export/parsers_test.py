"""What gradsync watch exports, read by Prometheus' own parser, by TensorBoard, and by its schema.

Usage: parsers_test.py WRITE_WATCH_SAMPLES, the program that writes samples into a directory.
Covers: harness/watch/tell/export/event_file.cpp, harness/watch/tell/export/prometheus.cpp,
harness/watch/tell/export/step_lines.cpp.
"""

import math
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))
sys.path.insert(0, str(Path(__file__).resolve().parents[5] / "harness" / "python"))

from gradsync import series
from schemas import SKIPPED, complaints, load

try:
    from prometheus_client.parser import text_string_to_metric_families
    from tensorboard.backend.event_processing.event_file_loader import EventFileLoader
except ImportError as error:
    print(f"skipped: {error}; harness/setup --oracles has it")
    sys.exit(SKIPPED)

GAUGES = {  # of what is the same in JSON
    "gradsync_step_exposed_seconds": "gradsync/exposed_s",
    "gradsync_synchronization_ratio": "gradsync/synchronization_share",
    "gradsync_step_excess_bytes": "gradsync/excess_bytes",
    "gradsync_latest_rank": "gradsync/latest_rank",
}


class ExportTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="gradsync_test_")
        cls.addClassCleanup(folder.cleanup)
        cls.folder = Path(folder.name)
        subprocess.run([cls.program, cls.folder], check=True)
        cls.jobs = {path.stem: load(path.read_text()) for path in cls.folder.glob("*.json")}

    def families(self, name):
        text = (self.folder / f"{name}.prom").read_text()
        return {family.name: family for family in text_string_to_metric_families(text)}

    def lines(self, name):
        text = (self.folder / f"{name}.jsonl").read_text()
        return [load(line) for line in text.splitlines()]

    def test_prometheus_has_what_the_json_has(self):
        for name, job in self.jobs.items():
            families = self.families(name)
            known = series.known(job)
            for metric, of_json in GAUGES.items():
                samples = families[metric].samples if metric in families else []
                self.assertEqual([sample.value for sample in samples], values(known, of_json), name)
            for rank in job["ranks"]:
                self.assert_counters(families, rank)

    def assert_counters(self, families, rank):
        labels = {} if rank["rank"] is None else {"rank": str(rank["rank"])}
        self.assertEqual(value_of(families["gradsync_steps"], labels), rank["steps"])
        for operation, sums in rank["collectives"].items():
            labels["operation"] = operation
            count = value_of(families["gradsync_collectives"], labels)
            self.assertEqual(count, sums["count"])
            if sums["bytes"] is not None:
                moved = value_of(families["gradsync_collective_bytes"], labels)
                self.assertEqual(moved, sums["bytes"])

    def test_names_and_labels_are_by_the_conventions(self):
        for name in self.jobs:
            for family in self.families(name).values():
                self.assertTrue(family.name.startswith("gradsync_"))
                self.assertTrue(family.documentation.endswith("."), family.name)
                self.assertIn(family.type, ("counter", "gauge"))
                for sample in family.samples:
                    self.assertEqual(sample.labels["job"], f'the "{name}" job\\')
                    self.assertTrue(math.isfinite(sample.value))
                    self.assertIsNone(sample.timestamp, "textfiles must not have any")

    def test_only_counters_end_in_total(self):
        # The parser gives that ending to every counter.
        for name in self.jobs:
            for line in (self.folder / f"{name}.prom").read_text().splitlines():
                if line.startswith("# TYPE "):
                    metric, kind = line.split()[2:]
                    self.assertEqual(metric.endswith("_total"), kind == "counter", metric)

    def test_lines_obey_their_schema(self):
        self.assertEqual(len(self.lines("improper")), 6)
        for name in self.jobs:
            for number, line in enumerate(self.lines(name), 1):
                self.assertEqual(complaints("watch_step", line), [], name)
                self.assertEqual(line["steps"], number)
                self.assertLess(abs(line["ended_s"] - time.time()), 3600 * 24 * 3650)
                unknown = {field for field in line if line[field] is None}
                self.assertEqual(line["null_reasons"].keys(), unknown)

    def test_a_line_that_is_none_is_refused(self):
        [line, *_] = self.lines("improper")
        for field in line:
            wrong = {name: value for name, value in line.items() if name != field}
            self.assertNotEqual(complaints("watch_step", wrong), [], f"{field} may be missing")
        for change in ({"surprise": 1}, {"steps": 0}, {"exposed_s": -1}, {"pid": None}):
            self.assertNotEqual(complaints("watch_step", line | change), [], change)

    def test_tensorboard_has_what_the_lines_have(self):
        for name in self.jobs:
            [file] = (self.folder / name).glob("*tfevents*")
            version, *events = EventFileLoader(str(file)).Load()
            self.assertEqual(version.file_version, "brain.Event:2")
            lines = self.lines(name)
            self.assertEqual([event.step for event in events], [line["steps"] for line in lines])
            for event, line in zip(events, lines, strict=True):
                self.assertEqual(event.wall_time, line["ended_s"])
                self.assert_scalars(event, series.known({"series": line}))

    def assert_scalars(self, event, numbers):
        drawn = {value.tag: scalar_of(value) for value in event.summary.value}
        self.assertEqual(drawn.keys(), numbers.keys())
        for tag, number in numbers.items():
            self.assertAlmostEqual(drawn[tag], number, delta=1e-6 * abs(number))


def values(known, name):
    return [known[name]] if name in known else []


def value_of(family, labels):
    [value] = [
        sample.value
        for sample in family.samples
        if {name: text for name, text in sample.labels.items() if name != "job"} == labels
    ]
    return value


def scalar_of(value):
    """TensorBoard turns a simple value into a tensor."""
    return value.tensor.float_val[0] if value.HasField("tensor") else value.simple_value


if __name__ == "__main__":
    ExportTest.program = sys.argv.pop(1)
    unittest.main(verbosity=2)
