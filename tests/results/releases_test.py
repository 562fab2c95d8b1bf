"""Checks the published figures of releases, and their text. No release is run."""

import sys
import unittest
from pathlib import Path
from unittest.mock import patch

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "results" / "evidence"))
import stored  # noqa: E402
from releases import board, make, trainers  # noqa: E402

GRADIENT_BYTES = 900


def cell(policy, times, weights=None, tokens=None, **more):
    """Returns a job of two ranks and two micro-batches that reduces all gradients so often."""
    weights = weights or [[1.0, 1.0], [1.0, 1.0]]
    fields = {"micro_batches": 2, "gradient_bytes": GRADIENT_BYTES, "left_over": 0.0}
    rank = fields | {"weights": weights, "tokens": tokens} | more
    collectives = {"all_reduce": {"count": 7, "bytes": times * GRADIENT_BYTES + 4}}
    return {
        "wrapper": "ddp",
        "policy": policy,
        "watched": {"kind": "once_per_step", "per_step": {"collectives": collectives}},
        "ranks": [rank, rank],
        "failure": None,
    }


def refusing(reason):
    return cell("no_sync", 1) | {"watched": None, "ranks": [{"rank": 0, "refused": reason}]}


def failing(reason):
    return cell("no_sync", 1) | {"watched": None, "ranks": [], "failure": reason}


def release(name, *cells, not_installed_because=None):
    place = {"with": {"torch": "2.11.0"}, "python": "3.11.7", "date": "2026-11-25"}
    place |= {"not_installed_because": not_installed_because}
    return {"library": "it", "release": name, "cells": list(cells)} | place


class TornTest(unittest.TestCase):
    def test_ranks_that_read_other_parameters_are_told(self):
        self.assertFalse(board.is_torn(cell("boundary", 2)))
        self.assertFalse(board.is_torn(cell("boundary", 2, left_over=1.0)), "both the same")
        self.assertFalse(board.is_torn(refusing("AssertionError: no")))
        torn = cell("boundary", 2)
        torn["ranks"] = [torn["ranks"][0], torn["ranks"][1] | {"left_over": 1.0}]
        self.assertTrue(board.is_torn(torn))

    def test_such_a_job_runs_again_and_says_so(self):
        torn = cell("boundary", 2)
        torn["ranks"] = [torn["ranks"][0], torn["ranks"][1] | {"left_over": 1.0}]
        for seen, runs in (([cell("boundary", 2)], None), ([torn, cell("boundary", 2)], 2)):
            left = list(seen)
            with patch.object(make, "run_once", lambda *_, left=left: left.pop(0)):
                self.assertEqual(make.run(None, "it", "zero3", "boundary").get("runs"), runs)
            self.assertEqual(left, [])


