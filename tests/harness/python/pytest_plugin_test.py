"""The pytest plugin, as pytest's users have it: pytest runs files of tests, and each must end as it
should, with the words it should, and leave nothing.

Covers: harness/python/gradsync/pytest_plugin.py, harness/python/gradsync/network.py,
testing/__init__.py, testing/counts_file.py, testing/crew.py, testing/judgement.py,
testing/ledger.py, testing/links.py, testing/marker.py, testing/memory.py, testing/rank.py,
testing/rank_plugin.py, testing/runs.py, testing/sizes.py,
harness/python/gradsync/folders.py, harness/watch/inject/preload/tensor_memory.cpp.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import unittest
import xml.etree.ElementTree as ElementTree
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tests" / "benchmarks"))
from program import PROGRAM, ProgramTest, can_unshare, private_flags  # noqa: E402
from watch_test import CACHE, SKIPPED, TORCH_PYTHON  # noqa: E402

CASES = Path(__file__).with_name("plugin_cases")

# How the cases that do not pass end, and what is reported.
ENDS = {
    "test_wrong": (
        "failure",
        "synchronizes 4 x per step of 4 micro-batches, syncs_per_step=1",
        "synchronizes in every micro-batch (4 x per step; 1 is enough)",
        "jobs.py:{line of the forward}: run every micro-batch of a step except the last",
        "moves 8.12 KiB (8320 bytes) per step and rank (4 all_reduce of 8.12 KiB)",
        "max_bytes_per_step is 4 KiB (4096 bytes)",
    ),
    "test_peak": (
        "failure",
        "rank 0 held 5.86 KiB (6000 bytes) of CPU tensors at most",
        "max_peak is 5.86 KiB (5999 bytes)",
    ),
    "test_account[True]": ("failure", "micro-batch 1 of 4 weighs 0"),
    "test_account_of_nothing": (
        "failure",
        "what micro-batches weigh is not known: no optimizer stepped in the test",
    ),
    "test_one_rank_fails": (
        "failure",
        "[rank 1/2]",
        "assert [1, 2, 1] == [1, 2, 0]",
        "stdout of rank 0",
        "stdout of rank 1 call ---",
        "before, of 2",
        "to stderr",
    ),
    "test_one_rank_dies": (
        "failure",
        "[rank 1/2] ended with exit status 3 before the test did",
        "rank 0",
    ),
    "test_hangs": (
        "failure",
        "[rank 0/2] did not end within 15 s",
        "[rank 1/2] did not end within 15 s",
        "in hang_here",
    ),
    "test_skipped_inside": ("skipped", "for a reason"),
    "test_expected_to_fail": ("skipped", "known"),
    "test_two_ranks_of_which_one_fails": ("failure", "[rank 1/2]", "KeyError: 'of rank 1'"),
    "test_a_local_function": ("failure", "is inside of another function"),
    "test_link_of_no_rate": ("failure", "got 'fast', expected a rate such as"),
}
PASS = {
    "test_nothing_is_imported_for_others",
    "test_training",  # of the page
    "test_method[3]",
    "test_account[False]",
    "test_two_ranks_and_their_peaks",
    "test_link",
    "test_ledger",
    "test_ledger_of_nothing_else",
}

# Cases that need no proof with every change: each differs from another in only one thing.
NIGHTLY = (
    "test_two_ranks_and_their_peaks",
    "test_account[False]",
    "test_account_of_nothing",
    "test_skipped_inside",
    "test_expected_to_fail",
    "test_two_ranks_of_which_one_fails",
    "test_ledger_of_nothing_else",
)

# By the page's example.
TAKEN_FOR_GRANTED = """
import pytest

def train(steps):
    import jobs

    jobs.train(steps=steps)
