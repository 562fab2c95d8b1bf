"""`gradsync predict memory`, and the same numbers beside what was measured in a run.

Covers: predict_command.cpp, memory_rows.cpp.
"""

import json
import resource
import unittest

from program import QUICK, ProgramTest, needs_network_namespaces, with_cells

FSDP = with_cells(
    QUICK,
    model=["bert_tiny", "mlp"],
    wrapper=["ddp", "fsdp"],
    strategy=["baseline", "no_sync"],
    micro_batch_size=[2],
    sequence_length=[16],
)


SEGMENT = 2 << 20  # the smallest that torch's CUDA allocator takes
SAVED, WEIGHT = 1000, 64 * 64 * 4
MOST_S = 0.2  # of a processor


def recorded(blocks, saved=SAVED):
    """Returns a profile of so many blocks in a row, of which each saves so many bytes and has one
    weight.
    """
    counted = {"saved_bytes": saved, "output_bytes": 8}
    counted |= {"forward_high_bytes": saved, "backward_high_bytes": WEIGHT}
    modules = [{"name": "", "class": "Model", **counted}]
    modules += [{"name": f"blocks.{i}", "class": "Block", **counted} for i in range(blocks)]
    forward, first, later = [["in", 0]], [["in", 0]], [["in", 0]]
    for i in range(blocks):
        forward += [["in", i + 1], ["hold", saved, saved], ["out", i + 1]]
    for i in reversed(range(blocks)):
        begin = [["in", i + 1], ["hold", WEIGHT, WEIGHT], ["gradient", i, WEIGHT]]
        first += [*begin, ["hold", 0, -saved], ["out", i + 1]]
        later += [*begin, ["hold", 0, -saved - WEIGHT], ["out", i + 1]]
    return {
        "schema": "gradsync.profile/1",
        "name": "blocks",
        "about": "blocks in a row",
        "source": "predict_test.py",
        "dtype": "float32",
        "memory": {
            "recorded_on": "fake",
            "dtype": "float32",
            "batch_bytes": 0,
            "buffers_bytes": [],
            "parameters": [
                {"name": f"blocks.{i}.weight", "shape": [64, 64], "trains": True}
                for i in range(blocks)
            ],
            "modules": modules,
            "units": ["Block"],
            "forward": [*forward, ["out", 0]],
            "backward_first": first,
            "backward_later": later,
        },
    }


def with_changes(profile):
    """Follows the tensors of recorded(), whose passes have the same few changes in each block."""
    profile = json.loads(json.dumps(profile))  # lists that are one in it become several
    memory = profile["memory"]
    saved = memory["modules"][0]["saved_bytes"]
    lists = {"forward": [[saved]], "backward_first": [[WEIGHT], [-saved]]}
    lists["backward_later"] = [[WEIGHT], [-saved, -WEIGHT]]
    memory["changes"] = []
    for name, changes in lists.items():
        holds = [event for event in memory[name] if event[0] == "hold"]
        for number, hold in enumerate(holds):
            hold.append(len(memory["changes"]) + number % len(changes))
        memory["changes"] += changes
    memory["batch_tensors_bytes"] = []
    return profile


def with_layers(profile):
    """As recorded of a model that ran: a block's forward and backward take no time."""
    times = {"forward_s": 0, "backward_s": 0}
    layers = [{"name": "input", "parameters": [], **times}]
    for parameter in profile["memory"]["parameters"]:
        tensor = {"name": parameter["name"], "shape": parameter["shape"]}
        layers.append({"name": parameter["name"], "parameters": [tensor], **times})
    return profile | {"layers": layers, "optimizer_s": 0, "buffers": []}


