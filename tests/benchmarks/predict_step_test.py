"""`gradsync predict step` of a model on other links.

Covers: predict_step_command.cpp, predict_elsewhere.cpp, step_models.cpp,
predict_links_command.cpp, cell_columns.cpp.
"""

import json
import resource
import unittest
from pathlib import Path

from program import ProgramTest
from published_runs import published

ROOT = Path(__file__).resolve().parents[2]

LAYERS = 3
MOST_S = 1  # of a processor, for a row of 8,192 ranks


def profile():
    """Layers of a second forward and two back, each with a tensor of 40 MB: a bucket."""
    return {
        "schema": "gradsync.profile/1",
        "name": "three",
        "about": "three layers",
        "source": "predict_step_test.py",
        "dtype": "float32",
        "layers": [
            {
                "name": f"layer{i}",
                "forward_s": 1,
                "backward_s": 2,
                "parameters": [{"name": f"layer{i}.weight", "shape": [10_000_000]}],
            }
            for i in range(LAYERS)
        ],
        "optimizer_s": 0.5,
        "buffers": [],
    }


# A bucket of 40 MB takes 4 s between two ranks, and the payload of the line is what it is.
LINE = {"rate": "80Mbps"}
BUCKET_S = 40e6 * 8 / 80e6 * 1514 / 1448


class StepCase(ProgramTest):
    def setUp(self):
        super().setUp()
        self.profile = self.written("three.json", profile())
        self.two = self.topology("two", nodes=2, inter_node=LINE, intra_node=None)

    def written(self, name, content):
        file = self.place / name
        file.write_text(json.dumps(content))
        return str(file)

    def topology(self, name, **fields):
        content = {"schema": "gradsync.topology/1", "ranks_per_node": 1, **fields}
        return self.written(f"{name}.json", content)

    def predicted(self, *arguments):
        outcome = self.call("predict", "step", *arguments, "--json")
        self.assertEqual(outcome.status, 0, outcome.err)
        return json.loads(outcome.out)


