"""gradsync gate: two builds, a stored run, and claims, as a CI job calls it.

A candidate that behaves differently is the real program behind a script that changes what it says
or is asked: what the gate sees is what such a build would say. No verdict on times is expected that
a busy machine could not give: there it may be undecided or unfit, but never what is wrong.

Covers: gate_answers.cpp, gate_arms.cpp, gate_builds.cpp, gate_command.cpp, gate_progress.cpp,
gate_question.cpp, gate_runs.cpp, gate_selftest.cpp, gate_stages.cpp.
"""

import gzip
import json
import os
import re
import signal
import sys
import unittest

from program import PACED, PROGRAM, QUICK, ROOT, ProgramTest, with_cells

PASS, REGRESSION, USAGE, UNDECIDED, UNFIT, INTERRUPTED = 0, 1, 2, 3, 4, 130

# What a few turns can show.
COARSE = ("--margin", "5%", "--smallest-effect", "40%")
ROWS = with_cells(QUICK, strategy=["baseline", "no_sync"])

# Stands between the gate and a real arm. `change(request)` and `alter(record)` are put in.
PROXY = """#!{python}
import json, signal, subprocess, sys
signal.signal(signal.SIGINT, signal.SIG_IGN)
{change}
arm = subprocess.Popen([{program!r}, *sys.argv[1:]], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                       text=True)
def say():
    for line in arm.stdout:
        message = json.loads(line)
        if message["event"] == "busy":
            print(line, end="", flush=True)
            continue
        if message["event"] == "trial":
            alter(message["trial"])
        print(json.dumps(message), flush=True)
        return True
    return False
say()
for line in sys.stdin:
    request = json.loads(line)
    change(request)
    arm.stdin.write(json.dumps(request) + "\\n")
    arm.stdin.flush()
    if not say():
        break
arm.stdin.close()
sys.exit(arm.wait())
"""

NOTHING = """
def change(request): pass
def alter(trial): pass
"""

# Asked for no_sync (the second row), this build runs baseline, and calls it no_sync.
LOST_NO_SYNC = """
def change(request):
    if request.get("turn", {}).get("cell") == 1:
        request["turn"]["cell"] = 0
def alter(trial):
    pass
"""

# One row of this build times out; the others are as they are.
ONE_ROW_FAILS = """
def change(request): pass
def alter(trial):
    if trial["cell"]["strategy"] == "baseline":
        trial.update(status="timeout", reason="too slow", step_s=[])
"""

# Every process of this build has its own peak.
BY_CHANCE = """
import itertools
from pathlib import Path
for own in itertools.count(1):
    try:
        Path({place!r}, f"process_{{own}}").touch(exist_ok=False)
        break
    except FileExistsError:
        pass
def change(request): pass
def alter(trial):
    trial["ranks"][0]["peak_allocated_bytes"] += own
"""

# As a machine that could not start the ranks once.
FAILS_ONCE = """
from pathlib import Path
def change(request): pass
def alter(trial):
    if not Path({mark!r}).exists():
        Path({mark!r}).touch()
        trial.update(status="failed", reason="no route to host", step_s=[])
"""

ONE_BYTE = """
def change(request): pass
def alter(trial):
    trial["ranks"][1]["peak_allocated_bytes"] += 1
"""

ONE_MORE = """
def change(request): pass
def alter(trial):
    for rank in trial["ranks"]:
        rank["timeline_events"].append(dict(rank["timeline_events"][-1], bytes=4))
    trial["ledger"]["per_step"]["all_reduce"]["count"] += 1
    trial["ledger"]["per_step"]["all_reduce"]["bytes"] += 4
"""

EXTRA_WORK = """#!/bin/sh
exec {program} "$@" --extra-work {share}
"""


