"""benchmarks/peers: the same training in Python beside gradsync, and what is said about the two.

Covers: collectives.py, compare.py, fitness.py, launch.py, launches.py, network.py, options.py,
peers/rank.py, recording.py, peers/strategies.py, summary.py, wrappers.py.
"""

import importlib.util
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from program import PROGRAM, ROOT, ProgramTest, needs_network_namespaces

PEERS = ROOT / "benchmarks" / "peers"
sys.path.insert(0, str(PEERS))

import compare  # noqa: E402
import launches  # noqa: E402
import network  # noqa: E402
import options  # noqa: E402
import summary  # noqa: E402
from wrappers import WRAPPERS  # noqa: E402

# Small enough for a few seconds of training; most of the time goes into imports.
TINY = ("--model", "bert_tiny", "--micro-batch-size", "2", "--sequence-length", "8")
SHORT = ("--steps", "2", "--warmup-steps", "1", "--rounds", "1", "--launches", "1")
# One rank may be ready, and wait, long before a busy machine has imported torch for the other.
PATIENT = ("--timeout-s", "600")
# What models/record_profile.py takes: bert_tiny as transformers has it.
TINY_BERT = """
import torch
from transformers import BertConfig, BertForSequenceClassification

def build():
    config = BertConfig(vocab_size=28996, num_hidden_layers=2, hidden_size=128,
                        num_attention_heads=2, intermediate_size=512, num_labels=2)
    batch = {"input_ids": torch.ones(2, 8, dtype=torch.long),
             "labels": torch.zeros(2, dtype=torch.long)}
    return BertForSequenceClassification(config), batch, lambda model, batch: model(**batch).loss
"""


def are_there(*modules):
    """Whether harness/setup --oracles has brought them: to import them would take seconds."""
    return all(map(importlib.util.find_spec, modules))


def runs(script, pid):
    """Whether the process runs this script; one that has just ended runs none."""
    try:
        return str(script).encode() in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


def block(strategy, *step_s):
    """A block of two ranks, the second a little faster."""
    ranks = [list(step_s), [0.9 * step for step in step_s]]
    return {"strategy": strategy, "round": 0, "step_s": ranks[0], "rank_step_s": ranks}