"""
NO_LINKS = dict.fromkeys(("test_link", "test_link_of_no_rate"), ("skipped", "network namespaces"))

if subprocess.run([TORCH_PYTHON, "-c", "import pytest, xdist"]).returncode != 0:
    print("skipped: this Python has no pytest and pytest-xdist; run harness/setup --oracles")
    sys.exit(SKIPPED)


class PluginTest(ProgramTest):
    def pytest(self, *arguments, cases=True, **more):
        """Starts pytest on copies of the cases, in a folder of their own."""
        for file in CASES.glob("*.py") if cases else ():
            shutil.copy(file, self.place)
        (self.place / "pytest.ini").touch()
        return self.start(
            *("-m", "pytest", "-p", "gradsync.pytest_plugin", "--strict-markers", *arguments),
            command=(TORCH_PYTHON,),
            env={
                "GRADSYNC_PROGRAM": str(PROGRAM),
                "PATH": f"{os.environ['PATH']}:/usr/sbin:/sbin",
                "PYTHONDONTWRITEBYTECODE": "1",
                "PYTHONPATH": str(ROOT / "harness" / "python"),
                "TMPDIR": str(self.place),
                "XDG_CACHE_HOME": str(CACHE),
                **more,
            },
        )

    def ended(self, *arguments, **more):
        return self.finish(self.pytest(*arguments, **more))

    def tearDown(self):
        self.assertEqual(list(self.place.glob("gradsync_*")), self.kept_files())
        super().tearDown()

    def kept_files(self):
        return []


class CasesTest(PluginTest):
    """Two at a time, under pytest-xdist."""

    def test_each_ends_as_it_should(self):
        left_out = [f"--deselect=cases.py::{name}" for name in NIGHTLY]
        self.assert_ends({*ENDS, *PASS} - {*NIGHTLY}, *left_out)

    def assert_ends(self, names, *options):
        """Exactly these run, and each ends as it should."""
        (self.place / "readme_example.py").write_text(example_of_readme())
        tests = ("cases.py", "readme_example.py")
        done = self.ended(*tests, "-n", "2", "--junitxml", "ends.xml", *options)
        self.assertEqual(done.status, 1, done.out + done.err)
        seen = {}
        for case in ElementTree.parse(self.place / "ends.xml").iter("testcase"):
            seen[case.get("name")] = case
        self.assertEqual(sorted(seen), sorted(names))
        without_links = {} if can_unshare(*private_flags(), "-n") else NO_LINKS
        for name in (PASS & names) - without_links.keys():
            with self.subTest(name):
                self.assertEqual(ends_of(seen[name]), {}, done.out)
        for name, (end, *words) in {**ENDS, **without_links}.items():
            if name not in names:
                continue
            with self.subTest(name):
                self.assertIn(end, ends_of(seen[name]))
                said = ends_of(seen[name])[end] + of_test(done.out, name)
                for word in words:
                    self.assertIn(word.format_map(self.lines()), said)

    def lines(self):
        lines = (CASES / "jobs.py").read_text().splitlines()
        numbers = [number for number, line in enumerate(lines, 1) if "model(data())" in line]
        return {"line of the forward": numbers[0]}


class SlowCasesTest(CasesTest):
    def test_each_ends_as_it_should(self):
        self.assert_ends({*ENDS, *PASS})


def example_of_readme():
    """Returns the page's test, with what the page takes for granted."""
    text = (ROOT / "harness" / "python" / "README.md").read_text()
    [example] = re.findall(r"```python\n(@pytest.*?)```", text, re.DOTALL)
    return f"{TAKEN_FOR_GRANTED}\n{example}"


def ends_of(case):
    return {
        end.tag: f"{end.get('message')}\n{end.text}"
        for end in case
        if end.tag in ("failure", "error", "skipped")
    }


def of_test(out, name):
    """Returns the terminal's report of a failure, with its sections."""
    head = f"_ {name} _" if "[" not in name else name
    return out.partition(head)[2].partition("\n____")[0]


class MarkersTest(PluginTest):
    def test_what_cannot_be_meant_is_said_before_anything_runs(self):
        done = self.ended("wrong_markers.py")
        self.assertEqual(done.status, 4, done.out)
        for sentence in (
            "::test_no_rank: @pytest.mark.gradsync: ranks: got 0, expected a whole number",
            "::test_no_ranks: @pytest.mark.gradsync: ranks is missing",
            "max_peak: got '50 megs', expected a size such as \"50MiB\" (units: B, KB, MB",
            "there is no argument sync_per_step, expected one of ranks, syncs_per_step,",
            "got account and max_peak, expected one of them",
            "got 2 without a name, expected ranks=2",
            "::Case::test_of_unittest: @pytest.mark.gradsync: only test functions",
        ):
            self.assertIn(sentence, done.err)
        self.assertNotIn("test_of_nobody", done.err)
        self.assertNotIn("Traceback", done.out + done.err)

    def test_under_xdist_each_of_them_fails(self):
        done = self.ended("wrong_markers.py", "-n", "1")
        self.assertEqual(done.status, 1, done.out)
        self.assertIn("1 passed, 7 errors", done.out)


class UnwatchedTest(PluginTest):
    def test_what_is_not_seen_fails_a_test_with_limits_alone(self):
        tests = ("readme_example.py", "cases.py::TestMethods")
        (self.place / tests[0]).write_text(example_of_readme())
        done = self.ended(*tests, GRADSYNC_PROGRAM="/nonexistent")
        self.assertEqual(done.status, 1, done.out)
        self.assertIn("nothing is known of a step: there is no program /nonexistent", done.out)
        self.assertIn("what tensors hold is not known: there is no program", done.out)
        self.assertIn("PytestWarning: gradsync: there is no program /nonexistent", done.out)
        self.assertIn("1 failed, 1 passed", done.out)


