"""What a run prints and writes: results on stdout, the rest on stderr, files as the schemas say.

Covers: child_program.cpp, finished_runs.cpp, plots.cpp, report_command.cpp, harness/base/log.cpp,
harness/run/block.cpp, block_record.cpp, harness/run/workload.cpp.
"""

import fcntl
import json
import os
import pty
import re
import shutil
import struct
import tempfile
import termios
import threading
import unittest

from program import QUICK, ROOT, USUAL_LINE, ProgramTest, with_cells

try:
    import jsonschema
except ImportError:
    jsonschema = None

STRATEGIES = ["baseline", "no_sync_improper", "no_sync", "accumulate"]
FOUR = with_cells(QUICK, strategy=STRATEGIES)
COLUMNS = 80


class StreamsTest(ProgramTest):
    def test_stdout_is_the_table(self):
        outcome = self.run_plan(FOUR)
        self.assertEqual(outcome.status, 0, outcome.err)
        self.assertEqual(outcome.out, (self.place / "run" / "table.md").read_text())
        self.assertTrue(outcome.out.startswith("gradsync "))
        for label in ("baseline", "no_sync improperly", "no_sync (reference)", "accumulate"):
            self.assertIn(f"| {label} ", outcome.out)
        self.assertNotIn("\x1b", outcome.out + outcome.err)
        self.assertNotIn("\r", outcome.err)
        for index in range(1, 5):
            self.assertRegex(outcome.err, rf"(?m)^\[{index}/4\] 1x2 .* ok ")
        for line in outcome.err.splitlines():
            self.assertRegex(line, rf"^(\[\d/4\] |{USUAL_LINE.pattern})")

    def test_json_instead_of_the_table(self):
        outcome = self.run_plan(QUICK, "--json")
        self.assertEqual(json.loads(outcome.out), self.result())
        self.assertEqual(self.result()["exit_status"], 0)

    def test_quiet(self):
        outcome = self.run_plan(QUICK, "--quiet")
        self.assertEqual((outcome.status, outcome.err), (0, ""))
        self.assertTrue(outcome.out.startswith("gradsync "))

    def test_no_plots_without_a_python_that_can_draw(self):
        python = self.place / "python"
        python.write_text("#!/bin/sh\necho 'Traceback (most recent call last):' >&2\nexit 1\n")
        python.chmod(0o755)
        outcome = self.run_plan(QUICK, env={"GRADSYNC_PYTHON": str(python)})
        self.assertEqual(outcome.status, 0)
        self.assertRegex(outcome.err, r"(?m)^warn: no plots: \S*/python .* plot/plot.py")
        self.assertNotIn("Traceback", outcome.err)

    def test_no_warnings_of_the_libraries(self):
        outcome = self.run_plan(with_cells(QUICK, topology=["2x1_1gbit"]))
        self.assertNotIn("[c10d]", outcome.err)

    def test_trials_run_in_the_order_of_the_dry_run(self):
        plan = FOUR | {"rounds": 2, "seed": 3}
        dry = json.loads(self.run_plan(plan, "--dry-run", "--json").out)
        self.assertEqual(self.run_plan(plan).status, 0)
        names = ("order", "launch", "round", "cell")
        planned, ran = (
            [[trial[name] for name in names] for trial in trials] for trials in (dry, self.trials())
        )
        self.assertEqual(planned, ran)


class MemoryTest(ProgramTest):
    def test_models_that_take_turns_do_not_count_for_each_other(self):
        both = with_cells(QUICK, strategy=["no_sync"], gradient_as_bucket_view=[False, True])
        alone = with_cells(QUICK, strategy=["no_sync"], gradient_as_bucket_view=[True])
        peaks = {}
        for name, plan in (("both", both), ("alone", alone)):
            self.assertEqual(self.run_plan(plan | {"rounds": 2}, out=name).status, 0)
            peaks[name] = {
                rank["peak_allocated_bytes"]
                for trial in self.trials(name)
                if trial["cell"]["gradient_as_bucket_view"]
                for rank in trial["ranks"]
            }
        self.assertEqual(peaks["both"], peaks["alone"])
        # Gradients made under no_sync are no views of buckets. In the micro-batch that synchronizes
        # they become so one by one; at the peak the small ones of the last layer already are.
        for trial in self.trials("both"):
            whole = trial["model_info"]["gradient_bytes"]
            for rank in trial["ranks"]:
                gradients = rank["peak_by_category"]["unsharded_gradient"]
                if trial["cell"]["gradient_as_bucket_view"]:
                    self.assertLess(gradients, whole)
                    self.assertGreater(gradients, 0.9 * whole)
                else:
                    self.assertEqual(gradients, whole)