class TrainerTest(unittest.TestCase):
    """A row of each trainer's newest release: results/evidence/trainers.md."""

    def rows(self, *cells, library="it"):
        releases = [release("1", cell("feature", 3)), release("2", *cells)]
        table = trainers.table([each | {"library": library} for each in releases])
        return [line.strip("| ").split(" | ")[2:] for line in table[2:]]

    def watched(self, policy, times, *more, **fields):
        found = cell(policy, times, *more, **fields)
        return found | {"watched": found["watched"] | {"sentence": "it says"}}

    def test_the_newest_release_alone_is_told_with_its_own_accumulation(self):
        rows = self.rows(self.watched("feature", 1), self.watched("no_sync", 2))
        self.assertEqual(rows, [["1", "right", "it says"]])

    def test_what_is_not_right_says_what_mends_it(self):
        too_often, lost = self.watched("feature", 2), self.watched("feature", 1, [[0.0, 2.0]] * 2)
        rows = self.rows(too_often, lost, self.watched("feature", 0.5))
        wanted = [
            ["2", "right", "it says", "none"],
            ["1", "drops micro-batch 1", "it says", "none"],
        ]
        self.assertEqual(rows, [*wanted, ["in part", "right", "it says", "none"]])
        sharded = too_often | {"wrapper": "zero2"}
        (row,) = self.rows(sharded, library="deepspeed")
        self.assertEqual(row[0], "2, as ZeRO 2 must")
        self.assertIn("stage", row[-1])
        self.assertTrue(trainers.is_right(sharded))

    def test_gradients_that_were_clipped_early_are_told_by_the_step(self):
        odd = {"left_over": 0.3, "left_over_if_clipped": 1e-5}
        self.assertIn("clipped on each rank", self.rows(self.watched("clipped", 1, **odd))[0][1])
        odd |= {"left_over_if_clipped": 0.2}
        said = self.rows(self.watched("clipped", 1, **odd))[0][1]
        self.assertEqual(said, "not a sum of these gradients")

    def test_bytes_of_the_profiler_go_before_those_of_watch(self):
        counted = self.watched("feature", 2, reduced_bytes=GRADIENT_BYTES)
        self.assertEqual(self.rows(counted), [["1", "right", "it says"]])
        unseen = counted | {"watched": {"kind": "no_steps", "per_step": None, "sentence": "none"}}
        self.assertEqual(self.rows(unseen), [["1", "right", "none"]])

    def test_weights_that_nobody_knows_are_said_to_be_unknown(self):
        unknown = self.watched("feature", 1)
        unknown["ranks"] = [rank | {"weights": None} for rank in unknown["ranks"]]
        self.assertEqual(self.rows(unknown)[0][1], "weights not known")

    def test_what_watch_says_is_compared_with_the_bytes(self):
        def counted(times, kind, fails=False):
            found = cell("every", times, reduced_bytes=times * GRADIENT_BYTES)
            return found | {"watched": {"kind": kind, "fails": fails}}

        right = counted(1, "once_per_step"), counted(0, "never", True), counted(2, "more_than_once")
        wrong = counted(1, "more_than_once", True), counted(2, "once_per_step")
        unjudged = counted(2, "not_recognised"), refusing("AssertionError: no")
        said = trainers.agreement([release("1", *right, *wrong, *unjudged)])
        self.assertIn("6 jobs", said)
        self.assertIn("say in 3 of them, and it accuses 1 that synchronize once", said)

    def test_a_trainer_that_raises_is_not_counted(self):
        releases = [release("1", refusing("AssertionError: no") | {"policy": "feature"})]
        self.assertIn("did not run: `AssertionError: no`", trainers.table(releases)[-1])
        self.assertIn("1 trainers: 0 reduce no more", trainers.summary(releases))


