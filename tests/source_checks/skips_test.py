"""Which skips .ci/run takes, by logs made up as ctest, GoogleTest and unittest write them."""

import importlib.util
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
SCRIPT, LIST = ROOT / "tests" / "skips.py", ROOT / "tests" / "skips.txt"
spec = importlib.util.spec_from_file_location("skips", SCRIPT)
skips = importlib.util.module_from_spec(spec)
sys.modules["skips"] = skips  # its dataclasses ask for it
spec.loader.exec_module(skips)

DETAILS = """Start testing: Nov 23 08:24 UTC
----------------------------------------------------------
1/3 Testing: oracle_test
1/3 Test: oracle_test
Command: "python3" "oracle_test.py"
Output:
----------------------------------------------------------
warming up
skipped: this Python has no torch
<end of output>
Test time =   0.01 sec
----------------------------------------------------------
Test Passed.

2/3 Testing: fabric_test
2/3 Test: fabric_test
Output:
----------------------------------------------------------
[ RUN      ] Fabric.Carries
[       OK ] Fabric.Carries (2 ms)
[ RUN      ] Links/Fabric.Shapes/0
tests/fabric_test.cpp:51: Skipped
network namespaces cannot be made here
(user.max_net_namespaces is 0)

[  SKIPPED ] Links/Fabric.Shapes/0, where GetParam() = 3 (0 ms)
[  PASSED  ] 1 test.
[  SKIPPED ] 1 test, listed below:
[  SKIPPED ] Links/Fabric.Shapes/0, where GetParam() = 3
<end of output>
Test Passed.

3/3 Testing: launchers_test
3/3 Test: launchers_test
Output:
----------------------------------------------------------
test_places (__main__.MpirunTest.test_places) ... skipped 'no mpirun'
test_runs (__main__.RunTest.test_runs) ... ok
test_told (__main__.RunTest.test_told)
What a rank is told. ... skipped "it's busy"
test_old (__main__.RunTest) ... skipped 'older interpreters'
setUpClass (__main__.SrunTest) ... skipped 'no Slurm'
OK (skipped=4)
<end of output>
Test Passed.
"""
LOG = """Test project /build
    Start 1: oracle_test
1/3 Test #1: oracle_test ......................***Skipped   0.01 sec
    Start 2: fabric_test
2/3 Test #2: fabric_test ......................   Passed    0.02 sec

The following tests did not run:
\t  1 - oracle_test (Skipped)
"""
FOUND = [
    ("fabric_test", "Links/Fabric.Shapes/0", True),
    ("launchers_test", "MpirunTest.test_places", "no mpirun"),
    ("launchers_test", "RunTest.test_told", "it's busy"),
    ("launchers_test", "RunTest.test_old", "older interpreters"),
    ("launchers_test", "SrunTest.setUpClass", "no Slurm"),
    ("oracle_test", "(whole)", "skipped: this Python has no torch"),
]
TAKES_ALL = """# all of them
[always]
fabric_test  Links/*  no links
launchers_test  *  no launchers
oracle_test  (whole)  no torch
"""


class FoundTest(unittest.TestCase):
    def test_every_skip_has_its_test_its_case_and_its_reason(self):
        found = [(skip.test, skip.case, skip.reason) for skip in skips.skips(DETAILS, LOG)]
        namespaces = "network namespaces cannot be made here (user.max_net_namespaces is 0)"
        expected = [(*each[:2], namespaces if each[2] is True else each[2]) for each in FOUND]
        self.assertEqual(found, expected)

    def test_a_run_without_skips_has_none(self):
        self.assertEqual(skips.skips("Start testing\n", "100% tests passed\n"), [])


class AllowedTest(unittest.TestCase):
    def uncovered(self, text, holds=lambda section: section == "always"):
        lines = skips.allowed(text, holds)
        return [
            skip.case
            for skip in skips.skips(DETAILS, LOG)
            if not any(line.covers(skip) for line in lines)
        ]

    def test_patterns_cover_cases(self):
        self.assertEqual(self.uncovered(TAKES_ALL), [])

    def test_a_line_covers_its_own_test_alone(self):
        self.assertNotIn("Links/Fabric.Shapes/0", self.uncovered("[always]\nfabric_test  *  why\n"))
        self.assertEqual(len(self.uncovered("[always]\nother_test  *  why\n")), len(FOUND))

    def test_a_whole_test_is_no_case_of_it(self):
        self.assertIn("(whole)", self.uncovered("[always]\noracle_test  Oracle*  why\n"))

    def test_a_section_counts_where_it_holds(self):
        text = "[always]\n[not root]\nlaunchers_test  Srun*  why\n"
        self.assertIn("SrunTest.setUpClass", self.uncovered(text))
        self.assertNotIn("SrunTest.setUpClass", self.uncovered(text, lambda section: True))

    def test_a_line_without_its_why_is_refused(self):
        for text in ("[always]\nfabric_test  Links/*\n", "[sometimes]\n"):
            with self.assertRaisesRegex(ValueError, "line [12]: got "):
                skips.allowed(text)

    def test_the_list_of_the_tree_can_be_read(self):
        lines = skips.allowed(LIST.read_text(), lambda section: True)
        self.assertGreater(len(lines), 0)


class ProgramTest(unittest.TestCase):
    def call(self, *options, log=LOG):
        with tempfile.TemporaryDirectory(prefix="gradsync_test_") as folder:
            place = Path(folder)
            (place / "details").write_text(DETAILS)
            (place / "list").write_text(TAKES_ALL)
            (place / "short").write_text(TAKES_ALL.replace("launchers_test", "other_test"))
            if log is not None:
                (place / "log").write_text(log)
            return subprocess.run(
                [sys.executable, SCRIPT, "details", "log", *options],
                cwd=place,
                capture_output=True,
                text=True,
                check=False,
            )

    def test_it_lists_them(self):
        result = self.call()
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        self.assertIn(f"{len(FOUND)} test cases were skipped:", result.stdout)
        self.assertIn("launchers_test  MpirunTest.test_places  no mpirun", result.stdout)

    def test_skips_that_are_on_the_list_are_good(self):
        result = self.call("--allowed", "list")
        self.assertEqual((result.returncode, result.stderr), (0, ""))

    def test_others_are_named_and_fail(self):
        result = self.call("--allowed", "short")
        self.assertEqual(result.returncode, 1)
        self.assertIn("not on short: launchers_test  SrunTest.setUpClass", result.stderr)
        self.assertEqual(len(result.stderr.splitlines()), 4)

    def test_where_nothing_ran_nothing_is_good(self):
        self.assertEqual(self.call("--allowed", "list", log=None).returncode, 1)


if __name__ == "__main__":
    unittest.main(verbosity=2)
