"""gradsync gate commands: two training commands: real jobs of two ranks that take turns.

No verdict on times is expected that a busy machine could not give.

Covers: gate_jobs.cpp, job_arms.cpp.
"""

import json
import os
import shlex
import signal
import unittest
from pathlib import Path

from program import PROGRAM, QUICK, ROOT, ProgramTest
from truths import TO_CHANGE, jobs_in
from watch_test import CACHE, FORKED_RANKS, TORCH_PYTHON, watched_server

PASS, REGRESSION, USAGE, UNDECIDED, UNFIT, INTERRUPTED = 0, 1, 2, 3, 4, 130
HERE = Path(__file__).resolve().parent
DDP = ROOT / "tests" / "harness" / "watch" / "jobs" / "ddp.py"
PROPER, IMPROPER = (DDP, "baseline", "fixed"), (DDP, "improper")
ENDLESS = HERE / "endless_training.py"
HOLDING = HERE / "holding_training.py"
SLOWED = HERE / "slowed_training.py"
UNSEEDED = HERE / "unseeded_training.py"
STEPS = 6  # of each of them
# What the loader leaves of a process that uses another torch. Then it sleeps.
UNLOADED = """
import os, sys, time
from pathlib import Path
Path(os.environ["GRADSYNC_WATCH_DIR"], f"loader-{os.getpid()}.fault").write_text("it uses B\\n")
time.sleep(float(sys.argv[1]))
"""
# Takes away what the watcher writes, as if there were no room for it.
UNWRITTEN = """
import os, runpy, sys
from pathlib import Path
import torch

class Unwritten(torch.optim.SGD):
    def step(self):
        events = Path(os.environ["GRADSYNC_WATCH_DIR"]) / f"native-{os.getpid()}.events"
        events.unlink(missing_ok=True)
        super().step()

torch.optim.SGD = Unwritten
runpy.run_path(sys.argv.pop(1), run_name="__main__")
"""


def command(*words):
    return shlex.join(map(str, words))


def job_of(ranks, script, *arguments):
    return command(TORCH_PYTHON, FORKED_RANKS, ranks, script, *arguments)


def two_ranks(script, *arguments):
    return job_of(2, script, *arguments)


class GateJobsTest(ProgramTest):
    def start_gate(self, baseline, candidate, *options, **more):
        return self.start(
            *("gate", "commands", "--baseline", baseline, "--candidate", candidate),
            *("--out", self.place / "gate", "--time-budget", "1000m", *options),
            env={
                "XDG_CACHE_HOME": str(CACHE),
                "TMPDIR": str(self.place),
                **watched_server().place,
            },
            **more,
        )

    def gate(self, *arguments):
        return self.finish(self.start_gate(*arguments))

    def report(self):
        return json.loads((self.place / "gate" / "gate.json").read_text())

    def row(self):
        [row] = self.report()["rows"]
        return row


