"""The output directory: taken, resumed, full, shared, and what stays in it.

Covers: session.cpp, session_start.cpp.
"""

import resource
import shutil
import tempfile
import unittest

from program import PACED, PROGRAM, QUICK, ProgramTest, can_unshare, private_flags

# Three trials of a second in all.
THREE = QUICK | {"launches": 3}


class TakenTest(ProgramTest):
    def test_a_taken_directory_needs_force(self):
        self.assertEqual(self.run_plan(QUICK).status, 0)
        first = (self.place / "run" / "trials.jsonl").read_text()
        notes = self.place / "run" / "notes.txt"
        notes.write_text("mine")
        outcome = self.run_plan(QUICK)
        self.assert_refused(outcome, str(self.place / "run"), "--resume", "--force")
        self.assertEqual((self.place / "run" / "trials.jsonl").read_text(), first)
        self.assertEqual(self.run_plan(QUICK, "--force").status, 0)
        self.assertEqual(len(self.trials()), 1)
        self.assertNotEqual((self.place / "run" / "trials.jsonl").read_text(), first)
        self.assertEqual(notes.read_text(), "mine")

    def test_a_file_in_its_place(self):
        (self.place / "run").write_text("mine")
        self.assert_refused(
            self.run_plan(QUICK), str(self.place / "run"), "is a file, expected a directory"
        )
        self.assertEqual((self.place / "run").read_text(), "mine")

    def test_leftover_temporaries_are_swept(self):
        (self.place / "run").mkdir()
        (self.place / "run" / "result.json.tmp-4711").write_text("half")
        self.assertEqual(self.run_plan(QUICK).status, 0)


class ResumeTest(ProgramTest):
    """Resumes one run; each test gets a copy of it."""

    ran = None

    @classmethod
    def tearDownClass(cls):
        if cls.ran:
            shutil.rmtree(cls.ran)

    def setUp(self):
        super().setUp()
        run = self.place / "run"
        if ResumeTest.ran is None:
            self.assertEqual(self.run_plan(THREE).status, 0)
            ResumeTest.ran = tempfile.mkdtemp(prefix="gradsync_test_")
            shutil.copytree(run, ResumeTest.ran, dirs_exist_ok=True)
        else:
            shutil.copytree(ResumeTest.ran, run)
        self.file = run / "trials.jsonl"
        self.whole = self.file.read_text()

    def cut(self, lines, rest=""):
        self.file.write_text("".join(self.whole.splitlines(keepends=True)[:lines]) + rest)

    def test_finished_trials_are_not_run_again(self):
        outcome = self.run_plan(THREE, "--resume")
        self.assertEqual(outcome.status, 0, outcome.err)
        self.assertEqual(self.file.read_text(), self.whole)

    def test_a_truncated_last_line_is_run_again(self):
        self.cut(1, self.whole.splitlines()[1][:100])
        outcome = self.run_plan(THREE, "--resume")
        self.assertEqual(outcome.status, 0, outcome.err)
        kept = self.whole.splitlines()[0]
        lines = self.file.read_text().splitlines()
        self.assertEqual((len(lines), lines[0]), (3, kept))
        self.assertEqual([trial["launch"] for trial in self.trials()], [0, 1, 2])
        self.assertEqual(self.result()["cells"][0]["step_s"]["n"], 9)

    def test_a_foreign_file_is_refused_and_kept(self):
        self.cut(1, '{"weather": "fine"}\n')
        before = self.file.read_text()
        outcome = self.run_plan(THREE, "--resume")
        self.assert_refused(outcome, f"{self.file}:2", "not a trial record")
        self.assertEqual(self.file.read_text(), before)

    def test_another_plan_is_refused(self):
        outcome = self.run_plan(THREE | {"steps": 4}, "--resume")
        self.assert_refused(outcome, "plan/steps was 3, is 4")
        self.assertEqual(self.file.read_text(), self.whole)

    def test_nothing_to_resume(self):
        self.assert_refused(self.run_plan(THREE, "--resume", out="other"), "nothing to resume")
        self.assertFalse((self.place / "other").exists())


# A single step of warm-up, so that no trial has the memory of a step, which is most of a record.
EIGHT = QUICK | {"launches": 8, "warmup_steps": 1}


class FullDiskTest(ProgramTest):
    def assert_cut_short_and_resumable(self, outcome, words):
        self.assertEqual(outcome.status, 5, outcome.err)
        self.assertEqual(outcome.out, "")
        self.assertRegex(outcome.err, rf"(?m)^error: \S*trials\.jsonl: .*{words}$")
        kept = self.trials()
        self.assertIn(len(kept), range(1, 8))
        self.assertEqual({trial["status"] for trial in kept}, {"ok"})
        resumed = self.run_plan(EIGHT, "--resume")
        self.assertEqual(resumed.status, 0, resumed.err)
        self.assertEqual(self.trials()[: len(kept)], kept)
        self.assertEqual(len(self.trials()), 8)

    @unittest.skipUnless(can_unshare(*private_flags(), "-m"), "mount namespaces are forbidden here")
    def test_full_disk(self):
        run = self.place / "run"
        run.mkdir()
        plan = self.plan_file(EIGHT)
        # The small disk vanishes with the namespace: its files are carried out of it first.
        script = (
            f'mount -t tmpfs -o size=20k none "{run}" || exit 99\n'
            f'cd / && "{PROGRAM}" run "{plan}" --out "{run}"; status=$?\n'
            f'cp -r "{run}" "{self.place}/saved"; exit $status'
        )
        outcome = self.call("-c", script, command=("unshare", *private_flags(), "-m", "sh"))
        (self.place / "saved").rename(self.place / "moved")
        run.rmdir()
        (self.place / "moved").rename(run)
        self.assert_cut_short_and_resumable(outcome, "No space left on device")

    def test_file_size_limit(self):
        def limit():
            resource.setrlimit(resource.RLIMIT_FSIZE, (12_000, 12_000))

        outcome = self.run_plan(
            EIGHT, preexec_fn=limit, restore_signals=False
        )  # SIGXFSZ stays ignored, as Python has it: the write then fails
        self.assert_cut_short_and_resumable(outcome, "File too large")


class TwoRunsTest(ProgramTest):
    def start_first(self):
        return self.start("run", self.plan_file(PACED, "first.json"), "--out", self.place / "run")

    def test_into_one_directory(self):
        first = self.start_first()
        with self.frozen(first):
            for arguments in ((), ("--force",), ("--resume",)):
                with self.subTest(arguments=arguments):
                    outcome = self.run_plan(PACED, *arguments)
                    self.assert_refused(outcome, str(self.place / "run"), "another run")
        outcome = self.finish(first)
        self.assertEqual(outcome.status, 0, outcome.err)
        self.assertEqual([trial["status"] for trial in self.trials()], ["ok", "ok"])

    def test_into_two_directories(self):
        first = self.start_first()
        with self.frozen(first):
            second = self.run_plan(QUICK, out="second")
        self.assertEqual(second.status, 0, second.err)
        self.assertRegex(
            second.err, rf"(?m)^warn: another gradsync runs \(process .*\b{first.pid}\b"
        )
        self.assertEqual(self.finish(first).status, 0)


if __name__ == "__main__":
    unittest.main(verbosity=2)