class GateTest(ProgramTest):
    def script(self, text, name="candidate"):
        path = self.place / name
        path.write_text(text)
        path.chmod(0o755)
        return path

    def proxy(self, change):
        return self.script(PROXY.format(python=sys.executable, program=PROGRAM, change=change))

    def gate(
        self, *arguments, plan=ROWS, baseline=PROGRAM, candidate=PROGRAM, out="gate", **options
    ):
        return self.call(
            "gate",
            "builds",
            self.plan_file(plan),
            "--baseline",
            baseline,
            "--candidate",
            candidate,
            "--out",
            self.place / out,
            *arguments,
            **options,
        )

    def report(self, out="gate"):
        return json.loads((self.place / out / "gate.json").read_text())

    def turns(self, out="gate"):
        return json.loads((self.place / out / "gate.turns.json").read_text())

    def assert_regression(self, change, *texts):
        outcome = self.gate(candidate=self.proxy(change))
        self.assertEqual(outcome.status, REGRESSION, outcome.err)
        rows = [row for row in self.report()["rows"] if row["verdict"] == "regression"]
        for text in texts:
            self.assertIn(text, rows[0]["reason"])
        self.assertTrue(all(row["times"] is None for row in rows))
        return rows


class Counts(GateTest):
    def test_the_same_build_passes(self):
        outcome = self.gate("--counts-only")
        self.assertEqual(outcome.status, PASS, outcome.err)
        self.assertIn("VERDICT: PASS", outcome.out)
        report = self.report()
        self.assertEqual(report["exit_status"], PASS)
        self.assertEqual([row["verdict"] for row in report["rows"]], ["pass", "pass"])
        self.assertTrue(any("same file" in note for note in report["notes"]), report["notes"])

    def test_a_lost_no_sync(self):
        rows = self.assert_regression(LOST_NO_SYNC, "micro-batch 1", "no_sync has no effect")
        self.assertEqual([row["cell"]["strategy"] for row in rows], ["no_sync"])

    def test_a_lost_no_sync_beside_a_row_that_the_baseline_cannot_run(self):
        baseline = self.script(
            PROXY.format(python=sys.executable, program=PROGRAM, change=ONE_ROW_FAILS), "baseline"
        )
        candidate = self.proxy(LOST_NO_SYNC)
        outcome = self.gate(candidate=candidate, baseline=baseline)
        self.assertEqual(outcome.status, REGRESSION, outcome.out + outcome.err)
        self.assertEqual([row["verdict"] for row in self.report()["rows"]], ["unfit", "regression"])

    def test_what_differs_from_start_to_start_is_no_difference(self):
        baseline = self.script(
            PROXY.format(
                python=sys.executable,
                program=PROGRAM,
                change=BY_CHANCE.format(place=str(self.place)),
            ),
            "baseline",
        )
        outcome = self.gate("--counts-only", baseline=baseline)
        self.assertEqual(outcome.status, UNFIT, outcome.out + outcome.err)
        self.assertIn("the baseline's own trials differ", self.report()["rows"][0]["reason"])

    def test_a_candidate_that_fails_once_is_tried_again(self):
        change = FAILS_ONCE.format(mark=str(self.place / "failed"))
        outcome = self.gate("--counts-only", candidate=self.proxy(change))
        self.assertEqual(outcome.status, PASS, outcome.out + outcome.err)
        self.assertIn("no route to host; it is tried once more", outcome.err)

    def test_one_byte_more_at_peak(self):
        self.assertEqual(len(self.assert_regression(ONE_BYTE, "rank 1", "1 byte more")), 2)