class StepTest(StepCase):
    def test_lists_make_rows(self):
        rows = self.predicted(
            *(self.profile, "--topology", self.two),
            *("--strategy", "baseline,no_sync", "--accumulation-steps", "1,2"),
        )
        # Sent from 5 s on, one after the other; what does not synchronize takes 9 s.
        synchronized_s = 5 + LAYERS * BUCKET_S
        expected = {
            ("baseline", 1): synchronized_s + 0.5,
            ("no_sync", 1): synchronized_s + 0.5,
            ("baseline", 2): 2 * synchronized_s + 0.5,
            ("no_sync", 2): 9 + synchronized_s + 0.5,
        }
        seen = {(r["cell"]["strategy"], r["cell"]["accumulation_steps"]): r for r in rows}
        self.assertEqual(set(seen), set(expected))
        for key, step_s in expected.items():
            row = seen[key]
            self.assertAlmostEqual(row["step_s"], step_s, 6)
            self.assertAlmostEqual(row["step_s"], row["compute_s"] + row["exposed_s"], 6)
            self.assertAlmostEqual(row["step_s"], sum(row["critical_path"].values()), 6)
            low, high = row["interval90_s"]
            self.assertLess(low, step_s)
            self.assertLess(step_s, high)
            self.assertEqual(row["world_size"], 2)

    def test_other_numbers_of_nodes(self):
        rows = self.predicted(
            *(self.profile, "--topology", self.two, "--nodes", "1,2,8192"),
            *("--accumulation-steps", "1"),
        )
        self.assertEqual([row["world_size"] for row in rows], [1, 2, 8192])
        alone, pair, many = (row["step_s"] for row in rows)
        self.assertAlmostEqual(alone, 9.5, 6)
        self.assertAlmostEqual(many, 5.5 + LAYERS * BUCKET_S * 2 * 8191 / 8192, 5)
        self.assertLess(pair, many)

    def test_8192_ranks_take_no_time(self):
        wide = self.topology(
            "wide", nodes=2, ranks_per_node=8, inter_node={"rate": "400Gbps"}, intra_node=LINE
        )
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        self.predicted(self.profile, "--topology", wide, "--nodes", "1024")
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        self.assertLess(after.ru_utime - before.ru_utime, MOST_S)

    def test_links_say_what_a_topology_does_not(self):
        links = {"schema": "gradsync.links/1", "source": "counted by hand", "payload_share": 1}
        certain = {"compute": 0, "rate": 0, "host": 0}
        file = self.written("links.json", {**links, "collective_s": 1, "doubt": certain})
        (row,) = self.predicted(
            *(self.profile, "--topology", self.two, "--links", file),
            *("--accumulation-steps", "1"),
        )
        self.assertAlmostEqual(row["step_s"], 5 + LAYERS * (4 + 1) + 0.5, 6)
        self.assertEqual(row["interval90_s"], [row["step_s"]] * 2)

    def test_the_table_says_what_limits_and_on_what_it_stands(self):
        outcome = self.call("predict", "step", self.profile, "--topology", self.two)
        self.assertEqual(outcome.status, 0, outcome.err)
        words = " ".join(outcome.out.split())
        for text in (
            "| 90 % interval |",
            "link between nodes",
            "bucket 1 to bucket 3",
            "these are assumed; --links takes measured ones",
            "links of twice the rate: -",
        ):
            self.assertIn(text, words)

    def test_every_cell_of_a_plan(self):
        rows = self.predicted("--plan", "slowdown_table")
        reasons = {row["cell"]["model"]: row["unknown_because"] for row in rows}
        self.assertEqual(set(reasons), {"bert_mini", "paced_bert_base_t4"})
        self.assertEqual(reasons["paced_bert_base_t4"], "")
        self.assertIn("record_profile.py", reasons["bert_mini"])
        of = {(r["cell"]["topology"], r["cell"]["strategy"]): r["step_s"] for r in rows}
        self.assertEqual(of["t4_2x1", "baseline"], of["t4_2x1", "no_sync_improper"])
        self.assertEqual(of["t4_2x1", "no_sync"], of["t4_2x1", "accumulate"])
        self.assertLess(of["t4_2x1", "no_sync"], of["t4_2x1", "baseline"])

    def test_a_model_that_computes_takes_what_was_recorded_of_it(self):
        """Without units its parameters are the root's: gathered before forward, half of a share
        paused, reduced after backward by an all_reduce, and stepped by halves."""
        asked = ("mlp", "--profile", f"mlp={self.profile}", "--topology", self.two)
        ddp, fsdp = self.predicted(*asked, "--wrapper", "ddp,fsdp", "--strategy", "baseline")
        (paced,) = self.predicted(
            *(self.profile, "--topology", self.two, "--strategy", "baseline", "--wrapper", "ddp")
        )
        self.assertEqual(ddp["step_s"], paced["step_s"])
        self.assertEqual(ddp["cell"]["model"], "mlp")
        rounds = ddp["cell"]["accumulation_steps"]
        gathered_s = LAYERS * BUCKET_S / 2 * 1.5
        reduced_s = LAYERS * BUCKET_S
        expected = rounds * (gathered_s + LAYERS * 3 + reduced_s) + 0.5 / 2
        self.assertAlmostEqual(fsdp["step_s"], expected, 5)

    def test_a_run_has_what_was_measured_beside_it(self):
        """The twin that is published. Nothing of it went into the model, and nothing is set aside
        for what the engine does beside the wire: every step is predicted a little too short.
        """
        directory = published("slowdown_table")
        rows = self.predicted(directory)
        measured = [row["measured_step_s"] for row in rows]
        stored = json.loads((directory / "result.json").read_text())["cells"]
        self.assertEqual(len(rows), len(stored))
        for row, cell, step_s in zip(rows, stored, measured, strict=True):
            self.assertAlmostEqual(step_s, cell["step_s"]["mean"], 9)
            if cell["cell"]["model"] == "paced_bert_base_t4":
                error = row["step_s"] / step_s - 1
                self.assertLess(error, 0)
                self.assertGreater(error, -0.04)
        outcome = self.call("predict", "step", directory)
        self.assertIn("| measured |", " ".join(outcome.out.split()))

    def test_what_a_plan_has_and_nobody_set_has_a_reason(self):
        cells = {"topology": [self.two], "model": [self.profile], "strategy": ["baseline"]}
        plan = {"schema": "gradsync.plan/1", "name": "static", "cells": cells}
        cells["static_graph"] = [False, True]
        rows = self.predicted("--plan", self.written("static.json", plan))
        self.assertEqual([row["step_s"] is None for row in rows], [False, True])
        self.assertIn("static_graph true", rows[1]["unknown_because"])

    def test_refusals(self):
        run = str(published("slowdown_table"))
        without = profile()
        without["layers"][0]["forward_s"] = -1
        for arguments, words in (
            ((), ["expected a FILE, --plan or --trace"]),
            (("bert_mini", "--topology", "t4_2x1"), ["bert_mini", "record_profile.py"]),
            ((self.profile, "--topology", "1x2"), ["topology 1x2 has no rate of the link inside"]),
            ((self.profile, "--topology", "nowhere"), ["topology 'nowhere'"]),
            ((self.profile, "--topology", self.two, "--strategy", "never"), ["strategy", "never"]),
            ((self.profile, "--topology", self.two, "--links", self.two), ["schema"]),
            ((self.written("bad.json", without),), ["layers[0].forward_s"]),
            (("--plan", "nothing"), ["nothing"]),
            *(
                (
                    (model, "--topology", "t4_2x1", "--strategy", "baseline", "--set", set_),
                    [f"a step's time is not predicted with {set_.split('=')[0]} true"],
                )
                for model in ("paced_bert_base_t4", self.profile)
                for set_ in ("find_unused_parameters=true", "static_graph=false,true")
            ),
            (
                (self.profile, "--topology", self.two, "--set", "micro_batch_size=1"),
                ["micro_batch_size 1: the micro-batch is the one that was recorded"],
            ),
            (("mlp", "--profile", "mlp"), ["--profile", "expected MODEL=FILE"]),
            (("mlp", "--profile", f"no_model={self.profile}"), ["no_model"]),
            (
                (self.profile, "--topology", self.two, "--profile", f"mlp={self.profile}"),
                ["--profile", "expected a cell's model"],
            ),
            ((run, "--strategy", "no_sync"), ["its cells are what it ran"]),
            ((run, "--accumulation-steps", "2"), ["its cells are what it ran"]),
        ):
            self.assert_refused(self.call("predict", "step", *arguments), *words)