class WordTest(unittest.TestCase):
    def test_how_often_it_synchronizes_is_told_by_bytes(self):
        self.assertEqual(board.word(cell("no_sync", 1)), "once")
        self.assertEqual(board.word(cell("no_sync", 2)), "no-op")
        self.assertEqual(board.word(cell("every", 2)), "each")
        self.assertEqual(board.word(cell("every", 3)), "3 x")
        self.assertEqual(board.word(cell("every", 0)), "never")
        self.assertEqual(board.word(cell("every", 0.5)), "in part")

    def test_zero_2_and_3_must_reduce_in_every_micro_batch(self):
        """Their no_sync, where they have one that does nothing, is a no-op all the same."""
        for wrapper, name in (("zero2", "ZeRO 2"), ("zero3", "ZeRO 3")):
            words = {
                policy: board.word(cell(policy, 2) | {"wrapper": wrapper})
                for policy in board.POLICIES
            }
            must = f"each, as {name} must"
            wanted = {"feature": must, "boundary": must, "no_sync": "no-op", "every": "each"}
            wanted["clipped"] = must
            self.assertEqual(words, wanted)
        for wrapper in ("ddp", "fsdp2", "zero0", "zero1"):
            self.assertEqual(board.word(cell("feature", 2) | {"wrapper": wrapper}), "no-op")

    def test_a_job_without_steps_is_not_counted(self):
        unseen = cell("feature", 1)
        unseen["watched"]["per_step"] = None
        self.assertEqual(board.word(unseen), "not counted")

    def test_a_lost_micro_batch_drops(self):
        lost = cell("feature", 1, [[0.0, 2.0], [0.0, 2.0]])
        self.assertEqual(board.word(lost), "once, drops micro-batch 1")

    def test_a_rank_that_reads_its_own_alone_drops_the_others(self):
        alone = cell("feature", 0, [[2.0, 2.0], [0.0, 0.0]])
        self.assertEqual(board.word(alone), "never, drops other ranks")

    def test_weights_that_are_not_1_are_told(self):
        self.assertEqual(board.word(cell("no_sync", 1, [[2.0, 2.0]] * 2)), "once, all weigh 2")
        self.assertEqual(board.word(cell("no_sync", 1, [[1.5, 0.5]] * 2)), "once, weigh 1.5 0.5")

    def test_what_is_left_over_is_no_sum_of_gradients(self):
        odd = cell("no_sync", 1, left_over=0.3)
        self.assertEqual(board.word(odd), "once, not a sum of these gradients")

    def test_tokens(self):
        tokens = [[1, 3], [2, 6]]
        alike = [[1 / 3, 1.0], [2 / 3, 2.0]]
        on_each_rank = [[0.5, 1.5], [0.5, 1.5]]
        said = {"micro-batches weigh alike": None, "tokens weigh alike": alike}
        said |= {"tokens weigh alike on each rank": on_each_rank}
        for text, weights in said.items():
            self.assertEqual(board.word(cell("feature", 1, weights, tokens)), f"once, {text}")

    def test_what_a_library_raises_is_told(self):
        has_none = "AttributeError: 'Engine' object has no attribute 'no_sync'"
        self.assertEqual(board.word(refusing(has_none)), "has none")
        self.assertEqual(board.word(refusing("AssertionError: no")), "refuses (AssertionError)")
        self.assertEqual(board.word(failing("killed")), "fails")

    def test_the_cause_of_a_failure_is_the_last_error(self):
        told = "Traceback\nImportError: no\n[rank 1] ended\n"
        self.assertEqual(make.cause(told), "ImportError: no")
        self.assertEqual(make.cause("so it ended\n\n"), "so it ended")
        self.assertEqual(make.cause(""), "it printed nothing")


class ChangeTest(unittest.TestCase):
    def test_a_change_is_told_with_both_releases(self):
        off, on = cell("no_sync", 2), cell("no_sync", 1)
        releases = [release("1", off), release("2", off), release("3", on), release("4", on)]
        changes = list(board.changes(releases, "it"))
        self.assertEqual(changes, [("ddp", "no_sync", "2", "3", "no-op", "once")])

    def test_nothing_is_told_where_nothing_changed(self):
        releases = [release(str(i), cell("no_sync", 1)) for i in range(10)]
        self.assertEqual(list(board.changes(releases, "it")), [])
        self.assertIn("10 releases: 0, 1,", board.text(releases))
        self.assertIn("Nothing changed.", board.text(releases))

    def test_one_release_is_compared_with_none(self):
        said = board.text([release("1", cell("no_sync", 1))])
        self.assertIn("1 release: 1 (", said)
        self.assertNotIn("Nothing changed.", said)

    def test_a_failed_job_is_no_change(self):
        cells = [cell("no_sync", 2), failing("killed"), cell("no_sync", 2), cell("no_sync", 1)]
        releases = [release(str(i), each) for i, each in enumerate(cells)]
        changes = list(board.changes(releases, "it"))
        self.assertEqual(changes, [("ddp", "no_sync", "2", "3", "no-op", "once")])

    def test_what_was_raised_is_told_with_its_releases(self):
        no = refusing("AssertionError: no")
        releases = [
            release("1", refusing("AttributeError: no attribute 'no_sync'")),
            *(release(name, no) for name in "23"),
            release("4", cell("no_sync", 1)),
            release("5", no),
            release("6", not_installed_because="no such file"),
        ]
        lines = [
            "- 6 was not installed: `no such file`",
            "- 2 to 3: ddp, no_sync by hand: `AssertionError: no`",
            "- 5: ddp, no_sync by hand: `AssertionError: no`",
        ]
        self.assertEqual(list(board.reasons(releases)), lines)
        self.assertIn("\n".join(["What was raised:", "", *lines]), board.text(releases))
        self.assertIn("5 releases: 1, 2, 3, 4, 5 (", board.text(releases))

    def test_a_release_that_is_seen_otherwise_now_is_a_difference(self):
        before = {"releases": [release("1", cell("no_sync", 1))]}
        now = {"releases": [release("1", cell("no_sync", 2)), release("2", cell("no_sync", 2))]}
        self.assertEqual(board.differences(before, now), ["it 1 ddp no_sync: was once, is no-op"])
        self.assertEqual(board.differences(before, before), [])


