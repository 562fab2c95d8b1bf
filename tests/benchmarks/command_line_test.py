"""What is wrong on the command line or in a file is refused in one sentence, before a rank runs.

Covers: gradsync.cpp, gate_spelling.cpp, list_command.cpp, plan_options.cpp, run_command.cpp,
run_options.cpp, wrong_call.cpp, exit_status.cpp.
"""

import json
import unittest

from program import QUICK, ProgramTest, with_cells


class PlanTest(ProgramTest):
    def refuse(self, plan, *texts):
        outcome = self.run_plan(plan)
        self.assert_refused(outcome, str(self.place / "plan.json"), *texts)
        self.assertFalse((self.place / "run").exists(), "a refused plan has made its directory")

    def test_fields_that_are_wrong(self):
        self.refuse(QUICK | {"stepz": 2}, "'stepz'", "unknown field", "steps")
        self.refuse(QUICK | {"steps": "2"}, "'steps'", 'got "2"', "an integer")
        self.refuse(QUICK | {"steps": 2.5}, "'steps'", "got 2.5")
        self.refuse(QUICK | {"cells": []}, "'cells'", "got []")
        self.refuse(with_cells(QUICK, modell=["mlp"]), "modell", "unknown field")
        self.refuse(QUICK | {"schema": "another.tool/1"}, "'schema'", "gradsync.plan/1")

    def test_counts_must_be_positive(self):
        for field in ("steps", "rounds", "launches"):
            for value in (0, -1):
                with self.subTest(field=field, value=value):
                    self.refuse(QUICK | {field: value}, f"'{field}'", f"got {value}", "at least 1")
        for value in (0, -4):
            self.refuse(
                with_cells(QUICK, accumulation_steps=[value]), "accumulation_steps", f"got {value}"
            )
        self.refuse(QUICK | {"timeout_s": 0}, "'timeout_s'", "got 0")

    def test_names_must_be_known(self):
        self.refuse(with_cells(QUICK, model=["bert"]), "'cells.model'", "'bert'", "bert_tiny")
        self.refuse(with_cells(QUICK, topology=["9x"]), "'cells.topology'", "'9x'", "2x1_1gbit")
        self.refuse(with_cells(QUICK, strategy=["none"]), "strategy'", '"none"', "no_sync_improper")

    def test_a_rate_needs_its_unit(self):
        topology = self.place / "topology.json"
        topology.write_text(
            json.dumps(
                {
                    "schema": "gradsync.topology/1",
                    "nodes": 2,
                    "ranks_per_node": 1,
                    "inter_node": {"rate": "200"},
                }
            )
        )
        self.refuse(
            with_cells(QUICK, topology=[str(topology)]),
            str(topology),
            "'inter_node.rate'",
            'got "200"',
            "Mbps",
        )

    def test_what_is_no_json_and_no_file(self):
        path = self.place / "plan.json"
        path.write_text('{"schema": ')
        self.assert_refused(self.call("run", path), str(path))
        self.assert_refused(self.call("run", "no_such_plan"), "'no_such_plan'", "smoke")

    def test_as_published_needs_steps_to_check(self):
        self.refuse(
            QUICK | {"window_rule": "as_published", "steps": 2}, "'steps'", "got 2", "at least 3"
        )


class OptionsTest(ProgramTest):
    def test_overrides(self):
        for text, *expected in (
            ("foo=3", "'foo'", "unknown field", "steps"),
            ("foo", "KEY=VALUE"),
            ("steps=0", "'steps'", "got 0"),
            ("steps=abc", "'steps'", '"abc"'),
        ):
            with self.subTest(text=text):
                self.assert_refused(self.call("run", "smoke", "--set", text), text, *expected)

    def test_usage(self):
        for arguments, expected in (
            (("run", "smoke", "--bogus"), "--bogus: gradsync run has no such option"),
            (("run", "smoke", "--stpes", "3"), "did you mean --steps?"),
            (("run",), "PLAN is required"),
            ((), "which COMMAND? one of watch, judge"),
            (("walk",), "walk: gradsync has no such command"),
            (("runn", "smoke"), "did you mean run?"),
            (("predict", "memroy", "mlp"), "did you mean memory?"),
            (("gate", "cuonts", "x", "--", "true"), "did you mean counts?"),
            (("watch", "torchrun", "train.py"), "gradsync watch -- torchrun train.py"),
            (("list", "fruit"), "fruit"),
            (("list", "plan"), "did you mean plans?"),
            (("report", "x", "--format", "htm"), "did you mean html?"),
            (("report",), "DIR is required"),
            (("report", "x", "--format", "pdf"), "pdf"),
        ):
            with self.subTest(arguments=arguments):
                self.assert_refused(self.call(*arguments), expected, "--help")

    def test_the_older_spelling_of_a_gate_works_and_says_the_new_one(self):
        for older, now in (
            (("--counts", "none.json", "--", "true"), "gate counts none.json -- true"),
            (("--counts=none.json", "--update", "--html", "x", "--", "true"), "counts none.json"),
            (("smoke", "--baseline", "no", "--candidate", "no"), "gate builds smoke --baseline no"),
            (("--quiet", "smoke", "--against", "no"), ""),
            (("--gates", "none"), "gate builds --gates none"),
            (("--baseline", "no a", "--candidate", "no"), "gate commands --baseline 'no a'"),
            (("--selftest", "--rows", "model=x", "--starts", "0"), "gate selftest --rows model=x"),
            (("--replay", "none"), "gate selftest --replay none"),
        ):
            with self.subTest(older=older):
                outcome = self.call("gate", *older)
                self.assertNotEqual(outcome.status, 0)
                self.assertEqual(bool(now), "this is now spelled: gradsync gate" in outcome.err)
                self.assertIn(now, outcome.err)

    def test_what_to_resume_or_replace_must_be_said(self):
        for flag in ("--resume", "--force"):
            self.assert_refused(self.call("run", "smoke", flag), f"{flag} needs --out")

    def test_devices_and_backends_must_be_known(self):
        self.assert_refused(self.call("run", "smoke", "--device", "tpu"), "'device'", '"tpu"')
        nccl = self.call("run", "smoke", "--backend", "nccl")
        self.assert_refused(nccl, "'backend'", 'where device is "cpu"')