class Counts(GateJobsTest):
    def test_a_peak_is_compared_to_the_byte_where_the_baseline_has_it_again(self):
        more = two_ranks(HOLDING, "--more", 1000)
        outcome = self.gate(two_ranks(HOLDING), more, "--counts-only")
        self.assertEqual(outcome.status, REGRESSION, outcome.out + outcome.err)
        [difference] = self.row()["counts"]["differences"]
        self.assertEqual(difference["sentence"], "peak of every rank is 1000 bytes more")

        outcome = self.gate(two_ranks(HOLDING, "--by-chance"), more, "--counts-only", "--force")
        self.assertEqual(outcome.status, PASS, outcome.out + outcome.err)
        self.assertIn("peak memory is not held: the baseline's own starts differ", outcome.out)

    def test_a_lost_no_sync_and_the_line_to_change(self):
        outcome = self.gate(two_ranks(*PROPER), two_ranks(*IMPROPER))
        self.assertEqual(outcome.status, REGRESSION, outcome.out + outcome.err)
        row = self.row()
        differences = {each["what"]: each["sentence"] for each in row["counts"]["differences"]}
        self.assertEqual(sorted(differences), ["collectives", "events", "verdict", "work"])
        self.assertEqual(
            differences["events"],
            "micro-batch 1: 1 more all_reduce, 676 B (no_sync has no effect)",
        )
        self.assertEqual(
            differences["collectives"],
            "per step: all_reduce 4 (2704 bytes) where the baseline has 1 (676 bytes)",
        )
        line = jobs_in(DDP.parent)["improper"].marks[TO_CHANGE]
        self.assertIn("synchronizes in every micro-batch (4 x per step", differences["verdict"])
        self.assertIn(f"change ddp.py line {line}: enclose the forward", differences["verdict"])
        self.assertIsNone(row["times"])
        self.assertIn("counts differ", row["null_reasons"]["times"])
        context = self.report()["candidate"]["context"]
        self.assertEqual(context["world_size"], 2)
        self.assertTrue(context["gradsync"] and context["commit"])
        self.assertIn("VERDICT: NOT PASSED", outcome.out)

    def test_an_operator_more_is_found_with_its_line(self):
        outcome = self.gate(two_ranks(SLOWED), two_ranks(SLOWED), "--counts-only")
        self.assertEqual(outcome.status, PASS, outcome.out + outcome.err)
        self.assertFalse((self.place / "gate" / "control.log").exists())

        commands = (two_ranks(SLOWED), two_ranks(SLOWED, "host_read"))
        outcome = self.gate(*commands, "--counts-only", "--force")
        self.assertEqual(outcome.status, REGRESSION, outcome.out + outcome.err)
        row = self.row()
        [difference] = row["counts"]["differences"]
        self.assertEqual(difference["what"], "work")
        self.assertRegex(
            difference["sentence"],
            r"^every rank, per step: \+1 _local_scalar_dense \(a host read\), .*; "
            r"slowed_training.py line \d+: `loss.item\(\)  # host_read`$",
        )
        self.assertIsNone(row["times"])

        outcome = self.gate(*commands, "--force")
        self.assertEqual(outcome.status, UNDECIDED, "the jobs end before there are times")
        self.assertEqual(self.row()["counts"]["differences"], [])
        [note] = self.report()["notes"]
        self.assertRegex(note, r"^the candidate computes something else: every rank, per step: ")

    def test_a_job_whose_collectives_vary_by_chance_is_unfit(self):
        job = two_ranks(UNSEEDED)
        outcome = self.gate(job, job)
        self.assertEqual(outcome.status, UNFIT, outcome.out + outcome.err)
        counts = self.row()["counts"]
        self.assertEqual(counts["differences"], [])
        self.assertIn("the baseline's own trials differ: ", counts["unfit_because"])
        self.assertTrue((self.place / "gate" / "control.log").exists())

    def test_a_job_whose_events_are_not_written_says_so(self):
        script = self.place / "unwritten.py"
        script.write_text(UNWRITTEN)
        job = two_ranks(script, ENDLESS)
        outcome = self.gate(job, job, "--quiet")
        self.assert_refused(outcome, "the baseline: 0 of", "TMPDIR", status=UNFIT)

    def test_a_job_that_is_over_is_undecided(self):
        told = "echo work $GRADSYNC_WATCH_WORK; exec " + two_ranks(*PROPER)
        job = command("sh", "-c", told)
        outcome = self.gate(job, job, "--python", TORCH_PYTHON)
        self.assertEqual(outcome.status, UNDECIDED, outcome.out + outcome.err)
        row = self.row()
        self.assertEqual(row["counts"], {"differences": [], "unfit_because": ""})
        self.assertEqual(row["verdict"], "undecided")
        self.assertRegex(
            row["reason"],
            rf"^the (baseline|candidate|control) made {STEPS} of \d+ steps, then exited with "
            r"status 0: a start takes about \d+ steps$",
        )
        self.assertIn("both commands are the same: what differs is chance", self.report()["notes"])
        for arm, counted in (("baseline", "work 2"), ("control", "work")):
            log = (self.place / "gate" / f"{arm}.log").read_text()
            self.assertEqual(log.splitlines()[0], counted, "a start of the control has times")