class Times(GateTest):
    def test_a_build_against_itself(self):
        outcome = self.gate("--rows", "strategy=no_sync", "--time-budget", "3m", *COARSE)
        # One false alarm in a hundred is what the gate allows itself, and it confirms each.
        self.assertIn(outcome.status, (PASS, UNDECIDED, UNFIT), outcome.out + outcome.err)
        [row] = self.report()["rows"]
        self.assertEqual(row["cell"]["strategy"], "no_sync")
        times = row["times"]
        looks = [look["turns"] for look in self.report()["settings"]["looks"]]
        self.assertIn(times["turns"], looks)
        self.assertEqual(
            times["starts"], times["turns"] // self.report()["settings"]["start_turns"]
        )
        [turns] = self.turns()["rows"]
        self.assertEqual(len(turns["turns"]), times["turns"])
        for turn in turns["turns"]:
            self.assertEqual(sorted(turn["order"]), ["baseline", "candidate", "control"])
            self.assertEqual(len(turn["candidate_s"]), len(turn["baseline_s"]))
            self.assertEqual(len(turn["candidate_s"]) % self.turns()["settings"]["passes"], 0)
            self.assertEqual(len(turn["elapsed_s"]), 3)
        starts = self.turns()["starts"]
        self.assertEqual(len(starts), times["starts"])
        for place in range(3 if len(starts) >= 3 else 0):
            self.assertEqual(len({start["order"][place] for start in starts[:3]}), 3)
        orders = [turn["order"] for turn in turns["turns"]]
        self.assertEqual(orders[1::2], [order[::-1] for order in orders[::2]])

    def test_a_form_is_short_or_long_and_of_turns(self):
        for arguments, text in (
            (("--form", "medium"), "--form: got 'medium', expected short or long"),
            (("--form", "short", "--counts-only"), "--form: got --counts-only"),
        ):
            self.assert_refused(self.gate(*arguments), text)
        refused = self.call("gate", "builds", "smoke", "--gates", "smoke", "--form", "short")
        self.assert_refused(refused, "--form needs --baseline BUILD")
        refused = self.call("gate", "counts", "counts.json", "--form", "short", "--", "true")
        self.assertEqual(refused.status, USAGE)

    def test_the_short_form_has_its_settings_and_its_time(self):
        self.gate("--form", "short", *COARSE, "--time-budget", "12s")
        report = self.report()
        self.assertEqual(report["settings"]["confirmation_factor"], 5)
        self.assertEqual(report["settings"]["looks"][-1]["turns"], 100)
        self.assertEqual(report["settings"]["smallest_effect"], 0.4)
        self.assertEqual(report["time_budget_s"], 12)

    def test_too_small_a_time_budget(self):
        outcome = self.gate("--time-budget", "2s")
        self.assertEqual(outcome.status, USAGE, outcome.err)
        self.assertIn("--time-budget: got 2s, expected more than", outcome.err)
        self.assertNotIn("counts: ", outcome.err, "something ran before the refusal")
        self.assertEqual(outcome.out, "")

    def test_a_budget_that_the_counts_show_to_be_too_small_leaves_counts_alone(self):
        outcome = self.gate("--time-budget", "6s")
        self.assertEqual(outcome.status, UNDECIDED, outcome.out + outcome.err)
        self.assertIn("allows no look at them", outcome.err)
        for row in self.report()["rows"]:
            self.assertEqual(row["counts"]["differences"], [])
            self.assertEqual((row["verdict"], row["times"]["turns"]), ("undecided", 0))

    def test_without_a_budget_it_takes_what_the_plan_needs_and_says_so_before(self):
        process = self.start(
            "gate",
            "builds",
            self.plan_file(PACED),
            *("--baseline", PROGRAM, "--candidate", PROGRAM, "--out", self.place / "gate"),
        )
        said = []
        while not said or "at most" not in said[-1] or "confirm" not in said[-1]:
            said.append(process.stderr.readline())
            self.assertTrue(said[-1], f"it ended first: {said}")
        first = [i for i, line in enumerate(said) if "is known after the counts" in line]
        counted = [i for i, line in enumerate(said) if "counts: 4 passes" in line]
        self.assertEqual(sorted(first + counted), [*first, *counted], "announced, then counted")
        self.assertEqual((len(first), len(counted)), (1, 1), said)
        minutes = re.search(r"at most (\d+)m", said[-1])
        self.assertGreater(int(minutes[1]), 10, "what no gate was given by default")
        process.send_signal(signal.SIGINT)
        self.assertEqual(self.finish(process).status, INTERRUPTED)

    def test_ctrl_c_ends_everything(self):
        process = self.start(
            "gate",
            "builds",
            self.plan_file(ROWS),
            *("--baseline", PROGRAM, "--candidate", PROGRAM, "--out", self.place / "gate"),
        )
        self.wait_until(lambda: len(self.rank_processes()) > 0, what="a rank")
        process.send_signal(signal.SIGINT)
        self.assertEqual(self.finish(process).status, INTERRUPTED)