class InformationTest(ProgramTest):
    def test_version_and_help(self):
        version = self.call("--version")
        self.assertEqual(version.status, 0)
        self.assertRegex(version.out, r"^gradsync \d+\.\d+\.\d+ \(\S+ \w+\) torch 2\.\d+")
        overview = self.call("--help")
        self.assertEqual(overview.status, 0)
        for command in ("run", "search", "report", "doctor", "list"):
            self.assertRegex(overview.out, rf"(?m)^  {command} ")
        self.assertNotRegex(overview.out, r"(?m)^  rank ")
        # A flag that may be repeated takes one value at a time, and the help says so.
        self.assertNotIn("...", self.call("run", "--help").out)

    def test_list_names_what_a_plan_may_use(self):
        for kind, names in (
            ("plans", ("smoke", "slowdown_table")),
            ("models", ("mlp", "bert_mini", "paced_bert_base_t4")),
            ("topologies", ("1x2", "t4_2x1", "NxR")),
            ("strategies", ("baseline", "no_sync_improper", "no_sync", "accumulate")),
            ("options", ("wrapper", "find_unused_parameters", "memory_budget_bytes")),
        ):
            outcome = self.call("list", kind)
            self.assertEqual((outcome.status, outcome.err), (0, ""))
            listed = [line.split()[0] for line in outcome.out.splitlines()]
            for name in names:
                self.assertIn(name, listed)
            for line in outcome.out.splitlines():
                self.assertGreater(len(line.split()), 2, f"{line} says nothing about it")

    def test_only_options_are_listed_as_json(self):
        self.assert_refused(self.call("list", "plans", "--json"), "--json: got plans")

    def dry_run(self, *arguments):
        outcome = self.call("run", "slowdown_table", "--dry-run", "--json", *arguments)
        self.assertEqual(outcome.status, 0, outcome.err)
        return json.loads(outcome.out)

    def test_a_seed_fixes_the_order(self):
        first = self.dry_run("--seed", 7)
        self.assertEqual([trial["order"] for trial in first], list(range(64)))
        self.assertEqual(first, self.dry_run("--seed", 7))
        cells = [trial["cell"] for trial in first]
        self.assertNotEqual(cells, [trial["cell"] for trial in self.dry_run("--seed", 8)])

    def test_a_repeated_flag_adds_a_value(self):
        chosen = self.dry_run("--strategy", "baseline", "--strategy=accumulate", "--set", "seed=3")
        strategies = {trial["cell"]["strategy"] for trial in chosen}
        self.assertEqual(strategies, {"baseline", "accumulate"})

    def test_a_dry_run_of_cells_that_have_different_options(self):
        outcome = self.call("run", "memory_sweep", "--dry-run")
        self.assertEqual(outcome.status, 0, outcome.err)
        self.assertIn("reshard_after_forward", outcome.out)

    def test_a_dry_run_is_a_table_and_leaves_nothing(self):
        outcome = self.call("run", "smoke", "--dry-run", "--out", "run")
        self.assertEqual((outcome.status, outcome.err), (0, ""))
        rows = [line for line in outcome.out.splitlines() if line.startswith("| ")]
        self.assertEqual(len(rows), 1 + 8)
        self.assertFalse((self.place / "run").exists())


if __name__ == "__main__":
    unittest.main(verbosity=2)