class CountsTest(PluginTest):
    FILE = "gradsync_counts.json"

    def kept_files(self):
        return [self.place / self.FILE]

    def kept(self):
        return json.loads((self.place / self.FILE).read_text())["tests"]

    def test_they_are_written_and_compared(self):
        done = self.ended("counted.py", "--gradsync-update", "-n", "2")
        self.assertEqual(done.status, 0, done.out)
        self.assertIn("gradsync: counts of 2 tests, ", done.out)
        self.assertEqual(
            list(self.kept()), ["counted.py::test_steady", "counted.py::test_training"]
        )
        counts = self.kept()["counted.py::test_training"]
        self.assertEqual(counts, self.kept()["counted.py::test_steady"])
        self.assertEqual((counts["micro_batches"], counts["syncs_per_step"]), (4, 1))
        self.assertEqual(
            counts["collectives_per_step"], {"all_reduce": {"bytes": 2080, "count": 1}}
        )
        self.assertGreater(counts["peak_bytes"], 2 * 2080)

        done = self.ended("counted.py", "-n", "2", "-k", "not never", IMPROPERLY="1", GROWN="1")
        self.assertEqual(done.status, 1, done.out)
        self.assertIn("2 failed, 1 passed", done.out)
        self.assertIn(
            f"{self.FILE} has no counts of it: pytest --gradsync-update writes it", done.out
        )
        self.assertIn(f"syncs_per_step: 1 in {self.FILE}, 4 now", done.out)
        was, now = "1 of 2.03 KiB (2080 bytes)", "4 of 8.12 KiB (8320 bytes)"
        self.assertIn(f"all_reduce per step: {was} in {self.FILE}, {now} now", done.out)

    def test_a_file_that_is_none(self):
        (self.place / self.FILE).write_text('{"schema": "another", "tests": {}}')
        done = self.ended("counted.py", "-k", "training")
        self.assertEqual(done.status, 4)
        self.assertIn("schema: got 'another', expected 'gradsync.test_counts/1'", done.err)


class EndTest(PluginTest):
    """Nothing outlives pytest: ProgramTest looks, after each test."""

    def started_endlessly(self):
        folder = self.place / "started"
        folder.mkdir()
        process = self.pytest("endless.py", STARTED=str(folder))
        self.wait_until(lambda: len(list(folder.iterdir())) == 2, what="both ranks")
        return process

    def test_an_interrupt(self):
        process = self.started_endlessly()
        process.send_signal(signal.SIGINT)
        self.assertEqual(self.finish(process, 60).status, 2)

    def test_a_kill(self):
        process = self.started_endlessly()
        process.kill()
        process.wait(60)
        self.wait_until(lambda: not self.marked_processes(), 60, "the end of all ranks")
        [folder] = self.place.glob("gradsync_ranks_*")  # no process was left to remove it
        another = "from gradsync.folders import OwnFolder; OwnFolder('gradsync_ranks_').remove()"
        environment = os.environ | {
            "PYTHONPATH": str(ROOT / "harness" / "python"),
            "TMPDIR": str(self.place),
        }
        for age_s, is_left in ((0, True), (3600, False)):
            then = time.time() - age_s
            os.utime(folder, (then, then))
            subprocess.run([sys.executable, "-c", another], env=environment, check=True)
            self.assertEqual(folder.exists(), is_left, f"after {age_s} s")


class PublicSyncTest(PluginTest):
    """What six public projects ask of their synchronization; see public_sync_tests/README.md."""

    WORDS = (
        ("test_veomni_1026", "assert 32 == (2 * 4)"),
        ("test_skyrl_2146", "jobs.py:"),
        ("test_verl_omni_614", "synchronizes 4 x per step of 4 micro-batches, syncs_per_step=1"),
        ("test_areal_1273", "assert"),
        ("test_megatron_lm_6551", "max_peak is 3.5 MiB"),
        ("test_fairscale_470", "4 all_gather"),
    )

    def test_each_tells_the_bug_from_the_fix(self):
        shutil.copytree(CASES.with_name("public_sync_tests"), self.place, dirs_exist_ok=True)
        done = self.ended("test_public_sync.py", "-n", "2", cases=False)
        for name, words in self.WORDS:
            with self.subTest(name):
                self.assertIn(words, of_test(done.out, f"{name}[bug]"))
                self.assertNotIn(f"{name}[fix]", done.out)
        self.assertIn("6 failed, 6 passed", done.out)

    def test_each_takes_five_lines(self):
        text = (CASES.with_name("public_sync_tests") / "test_public_sync.py").read_text()
        tests = [test.strip() for test in text.split("\n\n\n")[1:]]
        self.assertEqual(len(tests), len(self.WORDS))
        for test in tests:
            self.assertLessEqual(len(test.splitlines()), 5, test)


if __name__ == "__main__":
    unittest.main()
