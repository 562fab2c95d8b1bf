"""The program has no torch: what ranks are and know is the rank program's (rank_program.h).

Covers: gradsync_rank.cpp, rank_about.cpp, rank_program.cpp.
"""

import json
import shutil
import subprocess
import unittest

from program import PROGRAM, QUICK, RANK_PROGRAM, ProgramTest

WITHOUT = "no rank can run: there is no program"


def libraries_of(program):
    listed = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
    return {line.split()[0] for line in listed.splitlines()}


class LinkedTest(unittest.TestCase):
    def test_only_the_rank_program_has_torch(self):
        self.assertIn("libtorch_cpu.so", libraries_of(RANK_PROGRAM))
        self.assertFalse(
            {name for name in libraries_of(PROGRAM) if "torch" in name or "c10" in name}
        )


class AloneTest(ProgramTest):
    """The program where there is no rank program beside it, as on a machine without torch."""

    def setUp(self):
        super().setUp()
        self.alone = shutil.copy(PROGRAM, self.place / "gradsync")

    def call_alone(self, *arguments, **env):
        return self.call(*arguments, command=(self.alone,), env=env)

    def test_what_needs_no_rank_works(self):
        for words, expected in (
            (("--version",), "gradsync "),
            (("list", "models"), "bert_base"),
            (("list", "strategies"), "no_sync_improper"),
            (("run", "smoke", "--dry-run"), "smoke"),
            (("predict", "memory", "bert_mini", "--strategy", "no_sync"), "peak"),
            (("watch", "--", "true"), ""),
        ):
            with self.subTest(words=words):
                outcome = self.call_alone(*words)
                self.assertNotIn("gradsync-rank", outcome.err)
                self.assertIn(expected, outcome.out)

    def test_a_report_of_what_others_measured(self):
        outcome = self.run_plan(QUICK)
        self.assertEqual(outcome.status, 0, outcome.err)
        reported = self.call_alone("report", f"{self.place / 'run'}/")
        self.assertEqual((reported.status, reported.out), (0, outcome.out))

    def test_what_needs_a_rank_says_what_to_do(self):
        outcome = self.call_alone("run", self.plan_file(QUICK), "--out", self.place / "run")
        missing = str(self.place / "gradsync-rank")
        self.assert_refused(outcome, WITHOUT, missing, "GRADSYNC_RANK", status=4)
        self.assertFalse((self.place / "run").exists(), "a refused run has made its directory")
        builds = ("--baseline", self.alone, "--candidate", self.alone)
        out = ("--out", self.place / "gate")
        gate = self.call_alone("gate", "builds", self.plan_file(QUICK), *builds, *out)
        self.assertEqual(gate.status, 4, gate.err)
        self.assertIn(WITHOUT, " ".join(gate.out.split()))

    def test_doctor_says_so_among_the_rest(self):
        outcome = self.call_alone("doctor")
        self.assertIn("warn  no rank can run here", outcome.out)
        self.assertIn(f"remedy: {WITHOUT}", outcome.out)

    def test_one_can_be_named(self):
        outcome = self.call_alone(
            "run",
            self.plan_file(QUICK),
            "--out",
            self.place / "run",
            GRADSYNC_RANK=RANK_PROGRAM,
        )
        self.assertEqual(outcome.status, 0, outcome.err)


def about_ranks():
    return json.loads(subprocess.check_output([RANK_PROGRAM, "about"], text=True))


class AnotherBuildTest(ProgramTest):
    def run_with(self, script):
        other = self.place / "other-rank"
        other.write_text(f"#!/bin/sh\n{script}\n")
        other.chmod(0o755)
        return self.run_plan(QUICK, env={"GRADSYNC_RANK": str(other)})

    def test_a_rank_program_of_another_build_is_refused(self):
        about = about_ranks()
        self.assertIn("mlp", [model["name"] for model in about["models"]])
        about["commit"] = "0123456"
        outcome = self.run_with(f"echo '{json.dumps(about)}'")
        self.assert_refused(outcome, "other-rank is of commit 0123456", "build both", status=4)

    def test_the_torch_of_a_run_is_the_ranks(self):
        about = json.dumps(about_ranks() | {"torch": "2.99.0"})
        outcome = self.run_with(
            f"""[ "$1" = about ] && echo '{about}' && exit\nexec {RANK_PROGRAM} "$@\""""
        )
        self.assertEqual(outcome.status, 0, outcome.err)
        self.assertEqual(self.result()["context"]["torch"], "2.99.0")

    def test_what_is_no_rank_program(self):
        self.assert_refused(self.run_with("echo hello"), "other-rank about", status=4)
        self.assert_refused(self.run_with("exit 3"), "said nothing", "status 3", status=4)

    def test_one_that_cannot_start_says_why(self):
        outcome = self.run_with("echo 'libtorch_cpu.so: cannot open' ; exit 127")
        self.assert_refused(outcome, "libtorch_cpu.so: cannot open", status=4)


class RankProgramTest(ProgramTest):
    def test_a_person_who_starts_it_is_told_what_does(self):
        outcome = self.call("help", command=(RANK_PROGRAM,))
        self.assertEqual(outcome.status, 2)
        self.assertIn("got 'help', expected rank, about", outcome.out)

    def test_a_store_that_does_not_answer(self):
        outcome = self.call("store-get", "127.0.0.1", "9", "1", "key", command=(RANK_PROGRAM,))
        self.assertEqual(outcome.status, 4)
        self.assertIn("torchrun's store at 127.0.0.1:9", outcome.out)


if __name__ == "__main__":
    unittest.main(verbosity=2)
