"""What is published of releases, and how it is told: releases_test.py. No release is run."""

import json
import sys
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "results" / "releases"))
import board  # noqa: E402
import make  # noqa: E402

GRADIENT_BYTES = 900


def cell(policy, times, weights=None, tokens=None, **more):
    """Of a job of two ranks and two micro-batches that reduces all gradients so often."""
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


def release(name, *cells):
    place = {"with": {"torch": "2.11.0"}, "python": "3.11.7", "date": "2026-11-25"}
    return {"library": "it", "release": name, "cells": list(cells)} | place


class WordTest(unittest.TestCase):
    def test_how_often_it_synchronizes_is_told_by_bytes(self):
        self.assertEqual(board.word(cell("no_sync", 1)), "once")
        self.assertEqual(board.word(cell("no_sync", 2)), "no-op")
        self.assertEqual(board.word(cell("every", 2)), "each")
        self.assertEqual(board.word(cell("every", 3)), "3 x")
        self.assertEqual(board.word(cell("every", 0)), "never")
        self.assertEqual(board.word(cell("every", 0.5)), "in part")

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
        failed = cell("every", 2) | {"ranks": [], "failure": "killed"}
        self.assertEqual(board.word(failed), "fails")


class ChangeTest(unittest.TestCase):
    def test_a_change_is_told_with_both_releases(self):
        off, on = cell("no_sync", 2), cell("no_sync", 1)
        releases = [release("1", off), release("2", off), release("3", on), release("4", on)]
        changes = list(board.changes(releases, "it"))
        self.assertEqual(changes, [("ddp", "no_sync", "2", "3", "no-op", "once")])

    def test_nothing_is_told_where_nothing_changed(self):
        releases = [release(str(i), cell("no_sync", 1)) for i in range(10)]
        self.assertEqual(list(board.changes(releases, "it")), [])
        self.assertIn("Nothing changed.", board.text(releases))

    def test_a_release_that_is_seen_otherwise_now_is_a_difference(self):
        before = {"releases": [release("1", cell("no_sync", 1))]}
        now = {"releases": [release("1", cell("no_sync", 2)), release("2", cell("no_sync", 2))]}
        self.assertEqual(board.differences(before, now), ["it 1 ddp no_sync: was once, is no-op\n"])
        self.assertEqual(board.differences(before, before), [])


class PublishedTest(unittest.TestCase):
    def setUp(self):
        self.seen = json.loads(make.SEEN.read_text())
        self.releases = make.in_order(self.seen)

    def changes(self, library):
        found = board.changes(self.releases, library)
        return {(wrapper, policy, last, first) for wrapper, policy, last, first, *_ in found}

    def test_the_page_is_what_is_stored(self):
        self.assertEqual(make.page(), (make.HERE / "README.md").read_text())

    def test_accelerate_1_11_holds_gradients_back_under_fsdp2(self):
        """https://github.com/huggingface/accelerate/pull/3762; ten others change nothing."""
        of_accelerate = [each for each in self.releases if each["library"] == "accelerate"]
        self.assertGreaterEqual(len(of_accelerate) - 2, 10)
        wanted = {("fsdp2", policy, "1.10.1", "1.11.0") for policy in ("feature", "no_sync")}
        self.assertEqual(self.changes("accelerate"), wanted)

    def test_transformers_4_46_weighs_tokens(self):
        wanted = {("trainer", policy, "4.45.2", "4.46.3") for policy in ("feature", "every")}
        self.assertEqual(self.changes("transformers"), wanted)

    def test_a_job_that_synchronizes_once_is_never_accused(self):
        for release in self.releases:
            for cell in release["cells"]:
                if board.word(cell).startswith(board.ONCE):
                    self.assertFalse(cell["watched"]["fails"], cell)

    def test_what_watch_counts_is_what_the_bytes_say(self):
        for release in self.releases:
            for cell in release["cells"]:
                step = cell["watched"]["per_step"]
                self.assertEqual(step["synchronized"], board.synchronizations(cell))


if __name__ == "__main__":
    unittest.main(verbosity=2)