class RecordedModelTest(ProgramTest):
    """A job in Python, of which a profile recorded the model."""

    def profile(self, blocks=10):
        file = self.place / "blocks.json"
        file.write_text(json.dumps(recorded(blocks)))
        return str(file)

    def predicted(self, *arguments):
        outcome = self.call("predict", "memory", *arguments, "--json")
        self.assertEqual(outcome.status, 0, outcome.err)
        return json.loads(outcome.out)

    def peaks(self, *arguments):
        return [row["predicted_peak_allocated_bytes"] for row in self.predicted(*arguments)]

    def test_alone_and_under_ddp(self):
        """Weights, moments and buckets, and the last block's gradient beside what all blocks
        saved.
        """
        alone = 10 * (3 * WEIGHT + 4) + 10 * SAVED + WEIGHT
        local = self.peaks(
            self.profile(), "--wrapper", "local", "--world-size", "1", "--accumulation-steps", "1"
        )
        more = 9 * (WEIGHT - SAVED)  # the first block's backward finds all gradients but its own
        self.assertEqual(local, [alone + more])
        of = [self.profile(), "--wrapper", "ddp", "--accumulation-steps"]
        ddp = self.peaks(*of, "1", "--strategy", "no_sync")
        self.assertEqual(ddp, [local[0] + 10 * WEIGHT + 12])  # and a number for the Reducer's mean

    def test_ranks_units_and_accumulation(self):
        of = [self.profile(), "--wrapper", "fsdp", "--strategy", "no_sync"]
        of += ["--accumulation-steps", "1,2,8"]
        two, four = (self.peaks(*of, "--world-size", ranks) for ranks in "24")
        self.assertLess(four[0], two[0])
        self.assertLess(two[0], two[1])
        self.assertEqual(two[1], two[2])
        whole = self.peaks(*of, "--world-size", "2", "--units", "blocks.0")
        self.assertGreater(whole[0], two[0])

    def test_a_budget_is_the_peak_and_not_a_byte_less(self):
        of = [self.profile(), "--wrapper", "fsdp", "--strategy", "no_sync"]
        one, two = self.peaks(*of, "--accumulation-steps", "1,2")
        for budget, fits, largest in ((two, True, 64), (two - 1, False, 1), (one - 1, False, 0)):
            (row,) = self.predicted(*of, "--accumulation-steps", "2", "--budget", f"{budget}B")
            self.assertEqual(row["fits"], fits)
            self.assertEqual(row["largest_accumulation_steps"], largest)

    def test_a_thousand_modules_take_no_time(self):
        of = [self.profile(1000), "--wrapper", "fsdp", "--budget", "1GiB"]
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        self.predicted(*of)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        self.assertLess(after.ru_utime - before.ru_utime, MOST_S)

    def test_gloo_copies_what_fully_shard_sends_and_nccl_does_not(self):
        """The peak of one block is its reduction."""
        of = [self.profile(1), "--wrapper", "fsdp", "--accumulation-steps", "1"]
        gloo, nccl = (self.peaks(*of, "--backend", backend)[0] for backend in ("gloo", "nccl"))
        self.assertEqual(gloo - nccl, WEIGHT)

    def test_replayed_it_holds_in_a_run_what_is_predicted(self):
        saved = 100_000
        profile = with_layers(recorded(4, saved))
        peaks = []
        for name in ("recorded", "without"):
            file = self.place / f"{name}.json"
            file.write_text(json.dumps(profile))
            plan = with_cells(
                QUICK,
                model=[str(file)],
                wrapper=["ddp", "fsdp"],
                strategy=["no_sync", "baseline"],
                accumulation_steps=[1, 2, 4],
            )
            outcome = self.run_plan(plan, out=name)
            self.assertEqual(outcome.status, 0, outcome.err)
            trials = self.trials(name)
            self.assertEqual(len(trials), 12)
            for trial in trials:
                self.assert_holds_what_is_predicted(trial)
            peaks.append([trial["ranks"][0]["peak_by_category"] for trial in trials])
            profile.pop("memory", None)
        for replayed, paced in zip(*peaks, strict=True):
            self.assertGreaterEqual(replayed["activation"], 4 * saved)
            self.assertLess(paced["activation"], saved)

    def test_what_the_profile_does_not_say_is_said(self):
        of = [self.profile(), "--wrapper", "fsdp", "--set", "param_dtype=bfloat16"]
        rows = self.predicted(*of)
        self.assertIn("the profile was recorded in float32", rows[0]["unknown_because"])
        (row,) = self.predicted(*of[:-2])
        self.assertGreater(row["predicted_peak_allocated_bytes"], 0)

    def test_an_older_profile_does_not_say_what_is_reserved(self):
        (row,) = self.predicted(self.profile(), "--wrapper", "ddp")
        self.assertIsNone(row["predicted_peak_reserved_bytes"])
        reason = row["null_reasons"]["predicted_peak_reserved_bytes"]
        self.assertIn("sums and no single allocations: record the model again", reason)
        outcome = self.call("predict", "memory", self.profile(), "--wrapper", "ddp")
        self.assertIn(f"reserved: not known, because {reason}", outcome.out)

    def test_what_is_reserved_are_segments(self):
        """The saved bytes of a block fill a segment, and its weight is far smaller than one."""
        followed = self.place / "followed.json"
        followed.write_text(json.dumps(with_changes(recorded(3, saved=30 << 20))))
        for wrapper in ("local", "ddp", "fsdp"):
            of = ("--wrapper", wrapper, "--world-size", "1" if wrapper == "local" else "2")
            (row,) = self.predicted(str(followed), *of, "--accumulation-steps", "2")
            small = 3 * SEGMENT if wrapper == "fsdp" else SEGMENT
            self.assertEqual(row["predicted_peak_reserved_bytes"], 3 * (30 << 20) + small)
            self.assertEqual(row["null_reasons"], {})
        self.assertIn("| reserved |", self.call("predict", "memory", str(followed)).out)

    def test_refusals(self):
        for arguments, words in (
            ([self.profile(), "--micro-batch-size", "2"], "the one that was recorded"),
            ([self.profile(), "--units", "Layer"], "Layer"),
            (
                [self.profile(), "--wrapper", "fsdp", "--set", "hybrid_shard=true"],
                "a recorded job's memory is not predicted with hybrid_shard true",
            ),
            (["bert_tiny", "--units", "Layer"], "expected a profile"),
            (["bert_tiny", "--backend", "nccl"], "--backend: got nccl, expected gloo"),
        ):
            outcome = self.call("predict", "memory", *arguments)
            self.assertEqual(outcome.status, 2, outcome.err)
            self.assertIn(words, outcome.err)

    def test_it_does_not_run(self):
        outcome = self.call("run", "smoke", "--model", self.profile(), "--dry-run")
        self.assertEqual(outcome.status, 2, outcome.err)
        self.assertIn("recorded without times", outcome.err)