class BesideTest(StepCase):
    """gradsync run --predict: real trials of a paced model, two ranks on a node with a link."""

    def setUp(self):
        super().setUp()
        quick = profile()
        for layer in quick["layers"]:
            layer["forward_s"], layer["backward_s"] = 0.001, 0.002
            layer["parameters"][0]["shape"] = [10_000]
        cells = {
            "topology": [self.topology("quick", nodes=1, ranks_per_node=2, intra_node=LINE)],
            "model": [self.written("quick_profile.json", quick)],
            "strategy": ["baseline"],
            "accumulation_steps": [1, 2],
        }
        plan = {"schema": "gradsync.plan/1", "name": "beside", "cells": cells, "steps": 2}
        self.plan = self.written("beside.json", plan)

    def test_a_run_prints_what_was_predicted_of_it(self):
        run = self.place / "run"
        outcome = self.call("run", self.plan, "--predict", "--out", run)
        self.assertEqual(outcome.status, 0, outcome.err)
        beside = outcome.out.split("Predicted, and measured beside it:")[1]
        cells = json.loads((run / "result.json").read_text())["cells"]
        self.assertEqual(len(cells), 2)
        for cell in cells:
            measured = f"{cell['step_s']['mean']:.3f}"
            self.assertRegex(beside, rf"\| ddp .*\| baseline .* {measured} \| +[+-]\d+\.\d %")

    def test_what_cannot_be_printed_beside_is_refused_before_anything_runs(self):
        for options, words in (
            (("--links", self.two), "--links: got it alone, expected it with --predict"),
            (("--predict", "--json"), "predict step DIR --json prints both"),
            (("--predict", "--links", self.two), "schema"),
        ):
            run = self.place / "run"
            self.assert_refused(self.call("run", self.plan, *options, "--out", run), words)
            self.assertFalse(run.exists())