class PublishedTest(unittest.TestCase):
    def setUp(self):
        self.releases = make.in_order(stored.read(make.SEEN))

    def cells_that_ran(self):
        cells = [cell for release in self.releases for cell in release["cells"]]
        return [c for c in cells if not board.refusal(c) and not c["failure"]]

    def changes(self, library):
        found = board.changes(self.releases, library)
        return {(wrapper, policy, last, first) for wrapper, policy, last, first, *_ in found}

    def test_accelerate_1_11_holds_gradients_back_under_fsdp2(self):
        """https://github.com/huggingface/accelerate/pull/3762; ten others change nothing."""
        of_accelerate = [each for each in self.releases if each["library"] == "accelerate"]
        self.assertGreaterEqual(len(of_accelerate) - 2, 10)
        wanted = {("fsdp2", policy, "1.10.1", "1.11.0") for policy in ("feature", "no_sync")}
        self.assertEqual(self.changes("accelerate"), wanted)

    def test_transformers_4_46_weighs_tokens(self):
        """It weighs the tokens of each rank; from 4.57 on those of all ranks."""
        told = [c for c in board.changes(self.releases, "transformers") if c[1] == "feature"]
        once = "once, tokens weigh alike"
        wanted = [
            ("4.45.2", "4.46.1", "once, micro-batches weigh alike", f"{once} on each rank"),
            ("4.53.3", "4.57.6", f"{once} on each rank", once),
        ]
        self.assertEqual([tuple(change[2:]) for change in told], wanted)

    def test_transformers_had_no_sync_each_batch_from_4_46_3_to_5_0(self):
        changes = list(board.changes(self.releases, "transformers"))
        told = [(c[2], c[3]) for c in changes if c[4].split(",")[0] != c[5].split(",")[0]]
        self.assertEqual(told, [("4.46.1", "4.46.3"), ("5.0.0", "5.8.1")])
        self.assertEqual({c[1] for c in changes if (c[2], c[3]) in told}, {"every"})

    def test_lightning_changes_nothing(self):
        self.assertEqual(self.changes("lightning"), set())

    def test_deepspeed_0_16_has_no_sync_and_refuses_it_under_zero_2_and_3(self):
        """https://github.com/deepspeedai/DeepSpeed/issues/6793"""
        wanted = {
            ("zero0", "no_sync", "0.15.4", "0.16.0", "has none", "once"),
            ("zero1", "no_sync", "0.15.4", "0.16.0", "has none", "once"),
            ("zero2", "no_sync", "0.15.4", "0.16.0", "has none", "refuses (AssertionError)"),
            ("zero3", "no_sync", "0.15.4", "0.16.0", "has none", "refuses (AssertionError)"),
        }
        changes = set(board.changes(self.releases, "deepspeed"))
        self.assertEqual({change for change in changes if change[3] == "0.16.0"}, wanted)

    def test_deepspeed_0_17_6_keeps_the_last_micro_batch_alone_under_zero_2(self):
        """https://github.com/deepspeedai/DeepSpeed/issues/7718"""
        right = "each, as ZeRO 2 must"
        wanted = {
            ("zero2", policy, "0.16.9", "0.17.6", right, f"{right}, drops micro-batch 1 2 3")
            for policy in ("feature", "boundary")
        }
        changes = set(board.changes(self.releases, "deepspeed"))
        self.assertEqual({change for change in changes if change[3] == "0.17.6"}, wanted)

    def test_no_other_release_of_deepspeed_changes_anything_but_0_18_9_which_raises(self):
        changes = board.changes(self.releases, "deepspeed")
        others = [change for change in changes if change[3] not in ("0.16.0", "0.17.6")]
        raises = "refuses (RuntimeError)"
        self.assertTrue(all(raises in (c[4], c[5]) and "0.18.9" in (c[2], c[3]) for c in others))

    def test_zero_2_and_3_alone_reduce_in_every_micro_batch(self):
        of_deepspeed = [c for c in self.cells_that_ran() if c["wrapper"].startswith("zero")]
        self.assertGreaterEqual(len(of_deepspeed), 8)
        for cell in of_deepspeed:
            wanted = 4 if cell["wrapper"] in board.GRADIENTS_SHARDED else 1
            self.assertEqual(board.synchronizations(cell), wanted, cell)

    def test_what_trainers_do(self):
        found = {}
        for release in trainers.newest(self.releases):
            for cell in release["cells"]:
                if cell["policy"] == "feature" and cell["wrapper"] not in board.GRADIENTS_SHARDED:
                    found.setdefault(board.word(cell), set()).add(release["library"])
        others = {"once", "once, tokens weigh alike"}
        each = {"fastai", "monai", "pytorch-ignite"}
        self.assertEqual(each, found["no-op"])
        self.assertEqual(found["no-op, all weigh 8"], {"ultralytics"})
        self.assertEqual(found["never, drops other ranks"], {"coqui-tts-trainer"})
        self.assertEqual(found["once, drops micro-batch 1 2 3"], {"skorch"})
        self.assertGreaterEqual(len(set().union(*(found[word] for word in others))), 10)

    def test_the_profiler_and_watch_count_the_same_bytes(self):
        counted = [c for c in self.cells_that_ran() if "reduced_bytes" in c["ranks"][0]]
        self.assertGreaterEqual(len(counted), 12)
        for cell in counted:
            apart = cell["ranks"][0]["reduced_bytes"] - board.bytes_watched(cell)
            self.assertLess(abs(apart), 0.05 * cell["ranks"][0]["gradient_bytes"], cell)

    def test_deepspeed_and_megatron_are_judged(self):
        for release in trainers.newest(self.releases):
            if release["library"] in ("deepspeed", "megatron-core"):
                for cell in release["cells"]:
                    if not board.refusal(cell):
                        kinds = ("once_per_step", "every_micro_batch")
                        self.assertIn(cell["watched"]["kind"], kinds, cell)

    def test_a_job_that_synchronizes_once_is_never_accused(self):
        for cell in self.cells_that_ran():
            if board.word(cell).startswith(board.ONCE):
                self.assertFalse(cell["watched"]["fails"], cell)

    def test_what_watch_counts_is_what_the_bytes_say(self):
        """Where it recognised what ran, as it does not in what was stored of older releases."""
        for cell in self.cells_that_ran():
            if cell["watched"]["kind"] != "not_recognised":
                counted = cell["watched"]["per_step"]["synchronized"]
                self.assertEqual(counted, board.synchronizations(cell), cell)


if __name__ == "__main__":
    unittest.main(verbosity=2)