class PredictTest(ProgramTest):
    def predicted(self, *arguments):
        outcome = self.call("predict", "memory", *arguments, "--json")
        self.assertEqual(outcome.status, 0, outcome.err)
        return json.loads(outcome.out)

    def skip_unless_declared(self):
        """Activations are declared as the kernels of one torch make them."""
        torch = self.result()["context"]["torch"]
        if not torch.startswith("2.11"):
            self.skipTest(f"declared for torch 2.11, this is {torch}")

    def test_every_row_of_a_run_has_both(self):
        self.assert_as_predicted(FSDP, rows=8)

    @needs_network_namespaces
    def test_hybrid_sharding_on_two_nodes(self):
        plan = with_cells(FSDP, topology=["2x2"], wrapper=["fsdp"], hybrid_shard=[True])
        self.assert_as_predicted(plan, rows=4)

    def test_one_rank_of_a_world(self):
        """Nothing is copied for the wire, where nothing is sent."""
        plan = with_cells(FSDP, topology=["3x2"], wrapper=["fsdp"], hybrid_shard=[True, False])
        self.assert_as_predicted(plan, "--backend", "fake", rows=8)

    def assert_as_predicted(self, plan, *arguments, rows):
        outcome = self.run_plan(plan, *arguments)
        self.assertEqual(outcome.status, 0, outcome.err)
        self.skip_unless_declared()
        cells = self.result()["cells"]
        self.assertEqual(len(cells), rows)
        for cell in cells:
            for name in ("peak_allocated_bytes", "peak_by_category"):
                self.assertEqual(cell[f"predicted_{name}"], cell[name], cell["cell"])

    def test_a_row_that_ran_out_of_memory_has_its_prediction(self):
        outcome = self.run_plan(with_cells(FSDP, model=["mlp"], memory_budget_bytes=["3MB"]))
        self.assertEqual(outcome.status, 4, outcome.err)
        for cell in self.result()["cells"]:
            self.assertEqual(cell["status"], "oom")
            self.assertGreater(cell["predicted_peak_allocated_bytes"], 3_000_000)

    def test_a_budget_is_the_predicted_peak_and_not_a_byte_less(self):
        of = ["--wrapper", "fsdp", "--strategy", "no_sync", "--micro-batch-size", "2"]
        of += ["--sequence-length", "16", "--accumulation-steps", "2"]
        (row,) = self.predicted("bert_tiny", *of)
        peak = row["predicted_peak_allocated_bytes"]
        plan = with_cells(FSDP, model=["bert_tiny"], wrapper=["fsdp"], strategy=["no_sync"])
        outcome = self.run_plan(with_cells(plan, memory_budget_bytes=[peak - 1, peak]))
        self.skip_unless_declared()
        self.assertEqual(outcome.status, 0, outcome.err)
        status = {t["cell"]["memory_budget_bytes"]: t["status"] for t in self.trials()}
        self.assertEqual(status, {peak - 1: "oom", peak: "ok"})
        for budget, fits in ((peak, True), (peak - 1, False)):
            (row,) = self.predicted("bert_tiny", *of, "--budget", f"{budget}B")
            self.assertEqual(row["fits"], fits)
        self.assert_reserved_as_predicted(row["predicted_peak_reserved_bytes"])

    def assert_reserved_as_predicted(self, predicted):
        """In the trial that ended; what came before its steps may leave a segment or two behind."""
        (ended,) = (trial for trial in self.trials() if trial["status"] == "ok")
        for rank in ended["ranks"]:
            self.assertGreater(rank["peak_reserved_estimate_bytes"], rank["peak_allocated_bytes"])
            self.assertEqual(predicted % SEGMENT, 0)
            gap = abs(predicted - rank["peak_reserved_estimate_bytes"])
            self.assertLessEqual(gap, 2 * SEGMENT)

    def test_how_far_a_budget_lets_accumulate(self):
        """The first kept gradient is what costs; more micro-batches add nothing."""
        of = ["mixtral_mini", "--wrapper", "fsdp", "--strategy", "no_sync", "--world-size", "4"]
        rows = self.predicted(*of, "--accumulation-steps", "1,2,3,16")
        peaks = [row["predicted_peak_allocated_bytes"] for row in rows]
        self.assertLess(peaks[0], peaks[1])
        self.assertEqual(peaks[1:], [peaks[1]] * 3)
        for budget, largest in ((peaks[0] - 1, 0), (peaks[1] - 1, 1), (peaks[1], 64)):
            (row,) = self.predicted(*of, "--budget", f"{budget}B")
            self.assertEqual(row["largest_accumulation_steps"], largest)

    def test_a_model_that_is_never_made(self):
        (row,) = self.predicted("mixtral_8x7b", "--wrapper", "fsdp", "--world-size", "8")
        self.assertEqual(
            sum(row["predicted_peak_by_category"].values()), row["predicted_peak_allocated_bytes"]
        )
        self.assertIn("micro-batch", row["place"])

    def test_checkpointing_lowers_the_peak_and_has_a_column_where_it_varies(self):
        of = ["bert_base", "--wrapper", "ddp,fsdp", "--set"]
        rows = self.predicted(*of, "activation_checkpointing=none,every_2,full")
        for several in (rows[:3], rows[3:]):
            peaks = [row["predicted_peak_allocated_bytes"] for row in several]
            self.assertEqual(sorted(peaks, reverse=True), peaks)
            self.assertEqual(len(set(peaks)), 3)
        for varying in ("none,full", "full"):
            outcome = self.call("predict", "memory", *of, f"activation_checkpointing={varying}")
            self.assertEqual("| activation_checkpointing |" in outcome.out, "," in varying)

    def test_the_table(self):
        outcome = self.call("predict", "memory", "bert_tiny", "--budget", "1GiB")
        self.assertEqual(outcome.status, 0, outcome.err)
        for words in ("peak bytes", "fits", "64 or more", "sharded_parameter", "micro-batch 2"):
            self.assertIn(words, outcome.out)

    def test_what_is_not_declared_is_said(self):
        outcome = self.call("predict", "memory", "convnet")
        self.assertEqual(outcome.status, 0, outcome.err)
        self.assertIn("not declared", outcome.out)
        self.assertIn("depends on the processor", outcome.out)

    def test_a_gpu_is_the_one_that_was_named(self):
        paper = ["bert_tiny", "--set", "device=paper"]
        (on_cpu,) = self.predicted("bert_tiny")
        self.assertNotIn("device", on_cpu)
        (on_h100,) = self.predicted(*paper)
        self.assertEqual(on_h100["device"], "paper")
        self.assertEqual(on_h100["predicted_peak_allocated_bytes"] % 512, 0)
        self.assertEqual(self.predicted(*paper, "--on", "2xh100"), [on_h100])
        (on_a100,) = self.predicted(*paper, "--on", "a100-80")
        held = [row["predicted_peak_allocated_bytes"] for row in (on_cpu, on_a100, on_h100)]
        self.assertEqual(sorted(held), held)
        (unnamed,) = self.predicted("bert_tiny", "--set", "device=cuda")
        self.assertIn("depends on the GPU", unnamed["unknown_because"])
        (named,) = self.predicted("bert_tiny", "--set", "device=cuda", "--on", "h100")
        self.assertEqual(
            named["predicted_peak_allocated_bytes"], on_h100["predicted_peak_allocated_bytes"]
        )

    def test_refusals(self):
        for arguments, words in (
            (["nothing"], "nothing"),
            (["mlp", "--set", "device=tpu"], 'got "tpu", expected cpu, cuda or paper'),
            (["mlp", "--on", "2xh100"], "--on needs a COMMAND"),
            (["mlp", "--set", "device=paper", "--on", "2xh1000"], "GPUs are v100-16"),
            (["mlp", "--set", "wrapper=zero"], "one of ddp, fsdp"),
            (["mlp", "--set", "steps=3"], "fields of a plan's cells alone"),
            (["mlp", "--budget", "much"], "much"),
            (["mlp", "--set", "lengths=mrpc"], "with lengths mrpc: examples differ in length"),
            (
                ["mlp", "--set", "static_graph=false,true"],
                "memory is not predicted with static_graph true",
            ),
            (["mlp", "--topology", "nowhere"], "nowhere"),
        ):
            outcome = self.call("predict", "memory", *arguments)
            self.assertEqual(outcome.status, 2, outcome.err)
            self.assertIn(words, outcome.err)


if __name__ == "__main__":
    unittest.main()
