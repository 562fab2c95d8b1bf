"""The callbacks, with the libraries that they are for: one job of two ranks trains with each.

Covers: harness/python/gradsync/series.py, harness/python/gradsync/callbacks/__init__.py,
harness/python/gradsync/callbacks/accelerate.py, harness/python/gradsync/callbacks/lightning.py,
harness/python/gradsync/callbacks/loop.py, harness/python/gradsync/callbacks/trainer.py,
harness/python/gradsync/callbacks/watch.py, harness/python/gradsync/testing/judgement.py.
"""

import csv
import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from types import SimpleNamespace

from watching_test import ALONE, ROOT, TORCH_PYTHON, WatchingTest, environment, free_port

sys.path.insert(0, str(ROOT / "harness" / "python"))
from gradsync.callbacks import Excess, Watch
from gradsync.outcome import Change, Verdict, Watched
from gradsync.testing import judgement, marker

LIBRARIES = ("accelerate", "lightning", "transformers")
# What the ranks know together: two of them may have been the latest equally often, and on a busy
# machine synchronizations may overlap each other, so that their share of a step is not known.
TOLD = {f"gradsync/{name}" for name in ("steps", "exposed_s", "excess_bytes")}
SHARE = "gradsync/synchronization_share"
RANKS, STEPS, MICRO_BATCHES = 2, 4, 3
GRADIENT_BYTES = 4 * (64 * 2 + 2)
EXCESS_BYTES = (MICRO_BATCHES - 1) * GRADIENT_BYTES


def has_libraries():
    find = f"import importlib.util as u, sys; sys.exit(not all(map(u.find_spec, {LIBRARIES})))"
    return subprocess.run([TORCH_PYTHON, "-c", find]).returncode == 0


@unittest.skipUnless(has_libraries(), f"no {', '.join(LIBRARIES)}; run harness/setup --oracles")
class CallbacksOracleTest(WatchingTest):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="gradsync_test_")
        cls.addClassCleanup(cls.folder.cleanup)
        cls.ended = subprocess.run(
            [
                Path(TORCH_PYTHON).with_name("torchrun"),
                f"--nproc-per-node={RANKS}",
                f"--master-port={free_port()}",
                Path(__file__).with_name("callbacks_rank.py"),
                cls.folder.name,
            ],
            capture_output=True,
            text=True,
            timeout=900,
            env=environment(),
        )
        if cls.ended.returncode == 0:
            cls.seen = [
                json.loads(Path(cls.folder.name, f"rank{rank}.json").read_text())
                for rank in range(RANKS)
            ]

    def setUp(self):
        super().setUp()
        self.assertEqual(self.ended.returncode, 0, self.ended.stderr)

    def assert_told(self, numbers, excess_bytes):
        self.assertLessEqual(TOLD, numbers.keys())
        self.assertEqual(numbers["gradsync/steps"], STEPS)
        self.assertEqual(numbers["gradsync/excess_bytes"], excess_bytes)
        self.assertGreater(numbers["gradsync/exposed_s"], 0)
        if SHARE in numbers:
            self.assertLess(0, numbers[SHARE])
            self.assertLess(numbers[SHARE], 1)
        self.assertIn(numbers.get("gradsync/latest_rank", 0), range(RANKS))

    def test_the_share_of_a_step_is_told_where_it_is_known(self):
        told = [numbers for numbers, _ in self.seen[0]["loop"]["logged"]]
        told += [numbers for numbers, _ in self.seen[0]["accelerate"]["logged"]]
        told += self.seen[0]["trainer"]["logged"]
        self.assertTrue([numbers for numbers in told if SHARE in numbers], told)

    def assert_all_say(self, library, kind):
        self.assertEqual([seen[library]["kind"] for seen in self.seen], [kind] * RANKS)

    def test_a_loop(self):
        self.assert_all_say("loop", "more_than_once")
        *while_it_ran, (numbers, steps) = self.seen[0]["loop"]["logged"]
        self.assertEqual(steps, STEPS)
        self.assert_told(numbers, EXCESS_BYTES)
        self.assertEqual([steps for _, steps in while_it_ran], [2, 4])
        for numbers, steps in while_it_ran:
            self.assertEqual(numbers["gradsync/steps"], steps)
            self.assertNotIn("gradsync/latest_rank", numbers, "of the other rank nothing is known")
        [(of_rank_1, _)] = self.seen[1]["loop"]["logged"]
        self.assertEqual(of_rank_1, self.seen[0]["loop"]["logged"][-1][0])

    def test_accelerate(self):
        self.assert_all_say("accelerate", "once_per_step")
        [(numbers, steps)] = self.seen[0]["accelerate"]["logged"]
        # Each rank has half of the data.
        self.assertEqual(steps, STEPS)
        self.assert_told(numbers, 0)
        self.assertEqual(self.seen[1]["accelerate"]["logged"], [], "the first process logs")

    def test_trainer(self):
        self.assert_all_say("trainer", "more_than_once")
        [numbers] = self.seen[0]["trainer"]["logged"]
        self.assert_told(numbers, EXCESS_BYTES)
        for seen in self.seen:
            self.assertIn("synchronizes in every micro-batch", seen["trainer"]["failed"])

    def test_lightning(self):
        self.assert_all_say("lightning", "once_per_step")
        with open(Path(self.folder.name, "lightning", "metrics.csv")) as file:
            [row] = csv.DictReader(file)
        numbers = {name: float(value) for name, value in row.items() if value}
        self.assertEqual(numbers.pop("step"), STEPS)
        self.assert_told(numbers, 0)

    def test_the_account_is_theirs_where_it_is_asked_for(self):
        for library, accounted in (("accelerate", 2), ("trainer", STEPS), ("lightning", 2)):
            for seen in self.seen:
                self.assertEqual(seen[library]["accounted"], accounted)
                self.assertIn("all 6 weigh the same within", seen[library]["account"][0])

    def test_the_page_is_printed_once_for_each(self):
        self.assertEqual(self.ended.stderr.count("WATCH 2 of 2 ranks"), 4)