class Slow(GateTest):
    def test_half_as_much_work_again_does_not_pass(self):
        candidate = self.script(EXTRA_WORK.format(program=PROGRAM, share="50%"))
        outcome = self.gate(
            "--rows", "strategy=no_sync", "--time-budget", "10m", candidate=candidate
        )
        self.assertIn(outcome.status, (REGRESSION, UNDECIDED, UNFIT), outcome.out + outcome.err)
        [row] = self.report()["rows"]
        self.assertGreater(row["times"]["low"]["effect"]["value"], 0.1, outcome.out)
        self.assertEqual(row["times"]["phases"][0]["phase"], "optimizer", "where the work is added")

    def test_a_build_that_says_the_same_passes_through_the_script_too(self):
        outcome = self.gate("--counts-only", candidate=self.proxy(NOTHING))
        self.assertEqual(outcome.status, PASS, outcome.err)
        self.assertEqual(self.report()["notes"], [])

    def test_one_all_reduce_more(self):
        self.assertEqual(len(self.assert_regression(ONE_MORE, "micro-batch 2")), 2)

    def test_another_one_adds_to_what_lies_there(self):
        def measure(row):
            return self.call(
                *("gate", "selftest", self.plan_file(ROWS), "--rows", f"strategy={row}"),
                *("--extra-work", "0%", "--starts", "1", "--out", self.place / "rates"),
            )

        for count in (1, 2):
            outcome = measure("no_sync")
            self.assertEqual(outcome.status, 0, outcome.err)
            self.assertEqual(len(list((self.place / "rates").glob("*.turns.json.gz"))), count)
        self.assertIn("over 2 starts", outcome.out)
        self.assert_refused(measure("baseline"), "turns.json", "rows")


class SelfTest(GateTest):
    def test_its_turns_are_kept_and_decided_again(self):
        arguments = ("gate", "selftest", self.plan_file(ROWS), "--rows", "strategy=no_sync")
        work = ("--extra-work", "0%,50%", "--starts", "1")
        measured = self.call(*arguments, *work, "--out", self.place / "rates")
        self.assertEqual(measured.status, 0, measured.err)
        self.assertIn("too few starts for a gate, which takes 3", measured.err)
        families = [
            json.loads(gzip.decompress(path.read_bytes()))
            for path in sorted((self.place / "rates").glob("*.turns.json.gz"))
        ]
        self.assertEqual([family["extra_work"] for family in families], [0, 0.5])
        for family in families:
            [row] = family["rows"]
            self.assertEqual([turn["start"] for turn in row["turns"]], [0] * 10)
        again = self.call("gate", "selftest", "--replay", self.place / "rates")
        self.assertEqual((again.status, again.out), (0, measured.out), again.err)


class Stored(GateTest):
    def test_the_same_plan_again_and_then_another_size_of_buckets(self):
        self.run_plan(ROWS, out="stored")
        outcome = self.call(
            "gate",
            "builds",
            "--against",
            self.place / "stored",
            "--counts-only",
            "--out",
            self.place / "gate",
        )
        self.assertEqual(outcome.status, PASS, outcome.out + outcome.err)
        self.assertEqual(len(self.report()["rows"]), 2)

        lines = (self.place / "stored" / "trials.jsonl").read_text().splitlines()
        trial = json.loads(lines[-1])
        trial["ledger"]["per_step"]["all_reduce"]["count"] -= 1
        trial["ledger"]["expected"] = trial["ledger"]["per_step"]
        lines[-1] = json.dumps(trial)
        (self.place / "stored" / "trials.jsonl").write_text("\n".join(lines) + "\n")
        outcome = self.call(
            "gate", "builds", "--against", self.place / "stored", "--out", self.place / "other"
        )
        self.assertEqual(outcome.status, REGRESSION, outcome.out + outcome.err)