class Summary(unittest.TestCase):
    OURS = (
        [block("baseline", 2.0, 4.0), block("baseline", 3.0, 3.0), block("no_sync", 1.0)],
        [block("baseline", 3.6), block("no_sync", 1.2)],
        [block("baseline", 3.0), block("no_sync", 1.0)],
    )
    PEER = (
        [block("baseline", 6.0), block("no_sync", 1.0)],
        [block("baseline", 7.2), block("no_sync", 1.8)],
        [block("baseline", 6.0), block("no_sync", 1.0)],
    )

    def test_ratios_by_hand(self):
        baseline, no_sync = summary.compare(self.OURS, self.PEER, ("baseline", "no_sync"))
        self.assertAlmostEqual(baseline.ours_s, 3.2)
        self.assertAlmostEqual(baseline.peer_s, 6.4)
        self.assertAlmostEqual(baseline.step_ratio.value, 0.5)
        self.assertAlmostEqual(baseline.ours_slowdown.value, 3.0)
        self.assertAlmostEqual(baseline.peer_slowdown.value, 19.2 / 3.8)
        self.assertAlmostEqual(baseline.slowdown_ratio.value, (0.5 * 0.75 * 0.5) ** (1 / 3))
        self.assertAlmostEqual(no_sync.step_ratio.value, 3.2 / 3.8)
        self.assertIsNone(no_sync.slowdown_ratio)

    def test_a_step_is_elapsed_time(self):
        """Ranks take turns in being slow: the slowest of each step make more than passed."""
        turns = block("baseline") | {"rank_step_s": [[1.0, 0.2], [0.2, 0.9]], "step_s": [1.0, 0.9]}
        self.assertAlmostEqual(summary.mean_step_s([turns], "baseline"), 0.6)

    def test_equal_launches_leave_no_doubt_and_others_do(self):
        baseline, _ = summary.compare(self.OURS, self.PEER, ("baseline", "no_sync"))
        self.assertAlmostEqual(baseline.step_ratio.low, 0.5)
        self.assertAlmostEqual(baseline.step_ratio.high, 0.5)
        ours, theirs = (1.0, 1.0, 1.02, 1.05), (2.0, 2.1, 2.0, 2.05)
        ratio = summary.ratio_of_pairs(ours, theirs)
        at_low = summary.difference_of_pairs(ours, [ratio.low * b for b in theirs])
        at_high = summary.difference_of_pairs(ours, [ratio.high * b for b in theirs])
        self.assertAlmostEqual(at_low.low, 0)
        self.assertAlmostEqual(at_high.high, 0)
        self.assertLess(ratio.low, ratio.value)

    def test_fewer_than_three_launches_have_no_interval(self):
        for count in (1, 2):
            (row,) = summary.compare(self.OURS[:count], self.PEER[:count], ("baseline",))
            self.assertEqual(str(row.step_ratio), "0.500")
            self.assertIsNone(row.ours_slowdown, "no_sync was not run")

    def test_a_denominator_that_may_be_nothing_has_no_interval(self):
        self.assertIsNone(summary.ratio_of_pairs((1, 1, 1), (1, 30, 2)).low)

    def test_the_table_has_a_row_per_strategy(self):
        rows = summary.compare(self.OURS, self.PEER, ("baseline", "no_sync"))
        lines = summary.table(rows, "torch").splitlines()
        self.assertEqual(len(lines), 4)
        self.assertEqual(len({len(line) for line in lines}), 1)
        self.assertIn(" 0.500 [0.500, 0.500] |", lines[2])
        self.assertRegex(lines[3], r"^\| no_sync +\|.*\| +- \| +- \| +- \|$")


class SameWork(unittest.TestCase):
    def test_models_have_the_registrys_sizes(self):
        source = (ROOT / "models" / "suite.cpp").read_text()
        for name in ("bert_tiny", "bert_mini"):
            config = re.search(rf'"{name}",.*?(k\w+)\)', source).group(1)
            sizes = re.search(rf"BertConfig {config}{{([^}}]*)}}", source).group(1)
            numbers = tuple(int(number) for number in re.findall(r"= (\d+)", sizes))
            self.assertEqual(launches.BERT[name], numbers)

    def test_links_have_fabrics_shape(self):
        source = (ROOT / "harness" / "launch" / "link_shape.cpp").read_text()
        self.assertIn(f"kBurstSeconds = {network.BURST_S * 1e6:.0f}e-6;", source)
        self.assertIn(f'kQueue = "{network.QUEUE}";', source)
        self.assertEqual(network.shape_link(1e9), (62_500, 31_250))
        self.assertEqual(network.shape_link(2e8), (16_384, 8_192))
        fabric = (ROOT / "harness" / "launch" / "fabric.cpp").read_text()
        for path, value in network.SETTINGS.items():
            self.assertIn(f'"{path}", "{value}"', fabric)

    def test_topologies_are_read_and_others_refused(self):
        folder = ROOT / "benchmarks" / "topologies"
        self.assertEqual(
            network.read_topology(folder / "2x1_1gbit.json"), network.Topology(2, 1, 1e9)
        )
        self.assertEqual(network.read_topology(folder / "1x2.json"), network.Topology(1, 2, None))
        self.assertEqual(network.read_topology(folder / "2x2_200mbit.json").world_size, 4)
        with self.assertRaisesRegex(network.TopologyError, "whose ranks have no shaped link"):
            network.read_topology(folder / "t4_1x2.json")
        with self.assertRaisesRegex(network.TopologyError, "cannot be read: No such file"):
            network.read_topology(folder / "none.json")

    @staticmethod
    def counted(operation, count, size):
        return [{"collectives": {"baseline": {operation: {"count": count, "bytes": size}}}}]

    def test_another_count_or_size_of_all_reduces_is_an_error(self):
        ours = self.counted("all_reduce", 8, 64)
        compare.refuse_other_counts(ours, ours, "torch", WRAPPERS["ddp"])
        for field, counts in {"count": (7, 64), "bytes": (8, 7)}.items():
            theirs = self.counted("all_reduce", *counts)
            with self.assertRaisesRegex(
                launches.LaunchError, f"all_reduce {field} per step: got 7, expected"
            ):
                compare.refuse_other_counts(ours, theirs, "torch", WRAPPERS["ddp"])

    def test_under_fsdp_gathers_and_reductions_must_agree_but_for_padding(self):
        for operation in ("all_gather", "reduce_scatter"):
            ours = self.counted(operation, 20, 10_000)
            padded = self.counted(operation, 20, 10_100)
            compare.refuse_other_counts(ours, padded, "torch", WRAPPERS["fsdp"])
            for field, theirs in {
                "bytes per step: got 10101": self.counted(operation, 20, 10_101),
                "count per step: got 19": self.counted(operation, 19, 10_000),
                "count per step: got 0": [{"collectives": {"baseline": {}}}],
            }.items():
                with self.assertRaisesRegex(launches.LaunchError, f"{operation} {field}"):
                    compare.refuse_other_counts(ours, theirs, "torch", WRAPPERS["fsdp"])

    def test_a_launch_that_fails_says_why(self):
        work = options.work_of(compare.parse(["--topology", "1x2"]))
        with self.assertRaisesRegex(launches.LaunchError, "sh ended with status 3: no luck"):
            launches._call(["sh", "-c", "echo no luck >&2; exit 3"], work, dict(os.environ))


