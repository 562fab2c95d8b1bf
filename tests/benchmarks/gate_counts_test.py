"""gradsync gate counts: a training command against a file of counts, on real jobs of two ranks.

Covers: benchmarks/commands/gate_counts.cpp, harness/arms/gate_counts.cpp, whole_job.cpp.
"""

import json
import os
import re
import signal
import sys
import unittest
from pathlib import Path

from program import ROOT, ProgramTest
from truths import TO_CHANGE, jobs_in
from watch_test import CACHE, FORKED_RANKS, TORCH_PYTHON, watched_server

sys.path.insert(0, str(ROOT / "tests" / "harness"))

REGRESSION, USAGE, UNFIT, FAILED, INTERRUPTED = 1, 2, 4, 5, 130
HERE = Path(__file__).resolve().parent
DDP = ROOT / "tests" / "harness" / "watch" / "jobs" / "ddp.py"
PROPER, IMPROPER = (DDP, "baseline", "fixed"), (DDP, "improper")
PAGE = ROOT / "benchmarks" / "gates" / "README.md"
SCHEMA = ROOT / "benchmarks" / "gates" / "counts.schema.json"
HOLDING = HERE / "holding_training.py"
GPUS = "2xa100-80"
# Its peak is of activations: what torch's watchdog of NCCL frees late, as chance has it, is less.
LARGE = (HOLDING, "--batch", 4096)
FAILS = "raise ValueError('no data')"
# Steps as the other jobs do, then fails.
FAILS_LATE = """
import os, runpy, sys
script = sys.argv.pop(1)
sys.path.insert(0, os.path.dirname(script))
runpy.run_path(script, run_name="__main__")
raise ValueError("at the end")
"""


def two_ranks(script, *arguments):
    return (TORCH_PYTHON, FORKED_RANKS, 2, script, *arguments)


class GateCountsTest(ProgramTest):
    def start_gate(self, job, *options, **env):
        return self.start(
            *("gate", "counts", "counts.json", "--out", "seen", "--force", *options, "--", *job),
            env={"XDG_CACHE_HOME": str(CACHE), "TMPDIR": str(self.place), **env},
        )

    def gate(self, job, *options):
        return self.finish(self.start_gate(job, *options, **watched_server().place))

    def counts(self):
        return json.loads((self.place / "counts.json").read_text())

    def write_counts(self, job=PROPER):
        outcome = self.gate(two_ranks(*job), "--update")
        self.assertEqual(outcome.status, 0, outcome.out + outcome.err)
        return outcome

    def assert_obeys_its_schema(self):
        from schemas import jsonschema

        schema = json.loads(SCHEMA.read_text())
        jsonschema.Draft202012Validator(schema).validate(self.counts())
        [group] = self.counts()["ranks"]
        for field in (*group, "unknown"):
            changed = self.counts()
            if field == "null_reasons":
                continue
            changed["ranks"][0] |= {field: "text"}
            self.assertFalse(jsonschema.Draft202012Validator(schema).is_valid(changed), field)


