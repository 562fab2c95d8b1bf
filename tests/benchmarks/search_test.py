"""gradsync search: the edge of what fits in memory, found by real trials.

Covers: find_fastest.cpp, search_cells.cpp, search_command.cpp, search_question.cpp.
"""

import copy
import json
import signal
import unittest

from program import PACED, QUICK, ROOT, ProgramTest, needs_network_namespaces, with_cells

try:
    import jsonschema
except ImportError:
    jsonschema = None

SHARDED = with_cells(QUICK, wrapper=["fsdp"], strategy=["no_sync"], model=["mlp"])
BUDGET = ("--smallest", "memory_budget_bytes")


def schema_validator():
    schema = json.loads((ROOT / "results/schema/search.schema.json").read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


def refuses(value, path, to):
    """Whether the schema complains of `value` with one field changed."""
    wrong = copy.deepcopy(value)
    place = wrong
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = to
    return not schema_validator().is_valid(wrong)


class SearchCase(ProgramTest):
    def search(self, plan, *arguments, out="search", **options):
        return self.call(
            "search", self.plan_file(plan), "--out", self.place / out, *arguments, **options
        )

    def found(self, out="search"):
        return json.loads((self.place / out / "search.json").read_text())


class SearchTest(SearchCase):
    def test_a_budget_and_a_size_that_belong_together(self):
        plan = with_cells(SHARDED, micro_batch_size=[5], accumulation_steps=[1, 2])
        outcome = self.search(plan, *BUDGET, "--checks", 1, out="budget")
        self.assertEqual(outcome.status, 0, outcome.err)
        cells = self.found("budget")["cells"]
        self.assertEqual([cell["cell"]["accumulation_steps"] for cell in cells], [1, 2])
        for cell in cells:
            self.assertEqual(cell["outcome"], "found")
            self.assertEqual(cell["edge"], cell["peak_allocated_bytes"], "exact to the byte")
            verdicts = {probe["value"]: probe["status"] for probe in cell["probes"]}
            self.assertEqual(verdicts[cell["edge"]], "ok")
            self.assertEqual(verdicts[cell["edge"] - 1], "oom")
            # Without one, both ends, the peak, a byte less, and one check on each side.
            self.assertEqual(len(cell["probes"]), 1 + 2 + 2 + 2)
            self.assertRegex(outcome.out, rf"\| +{cell['edge']} \(")
        self.assert_every_probe_is_a_trial("budget")

        edge = cells[1]["edge"]
        within = with_cells(SHARDED, accumulation_steps=[2], memory_budget_bytes=[edge])
        outcome = self.search(within, "--largest", "micro_batch_size", "--to", 9, "--checks", 1)
        self.assertEqual(outcome.status, 0, outcome.err)
        (cell,) = self.found()["cells"]
        self.assertEqual((cell["edge"], cell["peak_allocated_bytes"]), (5, edge))
        self.assertIn("5 fits, 6 does not: oom: ", outcome.out)
        self.assert_obeys_schema(self.found())
        self.assert_schema_refuses_changes_of(self.found())

    def assert_every_probe_is_a_trial(self, out):
        probes = [probe for cell in self.found(out)["cells"] for probe in cell["probes"]]
        trials = self.trials(out)
        self.assertEqual(len(trials), len(probes))
        for order, (probe, trial) in enumerate(zip(probes, trials, strict=True)):
            self.assertEqual((probe["order"], trial["order"]), (order, order))
            self.assertEqual(probe["value"], trial["cell"].get("memory_budget_bytes"))
            self.assertEqual((probe["status"], probe["reason"]), (trial["status"], trial["reason"]))
        report = self.call("report", self.place / out)
        self.assertEqual(report.status, 0, report.err)
        self.assertIn("oom", report.out)

    def assert_obeys_schema(self, search):
        if jsonschema is not None:
            schema_validator().validate(search)

    def assert_schema_refuses_changes_of(self, search):
        if jsonschema is None:
            return
        for path, wrong in (
            (("schema",), "gradsync.search/2"),
            (("surprise",), 1),
            (("axis",), "strategy"),
            (("exit_status",), 1),
            (("cells", 0, "edge"), None),
            (("cells", 0, "outcome"), "none_fits"),
            (("cells", 0, "reason"), ""),
            (("cells", 0, "cell", "strategy"), 1.5),
            (("cells", 0, "probes"), []),
            (("cells", 0, "probes", 0, "reason"), "because"),
            (("cells", 0, "probes", 0, "value"), 0),
        ):
            self.assertTrue(refuses(search, path, wrong), f"{path} = {wrong!r}")

    def test_an_edge_beyond_the_ends(self):
        plan = with_cells(SHARDED, memory_budget_bytes=["1KiB", "1GiB"])
        outcome = self.search(plan, "--largest", "accumulation_steps", "--to", 3, "--json")
        self.assertEqual(outcome.status, 0, outcome.err)
        search = json.loads(outcome.out)
        self.assertEqual(search, self.found())
        self.assertEqual(
            [(cell["outcome"], cell["edge"]) for cell in search["cells"]],
            [("none_fits", None), ("all_fit", None)],
        )
        for cell in search["cells"]:
            self.assertEqual([probe["value"] for probe in cell["probes"]], [1, 3])
        self.assert_obeys_schema(search)
        none = with_cells(SHARDED, memory_budget_bytes=["1KiB"])
        outcome = self.search(
            none, "--largest", "accumulation_steps", "--to", 3, "--quiet", out="none"
        )
        self.assertEqual((outcome.status, outcome.err), (4, ""), "nothing fits anywhere")
        self.assertIn("none fits", outcome.out)

    def test_a_trial_without_an_answer_stops_its_cell(self):
        process = self.start(
            *("search", self.plan_file(PACED), "--out", self.place / "search"),
            *(*BUDGET, "--strategy", "no_sync"),
        )
        held, _ = self.hold(1, lambda *_: True)
        held.signal(signal.SIGKILL)
        outcome = self.finish(process)
        self.assertEqual(outcome.status, 5, outcome.err)
        (cell,) = self.found()["cells"]
        self.assertEqual((cell["outcome"], cell["to"]), ("stopped", None))
        self.assertIn("memory_budget_bytes none: failed: ", cell["reason"])
        self.assertIn(cell["reason"], outcome.out)
        self.assert_obeys_schema(self.found())

    def test_a_trial_that_failed_is_not_one_that_does_not_fit(self):
        plan = with_cells(PACED, memory_budget_bytes=["1GiB"]) | {"steps": 20}
        process = self.start(
            *("search", self.plan_file(plan), "--out", self.place / "search"),
            *("--largest", "accumulation_steps", "--to", 4, "--strategy", "no_sync"),
        )
        self.wait_until(lambda: len(self.rank_processes()) == 2, what="both ranks")
        self.rank_processes()[1].signal(signal.SIGKILL)
        outcome = self.finish(process)
        self.assertEqual(outcome.status, 5, outcome.err)
        (cell,) = self.found()["cells"]
        self.assertEqual((cell["outcome"], cell["edge"]), ("stopped", None))
        self.assertEqual([probe["status"] for probe in cell["probes"]], ["failed"])
        self.assertIn("accumulation_steps 1: failed: ", cell["reason"])

    def test_interrupted(self):
        process = self.start(
            "search", self.plan_file(SHARDED), "--out", self.place / "search", *BUDGET
        )
        self.wait_until(lambda: self.trials("search"), what="the first trial")
        self.wait_until(lambda: len(self.rank_processes()) == 2, what="both ranks")
        process.send_signal(signal.SIGINT)
        outcome = self.finish(process)
        self.assertEqual(outcome.status, 130, outcome.err)
        self.assertIn("interrupted; finished trials are in", outcome.err)
        self.assertEqual(self.found()["cells"], [])
        self.assertEqual(self.found()["exit_status"], 130)
        self.assertEqual(self.result("search")["exit_status"], 130)
        self.assert_obeys_schema(self.found())
        again = self.search(SHARDED, *BUDGET, "--checks", 0, "--force")
        self.assertEqual(again.status, 0, again.err)
        self.assertEqual(self.found()["cells"][0]["outcome"], "found")


class RaceCase(SearchCase):
    def race(self, plan, *arguments, out="search"):
        return self.search(plan, "--fastest", *arguments, out=out)

    def fastest(self, out="search"):
        found = json.loads((self.place / out / "fastest.json").read_text())
        if jsonschema is not None:
            schema = json.loads((ROOT / "results/schema/fastest.schema.json").read_text())
            jsonschema.Draft202012Validator(schema).validate(found)
        return found


class FastestTest(RaceCase):
    def peaks(self, plan):
        self.run_plan(plan)
        return {
            json.dumps(cell["cell"]): cell["peak_allocated_bytes"]
            for cell in self.result("run")["cells"]
        }

    def test_what_does_not_fit_is_not_run_and_one_of_the_others_is_the_fastest(self):
        plan = with_cells(
            SHARDED,
            wrapper=["ddp", "fsdp"],
            strategy=["no_sync", "sync_each_batch"],
            reshard_after_forward=[True, False],
        )
        peaks = self.peaks(plan)
        self.assertEqual(len(peaks), 5, "sync_each_batch is FSDP's alone")
        budget = sorted(peaks.values())[-1] - 1
        budgeted = with_cells(plan, memory_budget_bytes=[budget]) | {"launches": 4}
        outcome = self.race(budgeted)
        self.assertEqual(outcome.status, 0, outcome.err)
        found = self.fastest()
        standings = [one["standing"] for one in found["contenders"]]
        self.assertEqual(len(standings), 5)
        self.assertEqual(standings.count("fastest"), 1, standings)
        self.assertLessEqual(set(standings), {"too_large", "slower", "close", "fastest"})
        for one in found["contenders"]:
            trials = [trial for trial in self.trials("search") if trial["cell"] == one["cell"]]
            self.assertEqual(len(trials), one["launches"])
            fits = one["predicted_peak_bytes"] <= budget
            self.assertEqual(fits, one["standing"] != "too_large")
            self.assertEqual(len(trials) > 0, fits, "what does not fit is not run")
            if fits:
                self.assertEqual(one["peak_allocated_bytes"], one["predicted_peak_bytes"])
        self.assertIn("the fastest is", outcome.out)
        self.assertIn("does not fit, by the formula", outcome.out)
        self.assertEqual(outcome.out, (self.place / "search" / "table.md").read_text())

    def test_where_nothing_fits(self):
        outcome = self.race(with_cells(SHARDED, memory_budget_bytes=["1KiB"]))
        self.assertEqual(outcome.status, 4, outcome.err)
        (one,) = self.fastest()["contenders"]
        self.assertEqual((one["standing"], one["launches"]), ("too_large", 0))
        self.assertIn("none of 1 ways fits", outcome.out)

    def test_refusals(self):
        for arguments, *words in (
            ((), "'cells.memory_budget_bytes'", "got none"),
            (("--to", 4), "got --fastest and --to 4"),
            (BUDGET, "got --fastest and --smallest memory_budget_bytes"),
            (("--resume",), "--resume"),
            (("--set", "memory_budget_bytes=1GiB", "--set", "timed=false"), "'timed'", "got false"),
            (
                ("--set", "wrapper=local", "--set", "strategy=baseline"),
                *("'cells.wrapper'", "got local", "ddp or fsdp"),
            ),
        ):
            self.assert_refused(self.race(SHARDED, *arguments), *words)
            self.assertFalse((self.place / "search").exists())


# Paced steps over a line of which each way takes its own share, so that ways are far apart.
WAYS = with_cells(
    PACED,
    topology=["t4_2x1"],
    wrapper=["ddp", "fsdp"],
    strategy=["baseline", "no_sync", "sync_each_batch"],
    reshard_after_forward=[True, False],
)


# Minutes of waiting: ctest's program_search_slow_test.
@needs_network_namespaces
class SlowFastest(RaceCase):
    def test_it_finds_what_trying_everything_finds(self):
        everything = WAYS | {"launches": 3, "steps": 2}
        tried = self.run_plan(everything)
        self.assertEqual(tried.status, 0, tried.err)
        peaks, times = {}, {}
        for cell in self.result("run")["cells"]:
            way = json.dumps(cell["cell"])
            peaks[way], times[way] = cell["peak_allocated_bytes"], cell["step_s"]["mean"]
        self.assertEqual(len(peaks), 2 + 3 * 2, "ways of DDP and of both shardings")
        budgets = sorted(set(peaks.values()))
        outcome = self.race(with_cells(everything, memory_budget_bytes=budgets))
        self.assertEqual(outcome.status, 0, outcome.err)
        winners = set()
        for budget in budgets:
            race = [
                one
                for one in self.fastest()["contenders"]
                if one["cell"]["memory_budget_bytes"] == budget
            ]
            standings = {self.way_of(one): one["standing"] for one in race}
            fitting = [way for way, peak in peaks.items() if peak <= budget]
            raced = [way for way, standing in standings.items() if standing != "too_large"]
            self.assertEqual(sorted(raced), sorted(fitting))
            best = min(fitting, key=times.get)
            self.assertIn(standings[best], ("fastest", "close"), f"{budget}: {standings}")
            winners.add(best)
        self.assertGreater(len(winners), 1, "a budget decides which way is the fastest")
        launched = sum(one["launches"] for one in self.fastest()["contenders"])
        fit = sum(peak <= budget for budget in budgets for peak in peaks.values())
        self.assertLess(launched, 3 * fit, "not all that fit ran to the end")

    @staticmethod
    def way_of(one):
        """Returns the cell of a contender as a run without a budget has it."""
        cell = {axis: value for axis, value in one["cell"].items() if axis != "memory_budget_bytes"}
        return json.dumps(cell)


class RefusalTest(SearchCase):
    def refuse(self, *arguments, expected, plan=SHARDED):
        outcome = self.search(plan, *arguments)
        self.assert_refused(outcome, *expected)
        self.assertFalse((self.place / "search").exists())

    def test_what_to_search(self):
        self.refuse(expected=("neither of --largest and --smallest", "--fastest"))
        both = ("--largest", "accumulation_steps", "--to", 4, *BUDGET)
        self.refuse(*both, expected=("got both",))
        self.refuse("--largest", "bucket_cap_bytes", "--to", 4, expected=("bucket_cap_bytes",))
        self.refuse("--smallest", "accumulation_steps", expected=("--smallest accumulation_steps",))

    def test_ends(self):
        self.refuse("--largest", "accumulation_steps", expected=("--to is missing",))
        largest = ("--largest", "accumulation_steps")
        self.refuse(*largest, "--to", "many", expected=("--to: got many", "an integer from 1"))
        self.refuse(*largest, "--from", 0, "--to", 4, expected=("--from: got 0",))
        self.refuse(*largest, "--from", 4, "--to", 4, expected=("--to: got 4", "more than --from"))
        self.refuse(*BUDGET, "--to", "1GB/s", expected=("--to: got 1GB/s",))
        self.refuse(*BUDGET, "--from", 0, expected=("--from: got 0", "at least 1"))
        self.refuse(*BUDGET, "--checks", -1, expected=("--checks",))

    def test_plans_that_leave_it_open(self):
        largest = ("--largest", "accumulation_steps", "--to", 4)
        self.refuse(*largest, expected=("'cells.memory_budget_bytes'", "got none"))
        self.refuse(*largest, "--set", "accumulation_steps=3", expected=("what is searched",))
        self.refuse(*BUDGET, "--set", "launches=2", expected=("'launches'", "got 2"))
        self.refuse(*BUDGET, "--resume", expected=("--resume",))


if __name__ == "__main__":
    unittest.main(verbosity=2)