class BadInput(GateJobsTest):
    def test_what_is_no_pair_of_commands(self):
        job = two_ranks(*PROPER)
        self.assert_refused(self.gate(PROGRAM, job), "the build", "a training command")
        self.assert_refused(self.gate("'unclosed", job), "--baseline", "a closing '")
        self.assert_refused(self.gate(job, job, "--rows", "strategy=no_sync"), "no such option")
        jobs = ("--baseline", job, "--candidate", job)
        refused = self.call("gate", "builds", self.plan_file(QUICK), *jobs)
        self.assert_refused(refused, "--baseline", "the command", "gate commands")

    def test_commands_that_do_not_start(self):
        missing = command(TORCH_PYTHON, self.place / "missing.py")
        outcome = self.gate(missing, missing, "--quiet")
        self.assert_refused(outcome, "the baseline made 0 of", "missing.py", "baseline.log")

    def test_a_job_that_cannot_be_watched_says_why_when_it_ends(self):
        job = command(TORCH_PYTHON, "-c", UNLOADED, 0)
        outcome = self.gate(job, job, "--quiet")
        self.assert_refused(outcome, "could be seen: it uses B", status=UNFIT)

    def test_a_job_that_cannot_be_watched_says_why_while_it_runs(self):
        job = command(TORCH_PYTHON, "-c", UNLOADED, 1000)
        errors = self.place / "errors.txt"
        with errors.open("w") as file:
            gate = self.start_gate(job, job, stderr=file)
            self.wait_until(lambda: "warn: the baseline: it uses B" in errors.read_text())
            gate.send_signal(signal.SIGINT)
            self.assertEqual(self.finish(gate).status, INTERRUPTED)
        self.assertEqual(errors.read_text().count("it uses B"), 1)

    def test_a_command_may_end_with_what_looks_like_a_build(self):
        job = command(TORCH_PYTHON, self.place / "missing.py", "--out", "runs/gradsync")
        outcome = self.gate(job, job, "--quiet")
        self.assert_refused(outcome, "the baseline made 0 of", "missing.py")

    def test_variables_may_stand_before_a_command(self):
        job = "A=b C='d e' " + command(TORCH_PYTHON, self.place / "missing.py")
        outcome = self.gate(job, job, "--quiet")
        self.assert_refused(outcome, "the baseline made 0 of", "missing.py")


class Slow(GateJobsTest):
    def test_other_numbers_of_ranks(self):
        outcome = self.gate(two_ranks(ENDLESS), job_of(1, ENDLESS), "--quiet")
        self.assert_refused(
            outcome, "--candidate: got a job of 1 ranks, expected 2 as the baseline's"
        )

    def test_other_numbers_of_ranks_in_a_second_start(self):
        one_less = "ranks=2; [ -e started ] && ranks=1; touch started; exec "
        one_less += command(TORCH_PYTHON, FORKED_RANKS) + " $ranks "
        one_less += command(*PROPER)
        candidate = two_ranks(*IMPROPER)
        outcome = self.gate(
            *(command("sh", "-c", one_less), candidate, "--python", TORCH_PYTHON, "--quiet")
        )
        self.assert_refused(
            outcome, "the control: got a job of 1 ranks, expected 2 as the baseline's"
        )

    def test_equal_jobs_take_turns_that_can_be_replayed(self):
        outcome = self.gate(two_ranks(ENDLESS), two_ranks(ENDLESS))
        self.assertIn(outcome.status, (PASS, UNDECIDED, UNFIT), outcome.out + outcome.err)
        row = self.row()
        self.assertGreaterEqual(row["times"]["turns"], 8)
        turns = json.loads((self.place / "gate" / "gate.turns.json").read_text())
        [stored] = turns["rows"]
        self.assertEqual(len(stored["turns"]), row["times"]["turns"])
        for turn in stored["turns"]:
            self.assertGreaterEqual(min(turn["baseline_s"]), 0.005)
            for arm, elapsed_s in enumerate(turn["elapsed_s"]):
                spent_s = {phase: by_arm[arm] for phase, by_arm in turn["phase_s"].items()}
                self.assertGreater(min(spent_s.values()), 0, spent_s)
                slept_s = 0.005 * len(turn["baseline_s"])
                self.assertGreaterEqual(spent_s["backward to optimizer"], 0.99 * slept_s)
                self.assertLessEqual(sum(spent_s.values()), 1.0001 * elapsed_s)

    def test_a_slower_job_does_not_pass(self):
        outcome = self.gate(two_ranks(ENDLESS), two_ranks(ENDLESS, 0.005))
        self.assertIn(outcome.status, (REGRESSION, UNDECIDED, UNFIT), outcome.out + outcome.err)
        self.assertEqual(self.row()["times"]["phases"][0]["phase"], "backward to optimizer")

    def interrupted_gate(self, number):
        gate = self.start_gate(two_ranks(ENDLESS), two_ranks(ENDLESS))
        self.wait_until(lambda: (self.place / "gate" / "candidate.log").exists())
        gate.send_signal(number)
        return self.finish(gate)

    def test_ctrl_c_ends_the_jobs(self):
        self.assertEqual(self.interrupted_gate(signal.SIGINT).status, INTERRUPTED)


if __name__ == "__main__":
    os.chdir(ROOT)
    unittest.main(verbosity=2)