def nccl_tests(hosts, ranks_per_host, operation, seconds_of):
    """What a program of nccl-tests prints, its columns out of place and in place alike."""
    ranks = hosts * ranks_per_host
    factor = (2 if operation == "all_reduce" else 1) * (ranks - 1) / ranks
    lines = [f"# Collective test starting: {operation}_perf", "#", "# Using devices"]
    for rank in range(ranks):
        place = f"host-{rank // ranks_per_host} device {rank % ranks_per_host}"
        lines.append(f"#  Rank {rank:2} Group  0 Pid {1000 + rank} on {place} [0x10] NVIDIA H100")
    columns = "time algbw busbw #wrong"
    lines.append(f"#       size  count  type  redop  root  {columns} {columns}")
    for size in (1 << 16, 1 << 20, 1 << 26, 1 << 28):
        seconds = seconds_of(size)
        algbw = size / seconds * 1e-9
        times = f"{seconds * 1e6:.2f} {algbw:.2f} {algbw * factor:.2f} 0"
        lines.append(f"{size} {size // 4} float sum -1 {times} {times}")
    return "\n".join(lines) + "\n"


class LinksTest(StepCase):
    """A cluster of 2 x 4 ranks, whose nodes' links carry 10 GB/s, 20 us late."""

    RATE, LATENCY_S, HOST_S = 10e9, 20e-6, 50e-6

    def all_reduce_s(self, size):
        return self.HOST_S + 2 * 7 * self.LATENCY_S + 2 * 7 / 8 * size / self.RATE

    def all_gather_s(self, size):
        return self.HOST_S + 7 * self.LATENCY_S + 7 / 8 * size / self.RATE

    def timed(self, operation, seconds_of):
        file = self.place / f"{operation}.txt"
        file.write_text(nccl_tests(2, 4, operation, seconds_of))
        return str(file)

    def both(self):
        return (
            self.timed("all_reduce", self.all_reduce_s),
            self.timed("all_gather", self.all_gather_s),
        )

    def test_a_cluster_by_one_command(self):
        links, cluster = self.place / "links.json", self.place / "cluster.json"
        outcome = self.call(
            *("predict", "links", *self.both()),
            *("--out", links, "--topology-out", cluster),
        )
        self.assertEqual(outcome.status, 0, outcome.err)
        self.assertRegex(outcome.out, r"\| a node's link +\| 80\.00 Gbit/s of payload +\|")
        self.assertRegex(outcome.out, r"\| latency of a message +\| 20\.0 us +\|")
        self.assertRegex(outcome.out, r"\| 2 x 4 +\| all_gather +\| +4 \| +0\.0 % \|")
        found = json.loads(links.read_text())
        self.assertAlmostEqual(found["collective_s"], self.HOST_S, delta=1e-6)
        layout = json.loads(cluster.read_text())
        self.assertEqual((layout["nodes"], layout["ranks_per_node"]), (2, 4))
        (row,) = self.predicted(
            *(self.profile, "--topology", cluster, "--links", links),
            *("--accumulation-steps", "1"),
        )
        of_bucket_s = self.all_reduce_s(40_000_000)
        self.assertEqual(row["world_size"], 8)
        # The last bucket alone is waited for, and the optimizer's half a second.
        self.assertAlmostEqual(row["step_s"], 9 + of_bucket_s + 0.5, delta=1e-3 * of_bucket_s)

    def test_json_is_what_links_takes(self):
        outcome = self.call("predict", "links", self.both()[0], "--json")
        self.assertEqual(outcome.status, 0, outcome.err)
        found = json.loads(outcome.out)
        self.assertEqual(found["schema"], "gradsync.links/1")
        self.assertEqual(found["latency_s"], 0)  # of one collective, it is in the other
        self.assertAlmostEqual(found["collective_s"], self.HOST_S + 14 * self.LATENCY_S, delta=1e-6)

    def test_what_holds_no_times_is_one_sentence(self):
        wrong = self.written("wrong.json", {"hello": 1})
        self.assert_refused(self.call("predict", "links", wrong), "expected the output of")
        self.assert_refused(
            self.call("predict", "links", *self.both(), "--operation", "all_to_all"),
            '--operation: got "all_to_all", expected all_reduce, reduce_scatter',
        )


if __name__ == "__main__":
    unittest.main(verbosity=2)
