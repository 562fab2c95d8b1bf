"""What tests/run --changed chooses of made-up tests; and which it calls the longest."""

import sys
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from changed import Test, chosen, closure, included_by_tests, tests_of, uses_of  # noqa: E402
from dearest import dearest  # noqa: E402
from layering_test import LAYERS, sources  # noqa: E402

USES = {
    "plan": {"base"},
    "sync": {"plan", "models"},
    "run": {"sync"},
    "gate": {"plan"},
    "watch": {"gate"},
    "session": {"plan", "watch"},
    "models": {"base"},
    "python": {"watch"},
}
FOLDERS = {
    "base_test": "harness/base",
    "plan_test": "harness/plan",
    "sync_test": "harness/sync",
    "run_test": "harness/run",
    "gate_test": "harness/gate",
    "watch_test": "harness/watch",
    "watch_events_test": "harness/watch/preload",
    "models_test": "models",
    "watching_test": "harness/python",
    "program_sweep_test": "benchmarks",
    "program_gate_test": "benchmarks",
    "program_watch_test": "benchmarks",
    "plot_test": "plot",
    "published_test": "results",
    "pages_test": "source_checks",
}
TESTS = [
    Test(name, folder, f"python3 /x/tests/{folder}/{name.removeprefix('program_')}.py")
    for name, folder in FOLDERS.items()
]
INCLUDED = {"harness/sync": {"run"}}


def names(*paths):
    """Returns the names of the tests chosen, without the checks of sources, which always run."""
    found, unknown = chosen(paths, TESTS, USES, INCLUDED)
    assert not unknown, unknown
    found = [test.name for test in found]
    assert "pages_test" in found
    return set(found) - {"pages_test"}


class ChooserTest(unittest.TestCase):
    def test_a_room_and_those_above_it(self):
        self.assertEqual(
            names("harness/gate/rows.cpp"),
            {"gate_test", "watch_test", "watch_events_test", "watching_test"}
            | {"program_gate_test", "program_watch_test"},
        )

    def test_the_lowest_room_is_below_all(self):
        found = names("harness/base/clock.cpp")
        self.assertEqual(set(FOLDERS) - {"pages_test", "plot_test", "published_test"}, found)

    def test_what_the_sources_of_a_test_include_counts(self):
        self.assertIn("sync_test", names("harness/run/block.cpp"))
        self.assertNotIn("plan_test", names("harness/run/block.cpp"))

    def test_a_model_is_below_what_trains_it(self):
        found = names("models/bert.cpp")
        self.assertLessEqual({"models_test", "sync_test", "program_sweep_test"}, found)
        self.assertFalse({"gate_test", "program_watch_test"} & found)

    def test_jobs_do_not_stand_on_the_ranks_nor_runs_on_the_watcher(self):
        self.assertNotIn("program_watch_test", names("harness/run/block.cpp"))
        self.assertNotIn("program_sweep_test", names("harness/watch/watched.cpp"))
        self.assertIn("program_watch_test", names("harness/watch/watched.cpp"))

    def test_a_command_is_of_one_kind(self):
        self.assertEqual(names("benchmarks/commands/watch_command.cpp"), {"program_watch_test"})
        self.assertIn("program_sweep_test", names("benchmarks/commands/run_command.cpp"))

    def test_a_test_itself(self):
        self.assertEqual(names("tests/benchmarks/sweep_test.py"), {"program_sweep_test"})
        self.assertEqual(names("tests/harness/plan/expand_test.cpp"), {"plan_test"})
        within_preload = {"watch_test", "watch_events_test"}
        self.assertEqual(names("tests/harness/watch/preload/turns_test.cpp"), within_preload)

    def test_what_several_tests_share(self):
        shared = names("tests/benchmarks/program.py")
        self.assertEqual(shared, {name for name, at in FOLDERS.items() if at == "benchmarks"})

    def test_data(self):
        self.assertIn("published_test", names("results/published/slowdown/result.json"))
        self.assertIn("program_sweep_test", names("benchmarks/plans/smoke.json"))
        self.assertNotIn("base_test", names("benchmarks/plans/smoke.json"))
        self.assertEqual(names("plot/front.py"), {"plot_test"})

    def test_a_page_is_checked_and_nothing_is_run(self):
        self.assertEqual(names("README.md", "harness/README.md"), set())

    def test_several_files_choose_what_each_does(self):
        both = names("harness/gate/rows.cpp", "models/bert.cpp")
        self.assertEqual(both, names("harness/gate/rows.cpp") | names("models/bert.cpp"))

    def test_what_no_rule_knows_is_said(self):
        for path in (
            "CMakeLists.txt",
            "harness/plan/CMakeLists.txt",
            "harness/cmake/GradsyncTargets.cmake",
            "harness/setup",
            ".ci/run",
            "tests/run",
            "harness/base/build_info.cpp.in",
            "tests/nowhere/new_test.cpp",
        ):
            self.assertEqual(chosen([path], TESTS, USES, INCLUDED)[1], [path], path)

    def test_the_order_is_that_of_ctest(self):
        found = chosen(["harness/base/a.h"], TESTS, USES, INCLUDED)[0]
        self.assertEqual(found, sorted(found, key=TESTS.index))


class TreeTest(unittest.TestCase):
    """The rooms of the tree are those that the rules name."""

    def test_every_room_stands_on_the_lowest(self):
        uses = uses_of(sources())
        for room in {*LAYERS, "models", "benchmarks", "python"}:
            self.assertIn("base", closure({room}, uses), room)

    def test_sources_of_tests_name_their_rooms(self):
        included = included_by_tests()
        self.assertIn("run", included["harness/sync"])
        self.assertIn("launch", included["harness/launch"])

    def test_the_folder_of_a_test_is_that_of_its_list(self):
        listing = {
            "backtraceGraph": {
                "files": ["/x/harness/cmake/T.cmake", "/x/tests/harness/base/CMakeLists.txt"],
                "nodes": [
                    {"file": 1},
                    {"file": 1, "command": 1, "parent": 0},
                    {"file": 0, "command": 0, "parent": 1},
                ],
            },
            "tests": [{"name": "base_test", "backtrace": 2, "command": ["bin/base_test"]}],
        }
        self.assertEqual(tests_of(listing), [Test("base_test", "harness/base", "bin/base_test")])


class DearestTest(unittest.TestCase):
    def test_the_longest_come_first_and_what_did_not_run_not_at_all(self):
        cases = "".join(
            f'<testcase name="{name}" time="{seconds}"/>'
            for name, seconds in (("a", 1.5), ("b", 30), ("c", 0), ("d", 2))
        )
        text = f"<testsuite>{cases}</testsuite>"
        self.assertEqual(dearest(text), [(30, "b"), (2, "d"), (1.5, "a")])
        self.assertEqual(dearest(text, 1), [(30, "b")])


if __name__ == "__main__":
    unittest.main(verbosity=2)