class TerminalTest(ProgramTest):
    def call_on_terminal(self, *arguments, **options):
        """Returns the outcome with stderr as a terminal of 80 columns received it."""
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, COLUMNS, 0, 0))
        received = []

        def drain():
            try:
                while data := os.read(ours, 4096):
                    received.append(data)
            except OSError:
                pass  # the other side is closed

        process = self.start(*arguments, stderr=theirs, **options)
        os.close(theirs)
        reader = threading.Thread(target=drain)
        reader.start()
        outcome = self.finish(process)
        reader.join()
        os.close(ours)
        outcome.err = b"".join(received).decode()
        return outcome

    def test_the_progress_line_never_wraps(self):
        topology = self.place / f"{'long_' * 12}name.json"  # a whole line would not fit
        topology.write_text((ROOT / "benchmarks" / "topologies" / "1x2.json").read_text())
        plan = self.plan_file(with_cells(FOUR, topology=[str(topology)]))
        outcome = self.call_on_terminal("run", plan, "--out", self.place / "run", "--steps", 40)
        self.assertEqual(outcome.status, 0, outcome.err)
        self.assertGreater(outcome.err.count("\r"), 4, "no progress was shown")
        plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", outcome.err)
        progress = [line for line in re.split(r"[\r\n]+", plain) if re.match(r"\[\d+/", line)]
        self.assertIn(max(map(len, progress)), (COLUMNS - 1, COLUMNS), "cut, but no shorter")
        self.assertTrue(re.search(r"(\r|\x1b\[2?K)[^\[]*$", outcome.err), "a line was left")

    def test_colour(self):
        coloured = self.call_on_terminal("run", "no_such_plan")
        self.assertIn("\x1b[", coloured.err)
        plain = self.call_on_terminal("run", "no_such_plan", env={"NO_COLOR": "1"})
        self.assertEqual(plain.status, 2)
        self.assertNotIn("\x1b", plain.err)