@unittest.skipUnless(
    are_there("torch", "transformers", "accelerate"),
    "torch, transformers or accelerate are missing",
)
@needs_network_namespaces
class Comparison(ProgramTest):
    def compare(self, *options):
        """Starts compare.py on the smallest work."""
        command = (sys.executable, str(PEERS / "compare.py"), "--program", PROGRAM, *TINY, *SHORT)
        return self.start(*PATIENT, *options, command=command)

    def assert_compared(self, *options, peers, wrapper="ddp", expected):
        """`expected`: {operation: counts, in the order of the wrapper's strategies}"""
        file, strategies = self.place / "peers.json", WRAPPERS[wrapper].strategies
        options = (*options, "--wrapper", wrapper, "--json", file)
        for peer in peers:
            options += ("--peer", peer)
        outcome = self.finish(self.compare(*options))
        self.assertEqual(outcome.status, 0, outcome.err)
        for strategy in strategies:
            self.assertRegex(outcome.out, rf"\| {strategy} +\| +\d+\.\d{{4}} \| +\d+\.\d{{4}} \|")
        results = json.loads(file.read_text())["launches"]
        self.assertEqual(list(results), ["ours", *peers])
        for side in results:
            (launch,) = results[side]
            self.assertEqual(sorted(b["strategy"] for b in launch["blocks"]), sorted(strategies))
            for made in launch["blocks"]:
                self.assertEqual(len(made["step_s"]), 2)
                steps = zip(*made["rank_step_s"], strict=True)
                self.assertEqual(made["step_s"], [max(step) for step in steps])
            for operation, counts in expected.items():
                counted = [launch["collectives"][s][operation]["count"] for s in strategies]
                self.assertEqual(counted, counts, f"{side} {operation}")
        return {side: launch["blocks"] for side, (launch,) in results.items()}


