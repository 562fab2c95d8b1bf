"""What a watched job leaves, as other commands read it: the file of --json, the folder of --keep,
and the trace. One real job is watched for all tests.

Covers: predict_step_command.cpp, watched_files.cpp.
"""

import json
import shutil
import tempfile
import unittest
from pathlib import Path

from html_rules import Page
from program import ROOT, free_port
from trace_rules import TraceRules
from watch_test import RANKS, TORCH_PYTHON, WatchTest, of_kind

DDP = ROOT / "tests" / "harness" / "watch" / "jobs" / "ddp.py"
STEPS, MICRO_BATCHES = 6, 4  # of the job


class Watched:
    """What was left of the job."""

    def __init__(self, folder, page):
        self.folder = folder
        self.page = page  # as it was printed
        self.json = folder / "watch.json"
        self.html = folder / "watch.html"
        self.trace = folder / "trace.json"
        self.events = folder / "events"
        self.prometheus = folder / "job.prom"
        self.steps = folder / "steps.jsonl"


class WatchedJobTest(WatchTest):
    watched_job = None
    recorded_events = None  # of each rank, as the watcher's own reader has them

    def setUp(self):
        super().setUp()
        if WatchedJobTest.watched_job is None:
            WatchedJobTest.watched_job = self.watch_once()
        self.job = WatchedJobTest.watched_job

    def watch_once(self):
        folder = Path(tempfile.mkdtemp(prefix="gradsync_test_"))
        unittest.addModuleCleanup(shutil.rmtree, folder, ignore_errors=True)
        outcome = self.watch(
            Path(TORCH_PYTHON).with_name("torchrun"),
            f"--nproc-per-node={RANKS}",
            f"--master-port={free_port()}",
            *(DDP, "improper"),
            options=(
                *("--json", folder / "watch.json", "--trace", folder / "trace.json"),
                *("--prometheus", folder / "job.prom", "--steps-json", folder / "steps.jsonl"),
                *("--html", folder / "watch.html"),
            ),
            python=None,
            env={"OMP_NUM_THREADS": "1"},
        )
        self.assertEqual(outcome.status, 0, outcome.err)
        WatchedJobTest.recorded_events = self.seen()
        shutil.copytree(self.events_folder(), folder / "events")
        return Watched(folder, outcome.err[outcome.err.index("WATCH") :])

    def report(self, *arguments):
        outcome = self.call("report", *arguments)
        self.assertEqual(outcome.status, 0, outcome.err)
        return outcome.out


class ReportTest(WatchedJobTest):
    def test_the_page_again(self):
        for place in (self.job.json, self.job.events):
            self.assertEqual(self.report(place).strip(), self.job.page.strip())

    def test_json_again(self):
        written = json.loads(self.job.json.read_text())
        for place in (self.job.json, self.job.events):
            self.assertEqual(json.loads(self.report(place, "--format", "json")), written)

    def test_html_has_the_verdict_and_the_line(self):
        for text in (self.job.html.read_text(), self.report(self.job.json, "--format", "html")):
            page = Page(text)
            self.assertEqual(page.complaints, [])
            self.assertIn("ynchronizes in every micro-batch", page.text)
            self.assertIn(f"{DDP}:", page.text)

    def test_csv_has_a_line_per_operation(self):
        head, *lines = self.report(self.job.json, "--format", "csv").splitlines()
        self.assertTrue(head.startswith("operation,count,bytes,"))
        (line,) = lines
        operation, count, size, enough, enough_bytes, excess, excess_bytes = line.split(",")
        self.assertEqual((operation, count, enough, excess), ("all_reduce", "4", "1", "3"))
        self.assertEqual(int(size), int(enough_bytes) + int(excess_bytes))

    def test_the_trace_of_what_was_kept_is_the_one_that_was_written(self):
        text = self.report(self.job.events, "--format", "trace")
        self.assertEqual(json.loads(text), json.loads(self.job.trace.read_text()))

    def test_two_jobs_side_by_side(self):
        page = self.report(self.job.json, self.job.events)
        self.assertIn("A step communicates the same in both.", page)
        self.assertEqual(page.count("synchronizes in every micro-batch"), 2)
        each = self.report(self.job.json, self.job.json, "--each")
        self.assertEqual(each, self.report(self.job.json) * 2)

    def test_refusals(self):
        foreign = self.place / "foreign.json"
        foreign.write_text('{"schema": "gradsync.result/1"}')
        run = self.place / "run"
        run.mkdir()
        for arguments, words in (
            ((foreign,), ["foreign.json: field 'schema'", "expected gradsync.watch/1"]),
            ((self.job.json, "--format", "benchmark"), ["got the watched job", "expected a run"]),
            ((self.job.json, "--format", "attribution"), ["got the watched job"]),
            ((self.job.json, "--format", "trace"), ["has no events", "--keep"]),
            ((self.job.json, run), ["a run and a watched job"]),
            ((self.job.json, self.job.json, "--format", "json"), ["compared in markdown"]),
        ):
            self.assert_refused(self.call("report", *arguments), *words)


