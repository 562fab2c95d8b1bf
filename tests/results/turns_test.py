"""Jobs that take turns: what a fix saves, what running again takes, what watching costs.

Covers: on_nodes.py, recomputing.py.
"""

import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

ROOT = Path(__file__).resolve().parents[2]
for folder in ("benchmarks/peers", "results/evidence", "tests/benchmarks"):
    sys.path.insert(0, str(ROOT / folder))
import launches  # noqa: E402
import options  # noqa: E402
from peers import recomputation, watch_cost  # noqa: E402
from peers_test import PATIENT, SHORT, TINY, Comparison, are_there, block  # noqa: E402
from program import PROGRAM, ProgramTest, needs_network_namespaces  # noqa: E402

PEERS = (sys.executable, str(ROOT / "results" / "evidence" / "make.py"), "peers")


class Turns(Comparison):
    def test_what_runs_again(self):
        """A part of each step runs again on both sides; nothing does where activations are kept."""
        file = self.place / "recomputation.json"
        script = (*PEERS, "recomputation", "--program", PROGRAM)
        options = (*TINY, *SHORT, *PATIENT, "--json", file)
        outcome = self.finish(self.start(*options, command=script))
        self.assertEqual(outcome.status, 0, outcome.err)
        for what in ("running again", "the step"):
            self.assertRegex(outcome.out, rf"\| no_sync +\| {what} +\|( +\d+\.\d+ \|){{3}}")
        for side, (launch,) in json.loads(file.read_text())["launches"].items():
            (made,) = launch["blocks"]
            for again_s, step_s in zip(made["rank_recompute_s"], made["rank_step_s"], strict=True):
                for again, step in zip(again_s, step_s, strict=True):
                    self.assertTrue(0 < again < step, f"{side}: {again} s of {step} s")
            self.assertEqual(launch["collectives"]["no_sync"]["all_reduce"]["count"], 2)
        kept = self.assert_compared(
            "--topology", "1x2", peers=["torch"], expected={"all_reduce": [8, 8, 2, 2]}
        )
        for side in kept:
            again_s = [s for b in kept[side] for rank in b["rank_recompute_s"] for s in rank]
            self.assertEqual(set(again_s), {0}, side)

    def test_what_a_fix_saves(self):
        """The watcher's verdict before and after; of eight buckets' bytes, six are too many."""
        file = self.place / "saving.json"
        options = ("--launches", "1", "--steps", "4", "--json", file, "--program", PROGRAM)
        command = (*PEERS, "saving", "--topology", "2x1_1gbit", *options)
        outcome = self.finish(self.start(command=command))
        self.assertEqual(outcome.status, 0, outcome.err)
        self.assertRegex(outcome.out, r"(?m)^\| 1 \|( \d+\.\d{3} \|){5}$")
        self.assertRegex(outcome.out, r"VERDICT after: synchronizes once per optimizer step: good")
        launches = json.loads(file.read_text())["launches"]
        before, after = (launches[way][0]["per_step"] for way in ("improper", "no_sync"))
        self.assertEqual(after["excess"], {})
        self.assertEqual(after["collectives"], before["ideal"])
        reduced = before["collectives"]["all_reduce"]["bytes"]
        self.assertEqual(before["excess"]["all_reduce"]["bytes"], reduced * 3 // 4)

    def test_what_deferring_replicas_saves(self):
        file = self.place / "saving.json"
        options = ("--launches", "1", "--steps", "2", "--json", file, "--program", PROGRAM)
        job = ("--job", "hybrid", "--topology", "2x2_400mbit")
        command = (*PEERS, "saving", *job, *options)
        outcome = self.finish(self.start(command=command))
        self.assertEqual(outcome.status, 0, outcome.err)
        self.assertIn("VERDICT before: replicas are synchronized in every micro-batch", outcome.out)
        launches = json.loads(file.read_text())["launches"]
        before, after = (launches[way][0]["per_step"] for way in ("each", "deferred"))
        now, enough = (of["collectives"]["all_reduce"]["bytes"] for of in (before, after))
        self.assertEqual(now, 4 * enough)

    def test_what_chatter_costs(self):
        """It is counted to the call; how well it is timed is a published figure."""
        file = self.place / "saving.json"
        options = ("--launches", "1", "--steps", "3", "--json", file, "--program", PROGRAM)
        job = ("--job", "chatter", "--topology", "2x1_1gbit")
        outcome = self.finish(self.start(command=(*PEERS, "saving", *job, *options)))
        self.assertEqual(outcome.status, 0, outcome.err)
        before, after = (json.loads(file.read_text())["launches"][w][0] for w in ("each", "never"))
        told = {waste["kind"]: waste["reductions"] for waste in before["wastes"]}
        self.assertLessEqual(
            told.items(),
            {"barriers": 300, "small_collectives": 300, "object_collectives": 4}.items(),
        )
        self.assertNotIn("barriers", [waste["kind"] for waste in after["wastes"]])

    def test_what_buckets_cost(self):
        """Both jobs have a waste, and it is gone once they are mended."""
        for job, ways, kind, reductions in (
            ("overlap", ("one_bucket", "overlapped"), "one_bucket", 1),
            ("buckets", ("tensor_by_tensor", "together"), "small_reductions", 400),
        ):
            file = self.place / f"{job}.json"
            options = ("--launches", "1", "--steps", "3", "--json", file, "--program", PROGRAM)
            command = (*PEERS, "saving", "--job", job, *options)
            outcome = self.finish(self.start(command=command))
            self.assertEqual(outcome.status, 0, outcome.err)
            launches = json.loads(file.read_text())["launches"]
            before, after = (launches[way][0]["wastes"] for way in ways)
            told = {waste["kind"]: waste["reductions"] for waste in before}
            self.assertEqual(told[kind], reductions)
            self.assertNotIn(kind, [waste["kind"] for waste in after])


class WhatRunsAgain(unittest.TestCase):
    """What recomputation.py makes of its launches."""

    @staticmethod
    def launch(again_s, step_s):
        """Returns a launch of two ranks, the second of which runs again for half as long."""
        ranks = [[again_s, again_s], [again_s / 2, again_s / 2]]
        return {"blocks": [block("no_sync", step_s, step_s) | {"rank_recompute_s": ranks}]}

    def test_rows_by_hand(self):
        results = {
            "ours": [self.launch(0.4 * s, 2.0 * s) for s in (0.9, 1.0, 1.1)],
            "torch": [self.launch(0.8 * s, 2.5 * s) for s in (0.9, 1.0, 1.1)],
        }
        again, step = recomputation.rows_of(results, ("no_sync",))
        self.assertAlmostEqual(again.ours_s, 0.3)
        self.assertAlmostEqual(again.torch_s, 0.6)
        self.assertEqual(str(again.ratio), "0.500 [0.500, 0.500]")
        self.assertEqual(str(step.ratio), "0.800 [0.800, 0.800]")
        lines = recomputation.table([again, step]).splitlines()
        self.assertEqual(len({len(line) for line in lines}), 1)
        self.assertRegex(lines[2], r"^\| no_sync +\| running again +\| +0\.3000 \|")

    @unittest.skipUnless(are_there("torch", "transformers"), "torch or transformers are missing")
    def test_the_clock_runs_while_a_layer_runs_again(self):
        import torch.utils.checkpoint
        from recomputing import Recomputing

        class Layer:
            """Is called as transformers calls one, and counts."""

            def gradient_checkpointing_enable(self, gradient_checkpointing_kwargs):
                self.how, self.runs = gradient_checkpointing_kwargs, 0

            def run(self, x):
                self.runs += 1
                return x.exp().exp()

            def __call__(self, x):
                return torch.utils.checkpoint.checkpoint(self.run, x, **self.how)

        clock, layer = Recomputing(), Layer()
        clock.checkpoint(layer)
        output = layer(torch.ones(4, requires_grad=True)).sum()
        self.assertEqual((layer.runs, clock.elapsed_s()), (1, 0.0))
        output.backward()
        self.assertEqual(layer.runs, 2)
        self.assertGreater(clock.elapsed_s(), 0)


class WatchCost(unittest.TestCase):
    """What watch_cost.py makes of its launches; those are of ctest's watch_cost_slow_test."""

    def test_ratios_are_of_launches_that_took_turns(self):
        results = {
            side: [{"blocks": [block("no_sync", factor * s)]} for s in (1.8, 2.0, 2.2)]
            for side, factor in (("alone", 1), ("watched", 2))
        }
        row = watch_cost.step_row(results, "no_sync")
        self.assertAlmostEqual(row.alone_s, 2.0)
        self.assertAlmostEqual(row.watched_s, 4.0)
        self.assertEqual(str(row.ratio), "2.000 [2.000, 2.000]")
        self.assertAlmostEqual(row.added_ms.value, 2000.0)

    def test_sides_take_turns(self):
        sides = [side for _, side in launches.turns(3, watch_cost.SIDES)]
        self.assertEqual(sides, ["alone", "watched", "watched", "alone", "alone", "watched"])

    def test_blocks_are_told_apart_by_whether_they_were_recorded(self):
        blocks = [
            block("no_sync", seconds) | {"recorded": on}
            for seconds, on in ((2.0, True), (1.0, False), (3.0, False), (6.0, True))
        ]
        row = watch_cost.step_row(watch_cost.sides_of([{"blocks": blocks}]), "no_sync")
        self.assertEqual((row.alone_s, row.watched_s, row.ratio.value), (2.0, 4.0, 2.0))

    def test_what_is_compared_with_itself_keeps_its_memory(self):
        work = options.work_of(watch_cost.parse(["within"]))
        with mock.patch.object(launches, "_call", return_value="{}") as call:
            launches.run_peer(work, "torch", "eager", 0)
            launches.run_peer(work, "torch", "eager", 0, recording="within")
        usual, kept = (
            environment.items() for _, _, environment in (c.args for c in call.mock_calls)
        )
        self.assertFalse(usual & launches.KEPT_MEMORY.items())
        self.assertLessEqual(launches.KEPT_MEMORY.items(), kept)

    def test_a_job_that_was_not_watched_is_refused(self):
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "watch.json"
            with self.assertRaisesRegex(launches.LaunchError, "saw collectives of 0 ranks"):
                watch_cost.refuse_unwatched(file, 2)
            ranks = [{"collectives": {"all_reduce": {}}}, {"collectives": {}}]
            file.write_text(json.dumps({"ranks": ranks}))
            with self.assertRaisesRegex(launches.LaunchError, "of 1 ranks, expected 2"):
                watch_cost.refuse_unwatched(file, 2)
            watch_cost.refuse_unwatched(file, 1)


@unittest.skipUnless(are_there("torch", "transformers"), "torch or transformers are missing")
@needs_network_namespaces
class WatchCostLaunches(ProgramTest):
    def cost(self, kind, *more):
        file = self.place / "cost.json"
        command = (*PEERS, "watch_cost", kind, "--program", PROGRAM)
        outcome = self.call(
            *("--launches", "1", "--json", file, *more),
            command=command,
            env={"XDG_CACHE_HOME": str(Path(PROGRAM).parent / "watch_cache")},
        )
        self.assertEqual(outcome.status, 0, outcome.err)
        return outcome.out, json.loads(file.read_text())

    def assert_steps(self, job):
        out, written = self.cost(
            "step", *TINY, *SHORT[:-2], *PATIENT, "--job", job, "--strategy", "no_sync"
        )
        self.assertRegex(
            out, r"no_sync +\| +\d+\.\d{4} \| +\d+\.\d{4} \| +\d+\.\d{3} \| +-?\d+\.\d{3} \|"
        )
        self.assertEqual(written["schema"], "gradsync.watch_cost.step/1")
        (row,) = written["rows"]
        for side in ("alone", "watched"):
            (launch,) = written["launches"][side]
            (made,) = launch["blocks"]
            self.assertEqual(
                row[f"{side}_s"], max(map(sum, made["rank_step_s"])) / len(made["step_s"])
            )
        alone, watched = (written["launches"][side][0] for side in ("alone", "watched"))
        self.assertEqual(watched["collectives"], alone["collectives"])

    def test_steps_in_python(self):
        self.assert_steps("torch")

    def test_steps_in_cpp(self):
        self.assert_steps("gradsync")

    def test_every_other_block_is_watched_from_within(self):
        self.assert_recorded_blocks("within")

    def test_every_other_block_is_accounted(self):
        self.assert_recorded_blocks("account", "--every", "2", "--sample", "0.5")

    def test_every_other_block_is_profiled(self):
        self.assert_recorded_blocks("seconds")

    def assert_recorded_blocks(self, kind, *more):
        options = (*TINY, *SHORT[:-2], *PATIENT, *more)
        out, written = self.cost(kind, *options, "--strategy", "no_sync")
        self.assertRegex(
            out, r"strategy +\| +off s/step \| +on s/step \| +on / off \| +on - off, ms"
        )
        self.assertEqual(written["schema"], f"gradsync.watch_cost.{kind}/1")
        (launch,) = written["launches"]
        mean_s = {
            block["recorded"]: max(map(sum, block["rank_step_s"])) / 2 for block in launch["blocks"]
        }
        (row,) = written["rows"]
        self.assertEqual({True: row["on_s"], False: row["off_s"]}, mean_s)

    def test_start_and_first_build(self):
        out, written = self.cost("start")
        for words in ("watched - alone", "first, with the build"):
            self.assertIn(words, out)
        seconds = written["launches"]
        self.assertAlmostEqual(
            written["added_s"]["value"], seconds["watched"][0] - seconds["alone"][0]
        )
        self.assertGreater(seconds["first_s"], 0)


class CommandLine(unittest.TestCase):
    def assert_refused(self, program, arguments, sentence):
        with self.subTest(program, arguments=arguments):
            done = subprocess.run([*PEERS, program, *arguments], capture_output=True, text=True)
            self.assertEqual((done.returncode, done.stdout), (2, ""))
            self.assertIn(sentence, done.stderr.splitlines()[-1])

    def test_what_cannot_be_saved_is_one_sentence(self):
        for arguments, sentence in {
            ("--topology", "t4_1x2"): "whose ranks have no shaped link",
            ("--topology", "2x1_1gbit", "--job", "hybrid"): "expected nodes of several ranks",
            ("--steps", "1"): "got '1', expected 2 to",
        }.items():
            self.assert_refused("saving", arguments, sentence)

    def test_what_cannot_run_again_is_one_sentence(self):
        for arguments, sentence in {
            ("--topology", "t4_1x2"): "whose ranks have no shaped link",
            ("--strategy", "sync_each_batch"): "ddp: got 'sync_each_batch', expected baseline",
        }.items():
            self.assert_refused("recomputation", arguments, sentence)

    def test_what_cannot_be_watched_is_one_sentence(self):
        for arguments, sentence in {
            (): "kind",
            ("step", "--job", "jax"): "invalid choice",
            ("step", "--strategy", "sync_each_batch"): "ddp: got 'sync_each_batch', expected",
            ("start", "--launches", "0"): "got '0', expected 1 to 31",
            ("account", "--steps", "7"): "--steps: got 7, expected a multiple of 10",
            ("account", "--every", "1"): "got '1', expected 2 to",
            ("account", "--sample", "0"): "--sample: got 0, expected above 0 and at most 1",
        }.items():
            self.assert_refused("watch_cost", arguments, sentence)


if __name__ == "__main__":
    unittest.main(verbosity=2)