class Launches(Comparison):
    def test_torch_over_a_shaped_link(self):
        self.assert_compared(
            "--topology", "2x1_1gbit", peers=["torch"], expected={"all_reduce": [8, 8, 2, 2]}
        )

    def test_nothing_is_left_after_it_was_killed(self):
        process = self.compare("--topology", "2x1_1gbit", "--peer", "torch")
        self.wait_until(self.peer_ranks, what="a rank of the peer")
        process.send_signal(signal.SIGKILL)
        self.finish(process)

    def peer_ranks(self):
        return [pid for pid in self.marked_processes() if runs(PEERS / "rank.py", pid)]


# More minutes of the same: ctest's peers_slow_test.
class SlowLaunches(Comparison):
    def test_accelerate_on_one_node(self):
        expected = {"all_reduce": [8, 8, 2, 2]}
        self.assert_compared("--topology", "1x2", peers=["accelerate"], expected=expected)

    def test_fully_shard_and_no_prefetch(self):
        """Two layers, each gathered twice a micro-batch, and a root, gathered once."""
        blocks = self.assert_compared(
            "--topology",
            "1x2",
            peers=["torch", "no_prefetch"],
            wrapper="fsdp",
            expected={"all_gather": [20] * 5, "reduce_scatter": [12, 3, 3, 3, 12]},
        )
        for side, prefetch in {"ours": True, "no_prefetch": False}.items():
            self.assertEqual({block["cell"]["prefetch"] for block in blocks[side]}, {prefetch})

    def test_fully_shard_that_keeps_parameters(self):
        """Two layers and a root, each gathered once a micro-batch."""
        self.assert_compared(
            "--topology",
            "1x2",
            "--no-reshard-after-forward",
            peers=["torch"],
            wrapper="fsdp",
            expected={"all_gather": [12] * 5, "reduce_scatter": [12, 3, 3, 3, 12]},
        )

    def test_a_recorded_profile_in_the_models_place(self):
        recorder, profile = ROOT / "models" / "record_profile.py", self.place / "tiny.json"
        (self.place / "tiny.py").write_text(TINY_BERT)
        build = f"{self.place / 'tiny.py'}:build"
        record = (sys.executable, str(recorder), build, "--steps", "1", "--out", profile)
        recorded = self.finish(self.start(command=record))
        if recorded.status == 4:  # too busy a machine for a profile
            self.skipTest(recorded.err)
        self.assertEqual(recorded.status, 0, recorded.err)
        blocks = self.assert_compared(
            *("--topology", "2x1_1gbit", "--profile", profile),
            peers=["replay"],
            expected={"all_reduce": [8, 8, 2, 2]},
        )
        models = {side: {block["cell"]["model"] for block in blocks[side]} for side in blocks}
        self.assertEqual(models, {"ours": {"bert_tiny"}, "replay": {str(profile)}})


class CommandLine(unittest.TestCase):
    def assert_refused(self, arguments, sentence):
        with self.subTest(arguments=arguments):
            done = subprocess.run(
                [sys.executable, PEERS / "compare.py", *arguments], capture_output=True, text=True
            )
            self.assertEqual((done.returncode, done.stdout), (2, ""))
            self.assertIn(sentence, done.stderr.splitlines()[-1])

    def test_what_cannot_be_compared_is_one_sentence(self):
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "wrong.json").write_text("{}")
            for arguments, sentence in {
                ("--topology", "t4_1x2"): "whose ranks have no shaped link",
                ("--topology", "nowhere"): "cannot be read: No such file",
                ("--topology", f"{folder}/wrong.json"): "no topology: KeyError('nodes')",
                ("--launches", "32"): "got '32', expected 1 to 31",
                ("--warmup-steps", "0"): "got '0', expected 1 to",
                ("--strategy", "sync_each_batch"): "ddp: got 'sync_each_batch', expected baseline",
                ("--wrapper", "fsdp", "--peer", "accelerate"): "expected torch, no_prefetch",
                ("--peer", "replay"): "expected --peer replay and --profile together",
            }.items():
                self.assert_refused(arguments, sentence)


if __name__ == "__main__":
    unittest.main()