class ExportedTest(WatchedJobTest):
    def setUp(self):
        super().setUp()
        self.written = json.loads(self.job.json.read_text())
        self.steps = [json.loads(line) for line in self.job.steps.read_text().splitlines()]

    def test_series_are_of_the_page(self):
        series, per_step = self.written["series"], self.written["per_step"]
        self.assertEqual(series["steps"], STEPS)
        self.assertEqual(series["excess_bytes"], per_step["excess"]["all_reduce"]["bytes"])
        self.assertGreaterEqual(series["exposed_s"], per_step["excess_s"])
        self.assertIn(series["latest_rank"], (0, 1, None))

    def test_every_step_has_its_line(self):
        self.assertEqual([step["steps"] for step in self.steps], list(range(1, STEPS + 1)))
        self.assertEqual({step["synchronized"] for step in self.steps}, {MICRO_BATCHES})
        bytes_of_a_step = self.written["series"]["excess_bytes"]
        self.assertEqual({step["excess_bytes"] for step in self.steps[1:]}, {bytes_of_a_step})
        for step in self.steps:
            self.assertIn(step["latest_rank"], (0, 1))
            self.assertLess(0, step["exposed_s"])

    def test_prometheus_has_the_series(self):
        lines = self.job.prometheus.read_text().splitlines()
        for rank in range(RANKS):
            self.assertIn(f'gradsync_steps_total{{job="ddp.py",rank="{rank}"}} {STEPS}', lines)
        excess = self.written["series"]["excess_bytes"]
        self.assertIn(f'gradsync_step_excess_bytes{{job="ddp.py"}} {excess}', lines)


class PredictTest(WatchedJobTest):
    def predicted(self, *arguments):
        outcome = self.call("predict", "step", *arguments, "--json")
        self.assertEqual(outcome.status, 0, outcome.err)
        return {(r["accumulation_steps"], r["synchronized"]): r for r in json.loads(outcome.out)}

    def test_what_was_measured_is_among_what_is_predicted(self):
        written = json.loads(self.job.json.read_text())["per_step"]
        rows = self.predicted(self.job.json)
        self.assertEqual(sorted(rows), [(4, 1), (4, 4)])
        self.assertEqual([row["is_measured"] for row in rows.values()], [False, True])
        self.assertEqual(rows[4, 4]["collectives"], written["collectives"])
        self.assertEqual(rows[4, 1]["collectives"], written["ideal"])
        synchronization_s = written["parts"]["synchronization_s"]
        if synchronization_s is None:  # a busy machine: medians that do not add up to a step
            self.assertEqual([row["step_s"] for row in rows.values()], [None, None])
            return
        self.assertAlmostEqual(rows[4, 4]["step_s"], written["step_s"])
        saved = written["step_s"] - rows[4, 1]["step_s"]
        self.assertAlmostEqual(saved, 3 * synchronization_s)

    def test_other_accumulations(self):
        rows = self.predicted(self.job.events, "--accumulation-steps", "1,8")
        self.assertEqual(sorted(rows), [(1, 1), (4, 1), (4, 4), (8, 1), (8, 8)])
        counts = {key: row["collectives"]["all_reduce"]["count"] for key, row in rows.items()}
        self.assertEqual(counts, {key: key[1] for key in rows})

    def test_the_table_says_what_it_cannot(self):
        outcome = self.call("predict", "step", self.job.json)
        self.assertEqual(outcome.status, 0, outcome.err)
        parts = json.loads(self.job.json.read_text())["per_step"]["parts"]
        law = "Seconds are not known" if parts["synchronization_s"] is None else "T = "
        for words in ("as watched", "s/micro-batch", law, "Not predicted: another link"):
            self.assertIn(words, outcome.out)

    def test_refusals(self):
        older = json.loads(self.job.json.read_text())
        del older["per_step"]["parts"], older["per_step"]["no_parts_because"]
        file = self.place / "older.json"
        file.write_text(json.dumps(older))
        for arguments, words in (
            ((file,), ["per_step.parts", "it was written before parts were"]),
            ((self.place / "nothing",), ["nothing", "cannot be read"]),
            ((self.job.json, "--accumulation-steps", "0"), ["accumulation-steps"]),
        ):
            self.assert_refused(self.call("predict", "step", *arguments), *words)


class WatchTraceTest(TraceRules, WatchedJobTest):
    def setUp(self):
        super().setUp()
        self.events = json.loads(self.job.trace.read_text())["traceEvents"]

    def collectives_recorded(self):
        """All that were issued from the first step on: none of the set-up."""
        counts = 0
        for rank in WatchedJobTest.recorded_events:
            begin = min(event["start_ns"] for event in of_kind(rank["events"], "forward"))
            end = max(event["end_ns"] for event in of_kind(rank["events"], "optimizer_step"))
            collectives = of_kind(rank["events"], "collective")
            counts += sum(begin <= event["start_ns"] <= end for event in collectives)
        return counts

    def test_a_process_is_a_rank(self):
        self.assertEqual(
            sorted(self.names("process_name").values()), [f"rank {rank}" for rank in range(RANKS)]
        )

    def test_every_forward_backward_and_step_is_drawn(self):
        drawn = [event["name"] for event in self.of_kind("X")]
        for name, count in (
            ("forward", STEPS * MICRO_BATCHES),
            ("backward", STEPS * MICRO_BATCHES),
            ("optimizer", STEPS),
        ):
            self.assertEqual(drawn.count(name), RANKS * count, name)
        self.assertEqual(drawn.count(f"step {STEPS - 1}"), RANKS)

    def test_a_collective_has_bytes_group_and_step(self):
        reductions = [event for event in self.of_kind("X") if event["name"] == "all_reduce"]
        self.assertEqual(len(reductions), RANKS * STEPS * MICRO_BATCHES)
        written = json.loads(self.job.json.read_text())["per_step"]["collectives"]["all_reduce"]
        last = [r["args"] for r in reductions if r["args"]["step"] == STEPS - 1]
        self.assertEqual(sum(args["bytes"] for args in last), RANKS * written["bytes"])
        self.assertEqual({args["micro_batch"] for args in last}, set(range(MICRO_BATCHES)))
        self.assertEqual(len({args["group"] for args in last}), 1)
        self.assertNotIn("", {args["group"] for args in last})


if __name__ == "__main__":
    unittest.main(verbosity=2)