class Holding(GateCountsTest):
    def test_a_file_that_is_written_holds_and_finds_a_lost_no_sync(self):
        written = self.write_counts()
        self.assertRegex(written.out, r"\| all_reduce, bytes +\| +676 \|")
        [group] = self.counts()["ranks"]
        self.assertEqual((group["ranks"], group["syncs_per_step"]), ([0, 1], 1))
        self.assertEqual(group["per_step"], {"all_reduce": {"count": 1, "bytes": 676}})
        self.assert_obeys_its_schema()
        shown = re.search(r"^```json\n(.*?)^```$", PAGE.read_text(), re.DOTALL | re.MULTILINE)
        shown = json.loads(shown[1])
        self.assertEqual({name: self.counts()[name] for name in shown}, shown)

        outcome = self.gate(two_ranks(*PROPER), "--quiet")
        self.assertEqual(outcome.status, 0, outcome.out + outcome.err)
        self.assertEqual(outcome.err, "")
        self.assertIn("VERDICT: PASSED", outcome.out)

        pages = ("--summary", "comment.md", "--html", "page.html")
        outcome = self.gate(two_ranks(*IMPROPER), *pages)
        self.assertEqual(outcome.status, REGRESSION, outcome.out + outcome.err)
        self.assertRegex(outcome.out, r"\| synchronizations +\| +1 \| +4 \|")
        self.assertIn(
            "micro-batch 1: 1 more all_reduce, 676 B (no_sync has no effect)", outcome.out
        )
        line = jobs_in(DDP.parent)["improper"].marks[TO_CHANGE]
        self.assertIn(f"change ddp.py line {line}: enclose the forward", outcome.out)
        self.assertIn("**4**", (self.place / "comment.md").read_text())
        self.assertIn("1 more all_reduce", (self.place / "page.html").read_text())
        gate = json.loads((self.place / "seen" / "gate.json").read_text())
        kinds = [each["what"] for each in gate["rows"][0]["counts"]["differences"]]
        self.assertEqual(kinds, ["verdict", "events", "collectives", "syncs", "work"])

        (self.place / "fails_late.py").write_text(FAILS_LATE)
        job = two_ranks(self.place / "fails_late.py", *PROPER)
        outcome = self.gate(job, "--python", TORCH_PYTHON)
        self.assertEqual(outcome.status, FAILED, outcome.out + outcome.err)
        self.assertIn("error: the job made 6 steps, then exited with status 1", outcome.err)
        self.assertIn("ValueError: at the end", outcome.err)
        self.assertEqual(outcome.out, "")

    def test_a_peak_is_held_to_the_byte_where_it_is_not_chance(self):
        outcome = self.gate(two_ranks(HOLDING), "--update")
        self.assertEqual(outcome.status, 0, outcome.out + outcome.err)
        self.assertIn("started once more", outcome.err)
        [group] = self.counts()["ranks"]
        self.assertGreater(group["peak_allocated_bytes"], 0)
        outcome = self.gate(two_ranks(HOLDING, "--more", 100), "--quiet")
        self.assertEqual(outcome.status, REGRESSION, outcome.out + outcome.err)
        self.assertIn("- peak of every rank is 100 bytes more", outcome.out)

        outcome = self.gate(two_ranks(HOLDING, "--by-chance"), "--quiet")
        self.assertEqual(outcome.status, 0, outcome.out + outcome.err)
        chance = r"it is chance: \d+ bytes in one start, \d+ in the next"
        self.assertRegex(outcome.out, f"peak memory is not compared: .*{chance}")
        outcome = self.gate(two_ranks(HOLDING, "--by-chance"), "--update", "--quiet")
        self.assertEqual(outcome.status, 0, outcome.out + outcome.err)
        self.assertRegex(outcome.out, f"peak memory is not held: {chance}")
        self.assertIsNone(self.counts()["ranks"][0]["peak_allocated_bytes"])

    def test_ctrl_c_ends_the_job(self):
        gate = self.start_gate(two_ranks(HERE / "endless_training.py"), "--update")
        self.wait_until(lambda: len(self.marked_processes()) >= 4, what="both ranks")
        gate.send_signal(signal.SIGINT)
        outcome = self.finish(gate)
        self.assertEqual(outcome.status, INTERRUPTED, outcome.out + outcome.err)
        self.assertFalse((self.place / "counts.json").exists())


class OnPaper(GateCountsTest):
    """On a machine without GPUs, what the job does on GPUs is held."""

    def gate(self, job, *options, on=GPUS):
        paper = ("--on", on) if on else ()
        place = watched_server("--on", on).place if on else {}
        env = place | {"GRADSYNC_JOB_DEVICE": "cuda"}
        return self.finish(self.start_gate(job, *paper, *options, **env))

    def test_counts_and_peaks_are_those_on_gpus(self):
        written = self.gate(two_ranks(*LARGE), "--update", "--quiet")
        self.assertEqual(written.status, 0, written.out + written.err)
        self.assertIn(f"GPUs of paper: nothing was computed or timed ({GPUS})", written.out)
        self.assertEqual(self.counts()["gpus_of_paper"], GPUS)
        self.assert_obeys_its_schema()
        [group] = self.counts()["ranks"]
        self.assertEqual((group["ranks"], group["syncs_per_step"]), ([0, 1], 1))
        # torch's allocator gives a GPU's memory in pieces of 512 bytes.
        self.assertGreater(group["peak_allocated_bytes"], 0)
        self.assertEqual(group["peak_allocated_bytes"] % 512, 0)

        outcome = self.gate(two_ranks(*LARGE), "--quiet")
        self.assertEqual(outcome.status, 0, outcome.out + outcome.err)
        self.assertIn(f"- note: GPUs of paper: nothing was computed or timed ({GPUS})", outcome.out)
        outcome = self.gate(two_ranks(*LARGE, "--more", 513), "--summary", "comment.md")
        self.assertEqual(outcome.status, REGRESSION, outcome.out + outcome.err)
        self.assertIn("- peak of every rank is 1024 bytes more", outcome.out)
        self.assertIn(f"--update --on {GPUS} --", (self.place / "comment.md").read_text())
        seen = json.loads((self.place / "seen" / "watch.json").read_text())
        self.assertIsNone(seen["per_step"]["step_s"])

    def test_a_lost_no_sync_is_found(self):
        self.write_counts()
        outcome = self.gate(two_ranks(*IMPROPER), "--quiet")
        self.assertEqual(outcome.status, REGRESSION, outcome.out + outcome.err)
        self.assertRegex(outcome.out, r"synchronizations +\| +1 \| +4 \|")
        self.assertIn(
            "micro-batch 1: 1 more all_reduce, 676 B (no_sync has no effect)", outcome.out
        )

    def test_other_devices_than_the_files_are_refused_before_the_job_runs(self):
        self.write_counts()
        job = ("touch", self.place / "ran")
        renew = "or renew the file with --update"
        refused = self.gate(job, on=None)
        self.assert_refused(refused, f"on GPUs of paper, {GPUS}, and", f"give --on {GPUS}", renew)
        self.assert_refused(self.gate(job, on="2xh100"), f"give --on {GPUS}", renew)
        self.assert_refused(self.gate(job, on="8xa100-80"), f"give --on {GPUS}", renew)
        older = self.counts()
        del older["gpus_of_paper"]
        (self.place / "counts.json").write_text(json.dumps(older))
        self.assert_refused(self.gate(job), "on the machine's own devices, and", "leave out --on")
        self.assertFalse((self.place / "ran").exists())

    def test_a_peak_on_the_cpu_is_not_held(self):
        env = watched_server("--on", GPUS).place
        job = two_ranks(HOLDING)
        outcome = self.finish(self.start_gate(job, "--on", GPUS, "--update", "--quiet", **env))
        self.assertEqual(outcome.status, 0, outcome.out + outcome.err)
        self.assertIn("peak memory is not held: it used no GPU that could be seen", outcome.out)

    def test_it_is_of_counts_alone(self):
        refused = self.call("gate", "counts", "counts.json", "--on", "8xk80", "--", "true")
        self.assert_refused(refused, "--on: GPUs '8xk80'", "a100-80")
        jobs = ("--baseline", "torchrun a.py", "--candidate", "torchrun b.py")
        refused = self.call("gate", "commands", *jobs, "--on", GPUS)
        self.assert_refused(refused, "--on: gradsync gate commands has no such option")
        builds = ("smoke", "--baseline", "a", "--candidate", "b")
        refused = self.call("gate", "builds", *builds, "--on", GPUS)
        self.assert_refused(refused, "'on'", 'device is not "paper"')