class FilesTest(ProgramTest):
    """Checks the files of one run; each test gets a copy of it."""

    ran = None  # its outcome and its folder

    @classmethod
    def tearDownClass(cls):
        if cls.ran:
            shutil.rmtree(cls.ran[1])

    def setUp(self):
        super().setUp()
        if FilesTest.ran is None:
            outcome = self.run_plan(FOUR)
            self.assertEqual(outcome.status, 0, outcome.err)
            kept = tempfile.mkdtemp(prefix="gradsync_test_")
            shutil.move(self.place / "run", f"{kept}/run")
            FilesTest.ran = outcome, kept
        self.outcome, kept = FilesTest.ran
        shutil.copytree(f"{kept}/run", self.place / "run")

    def complaints(self, kind, value):
        schema = json.loads((ROOT / "results" / "schema" / f"{kind}.schema.json").read_text())
        validator = jsonschema.Draft202012Validator(schema)
        return [f"{error.json_path}: {error.message}" for error in validator.iter_errors(value)]

    @unittest.skipIf(jsonschema is None, "jsonschema is not installed; harness/setup --oracles")
    def test_files_obey_their_schemas(self):
        self.assertEqual(self.complaints("result", self.result()), [])
        for kind, file in (("trial", "trials.jsonl"), ("timelines", "timelines.jsonl")):
            lines = (self.place / "run" / file).read_text().splitlines()
            self.assertGreater(len(lines), 3)
            for line in lines:
                self.assertEqual(self.complaints(kind, json.loads(line)), [])

    def test_counts_tell_the_strategies_apart(self):
        counts = {
            trial["cell"]["strategy"]: trial["ledger"]["per_step"]["all_reduce"]
            for trial in self.trials()
        }
        self.assertEqual(counts["baseline"], counts["no_sync_improper"])
        self.assertEqual(counts["no_sync"], counts["accumulate"])
        for name in ("count", "bytes"):
            self.assertEqual(counts["baseline"][name], 2 * counts["no_sync"][name])
            self.assertGreater(counts["no_sync"][name], 0)

    def test_peaks_are_exact_and_say_of_what_they_consist(self):
        for trial in self.trials():
            info = trial["model_info"]
            for rank in trial["ranks"]:
                parts = rank["peak_by_category"]
                self.assertEqual(sum(parts.values()), rank["peak_allocated_bytes"])
                self.assertEqual(parts["sharded_parameter"], info["gradient_bytes"])
                self.assertEqual(parts["unsharded_gradient"], info["gradient_bytes"])
                # AdamW's two moments, and a float per tensor that counts steps.
                state = 2 * info["gradient_bytes"] + 4 * info["tensors"]
                self.assertEqual(parts["optimizer_state"], state)
                self.assertGreaterEqual(parts["communication"], sum(info["bucket_bytes"]))
                self.assertIsNone(rank["peak_reserved_bytes"])
                self.assertIsNone(rank["peak_reserved_estimate_bytes"], "not asked what fits")
        peaks = [rank["peak_allocated_bytes"] for t in self.trials() for rank in t["ranks"]]
        cells = self.result()["cells"]
        self.assertEqual(max(cell["peak_allocated_bytes"] for cell in cells), max(peaks))

    def test_report_says_the_same_again(self):
        run = self.place / "run"
        table = self.call("report", run)
        self.assertEqual((table.status, table.err), (0, ""))
        rows = [line for line in self.outcome.out.splitlines() if line.startswith("|")]
        self.assertEqual([line for line in table.out.splitlines() if line.startswith("|")], rows)
        again = json.loads(self.call("report", run, "--format", "json").out)
        self.assertEqual(again["cells"], self.result()["cells"])
        csv = self.call("report", run, "--format", "csv").out.splitlines()
        self.assertEqual(len(csv), 1 + len(STRATEGIES))
        self.assertEqual(len({line.count(",") for line in csv}), 1)
        trace = json.loads(self.call("report", run, "--format", "trace").out)
        names = {event["name"].split()[0] for event in trace["traceEvents"] if event["ph"] == "X"}
        self.assertLessEqual({"forward", "backward", "optimizer"}, names)

    def test_report_as_google_benchmark_prints(self):
        text = self.call("report", self.place / "run", "--format", "benchmark").out
        report = json.loads(text)
        self.assertEqual(report, json.loads((self.place / "run/benchmark.json").read_text()))
        for name in ("date", "host_name", "num_cpus", "library_build_type"):
            self.assertIn(name, report["context"])
        self.assertGreaterEqual(len(report["benchmarks"]), len(STRATEGIES))
        for entry in report["benchmarks"]:
            self.assertGreater(entry["real_time"], 0)
            for name in ("name", "run_name", "run_type", "cpu_time", "time_unit"):
                self.assertIn(name, entry)

    def test_report_compares_two_runs(self):
        run = self.place / "run"
        outcome = self.call("report", run, run)
        self.assertEqual((outcome.status, outcome.err), (0, ""))
        self.assertIn(f"- A: {run}\n", outcome.out)
        self.assertIn(f"same in {len(STRATEGIES)} of {len(STRATEGIES)} cells.", outcome.out)
        comparison = json.loads(self.call("report", run, run, "--format", "json").out)
        self.assertEqual(comparison["schema"], "gradsync.comparison/1")
        self.assertEqual(comparison["differences"], [])
        self.assertEqual([cell["step_ratio"]["ratio"] for cell in comparison["cells"]], [1.0] * 4)

    def test_report_prints_in_turn_what_it_does_not_compare(self):
        run = self.place / "run"
        page = self.call("report", run).out
        self.assertEqual(self.call("report", run, run, "--each").out, page * 2)
        self.assertEqual(self.call("report", run, run, run).out, page * 3)
        csv = self.call("report", run, "--format", "csv").out
        self.assertEqual(self.call("report", run, run, "--format", "csv").out, csv * 2)

    def test_report_of_what_is_no_run(self):
        missing = self.place / "missing"
        self.assert_refused(self.call("report", missing), str(missing))
        foreign = self.place / "foreign"
        foreign.mkdir()
        (foreign / "result.json").write_text('{"weather": "fine"}')
        self.assert_refused(self.call("report", foreign), str(foreign / "result.json"), "schema")

    def test_report_of_a_run_whose_topology_is_a_number(self):
        odd = self.place / "odd"
        shutil.copytree(self.place / "run", odd)
        trial = self.trials()[0]
        trial["cell"]["topology"] = 3
        (odd / "trials.jsonl").write_text(json.dumps(trial) + "\n")
        self.assert_refused(self.call("report", odd), str(odd), "not the results of a run")


class WindowRuleTest(ProgramTest):
    def test_as_published(self):
        plan = with_cells(FOUR, accumulation_steps=[4]) | {"steps": 29}
        outcome = self.run_plan(plan, "--window-rule", "as_published")
        self.assertEqual(outcome.status, 0, outcome.err)
        for trial in self.trials():
            self.assertEqual(len(trial["step_s"]), 29)
            self.assertEqual(trial["warmup_step_s"], [])
            self.assertEqual(trial["step_s"], trial["ranks"][0]["step_s"])
            self.assertTrue(trial["ledger"]["matches"])
        last = {
            trial["cell"]["strategy"]: self.micro_batches_of_last_step(trial)
            for trial in self.trials()
        }
        self.assertEqual(last, {name: 3 if name == "accumulate" else 4 for name in STRATEGIES})

    @staticmethod
    def micro_batches_of_last_step(trial):
        phases = trial["ranks"][0]["timeline_phases"]
        return len({phase["micro_batch"] for phase in phases if phase["phase"] == "forward"})


if __name__ == "__main__":
    unittest.main(verbosity=2)