class Claims(GateTest):
    def gates(self, **claim):
        path = self.place / "gates.json"
        source = {
            "schema": "gradsync.gates/1",
            "plan": str(self.plan_file(ROWS)),
            "about": "what must hold",
            "claims": [
                {
                    "about": "needless synchronization",
                    "ratio": [{"strategy": "baseline"}, {"strategy": "no_sync"}],
                }
                | claim
            ],
        }
        path.write_text(json.dumps(source))
        return path

    def repeat_launch(self, launches):
        """As if every launch had taken as long as the first: what is judged is then certain."""
        file = self.place / "stored" / "trials.jsonl"
        once = [json.loads(line) for line in file.read_text().splitlines()]
        again = [
            trial | {"launch": launch, "order": launch * len(once) + trial["order"]}
            for launch in range(launches)
            for trial in once
        ]
        file.write_text("".join(json.dumps(trial) + "\n" for trial in again))

    def test_of_a_stored_run(self):
        self.run_plan(ROWS, out="stored")
        self.repeat_launch(4)
        for limit, verdict in (({"at_least": 0.0001}, PASS), ({"at_least": 1000}, REGRESSION)):
            with self.subTest(limit=limit):
                outcome = self.call(
                    *(
                        "gate",
                        "builds",
                        "--gates",
                        self.gates(**limit),
                        "--results",
                        self.place / "stored",
                    ),
                    *("--out", self.place / "gate", "--force"),
                )
                self.assertEqual(outcome.status, verdict, outcome.out + outcome.err)

    def test_of_a_fresh_run(self):
        outcome = self.call(
            "gate", "builds", "--gates", self.gates(at_most=1000), "--out", self.place / "gate"
        )
        # One launch has no interval, and what has none proves nothing.
        self.assertEqual(outcome.status, UNDECIDED, outcome.out + outcome.err)
        [claim] = self.report()["claims"]
        self.assertEqual(claim["verdict"], "undecided")
        self.assertNotIn("baseline:", outcome.out)


class BadInput(GateTest):
    def test_nothing_to_compare(self):
        plan = self.plan_file(ROWS)
        self.assert_refused(self.call("gate"), "which COMMAND?", "builds")
        builds = ("gate", "builds")
        self.assert_refused(self.call(*builds, plan), "nothing to compare")
        self.assert_refused(self.call(*builds, plan, "--baseline", PROGRAM), "--candidate")
        both = ("--baseline", PROGRAM, "--candidate", PROGRAM)
        self.assert_refused(self.call(*builds, *both), "PLAN is missing")
        self.assert_refused(self.call("gate", "commands", *both), "the build", "gate builds PLAN")

    def test_no_build(self):
        self.assert_refused(self.gate(candidate=self.place / "nowhere"), "nowhere")
        self.assert_refused(self.gate(candidate="/bin/true"), "/bin/true")
        broken = self.script("#!/bin/sh\necho out of order >&2\nexit 3\n")
        self.assert_refused(self.gate(candidate=broken, out="second"), "out of order")

    def test_rows_that_no_cell_has(self):
        outcome = self.gate("--rows", "strategy=accumulate")
        self.assert_refused(outcome, "strategy=accumulate")

    def test_percentages(self):
        for option in ("--margin", "--alpha", "--smallest-effect"):
            self.assert_refused(self.gate(option, "much", out=option), option, "much")


if __name__ == "__main__":
    os.chdir(ROOT)
    unittest.main(verbosity=2)