class BadInput(GateCountsTest):
    def test_a_file_that_is_missing_or_none_is_refused_before_the_job_runs(self):
        job = ("touch", self.place / "ran")
        self.assert_refused(self.gate(job), "counts.json", "--update writes it")
        (self.place / "counts.json").write_text('{"schema": "gradsync.counts/1", "rank": []}')
        self.assert_refused(self.gate(job), "counts.json", "'rank'", "ranks")
        outcome = self.finish(
            self.start("gate", "counts", "none/counts.json", "--update", "--", *job)
        )
        self.assert_refused(outcome, "no folder")
        self.assertFalse((self.place / "ran").exists())

    def test_what_does_not_go_together_is_refused(self):
        job = ("true",)
        self.assert_refused(self.gate(job, "--alpha", "2%"), "--alpha", "no such option")
        self.assert_refused(self.gate(job, "--update", "--html", "page.html"), "one of them")
        self.assert_refused(self.gate(()), "COMMAND is missing")
        self.assert_refused(self.call("gate", "counts", "--update"), "FILE is required")
        refused = self.call("gate", "builds", "smoke", "--", "true")
        self.assert_refused(refused, "gradsync gate counts FILE -- COMMAND")

    def test_a_job_that_fails_is_told_and_writes_nothing(self):
        outcome = self.gate((TORCH_PYTHON, "-c", FAILS), "--update", "--summary", "comment.md")
        self.assertEqual(outcome.status, FAILED, outcome.out + outcome.err)
        self.assertIn(
            "error: the job made 0 steps, then exited with status 1: ValueError: no data",
            outcome.err,
        )
        self.assertFalse((self.place / "counts.json").exists())
        self.assertIn("### gradsync: the job failed", (self.place / "comment.md").read_text())

    def test_a_job_without_a_step_is_unfit(self):
        outcome = self.gate((TORCH_PYTHON, "-c", "import torch"), "--update", "--quiet")
        self.assert_refused(outcome, "without an optimizer step", status=UNFIT)
        outcome = self.gate(("no_such_program",), "--update", "--python", TORCH_PYTHON, "--quiet")
        self.assert_refused(outcome, "no_such_program", status=USAGE)


class Slow(GateCountsTest):
    def test_a_budget_ends_a_job_and_what_it_did_is_held(self):
        job = two_ranks(HERE / "endless_training.py")
        outcome = self.gate(job, "--update", "--time-budget", "30s")
        self.assertEqual(outcome.status, 0, outcome.out + outcome.err)
        self.assert_nothing_left()


if __name__ == "__main__":
    os.chdir(ROOT)
    unittest.main(verbosity=2)