class WithoutALibraryTest(WatchingTest):
    def test_none_is_imported_before_it_is_asked_for(self):
        lines = self.said(
            f"""
            import sys
            import gradsync.callbacks.loop
            print(sorted({{"torch", *{LIBRARIES}}} & sys.modules.keys()))
            """,
            run=self.python,
        )
        self.assertEqual(lines, ["[]"])

    def test_of_one_process_only_steps_are_known(self):
        lines = self.said(
            ALONE,
            """
            from gradsync.callbacks.loop import watching

            with watching(print, fail_on_excess=True, say=lambda page: print(page.split()[0])):
                train(3, properly=False)
            """,
        )
        self.assertEqual(lines, ["WATCH", "{'gradsync/steps': 3} 3"])

    def test_what_cannot_be_watched_is_trained_and_logs_nothing(self):
        lines = self.said(
            ALONE,
            """
            from gradsync.callbacks.loop import watching

            with watching(print, every=1, fail_on_excess=True, say=print) as watch:
                train(3, properly=False)
                watch.stepped()
            print(watch.watched.unseen[0])
            """,
            GRADSYNC_PROGRAM="/nonexistent/gradsync",
        )
        [line] = lines
        self.assertIn("there is no program", line)

    def test_one_that_nobody_ended_leaves_nothing_and_can_begin_again(self):
        lines = self.said(
            ALONE,
            """
            from gradsync.callbacks.loop import watching

            watch = watching(print, say=lambda page: None)
            for steps in (2, 3):
                watch.begin()
                train(steps, properly=True)
            watch.end()
            watch.end()
            watch.begin()
            """,
            TMPDIR=str(self.place),
        )
        self.assertEqual(lines, ["{'gradsync/steps': 3} 3"])
        self.assertEqual(list(self.place.glob("gradsync_watching_*")), [])


class ExcessTest(unittest.TestCase):
    """What is raised, of made verdicts."""

    change = Change("train.py", 36, "enclose the forward too")
    twice = Verdict("more_than_once", "synchronizes twice", None, change, True)
    beside = Verdict("buffers", "buffers broadcast", None, None, False)

    def raised(self, *verdicts, strict=True, account=None):
        watch = Watch(print, fail_on_excess=strict)
        watch.watched = Watched(verdicts, json={"account": account})
        try:
            watch.fail_on_excess()
        except Excess as excess:
            return str(excess)
        return None

    def test_the_verdict_with_its_place_is_the_message(self):
        said = "synchronizes twice (train.py line 36: enclose the forward too)"
        self.assertEqual(self.raised(self.twice, self.beside), said)
        self.assertIsNone(self.raised(self.twice, strict=False))
        self.assertIsNone(self.raised(self.beside))

    def test_what_nobody_judged_does_not_pass(self):
        unknown = Verdict("not_recognised", "not recognised", "seen", None, False)
        self.assertEqual(self.raised(unknown), "nothing was judged: not recognised: seen")
        no_steps = Verdict("no_steps", "no optimizer step was seen", None, None, False)
        self.assertEqual(self.raised(no_steps), "nothing was judged: no optimizer step was seen")
        self.assertIsNone(self.raised(no_steps, strict=False))

    def test_an_account_that_is_off_is_excess_as_well(self):
        lost = {"sentence": "rank 1 counts for nothing", "is_off": True}
        told = {"sentence": "gradients are clipped", "is_off": False}
        account = {"verdicts": [lost, told]}
        self.assertEqual(self.raised(account=account), "rank 1 counts for nothing")
        self.assertIsNone(self.raised(account={"verdicts": [told]}))
        self.assertIsNone(self.raised(account=account, strict=False))


class JudgementTest(unittest.TestCase):
    """What a marked test fails for, of a made verdict."""

    def complaints(self, steps, **asked):
        verdict = {
            "kind": "not_recognised",
            "sentence": "not recognised",
            "why": "seen",
        }
        said = {"per_step": steps, "verdicts": [verdict | {"change": None, "fails": False}]}
        rank = SimpleNamespace(
            said={"watched": {"json": said}, "peak_bytes": None, "peak_unknown": None}
        )
        request = marker.Request(ranks=1, **asked)
        return judgement.complaints(request, judgement.Seen([rank]))

    def test_a_training_that_could_not_be_judged_fails_it(self):
        [complaint] = self.complaints({"micro_batches": 4})
        self.assertEqual(complaint, "nothing was judged: not recognised\n  why: seen")
        self.assertEqual(self.complaints({"micro_batches": 4}, fail_on_excess=False), [])

    def test_a_test_need_not_train(self):
        self.assertEqual(self.complaints(None), [])


if __name__ == "__main__":
    unittest.main()
