"""models/record_profile.py on small models: parameters, order, times, and what it refuses.

Covers: recorded_layers.py, recorder.py, memory_recorder.py, recorded_memory.py, recorded_blocks.py,
allocations.py.
"""

import contextlib
import io
import itertools
import json
import math
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "models"), str(ROOT / "models/profiles")]

try:
    import jsonschema
    import torch
    import torch.utils.checkpoint
    from torch import nn
except (ImportError, OSError) as error:
    print(f"skipped: torch and jsonschema cannot be imported ({error})")
    sys.exit(77)

import record_profile  # noqa: E402
import recorder  # noqa: E402
from recorded_layers import Arrival, buffer_entry, nests, profile_layers  # noqa: E402

SCHEMA = json.loads((ROOT / "models/profiles/profile.schema.json").read_text())
HERE = str(Path(__file__).resolve())


# What a user writes: functions that return (model, batch, loss_of).


def mean_square(model, batch):
    return model(batch).square().mean()


def mlp():
    model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 128), nn.Linear(128, 8))
    return model, torch.randn(32, 64), mean_square


def mixed():
    def loss_of(model, batch):
        with torch.autocast("cpu", torch.bfloat16):
            return mean_square(model, batch)

    return *mlp()[:2], loss_of


def transformer():
    layer = nn.TransformerEncoderLayer(32, 2, 64, batch_first=True)
    return nn.TransformerEncoder(layer, 2), torch.randn(4, 16, 32), mean_square


class Scale(nn.Module):
    def __init__(self):
        super().__init__()
        self.by = nn.Parameter(torch.tensor(2.0))

    def forward(self, x):
        return x * self.by


class Tied(nn.Module):
    """Words in and out by one matrix, a frozen part, and buffers of two types."""

    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(50, 16)
        self.frozen = nn.Linear(16, 16).requires_grad_(False)
        self.norm = nn.BatchNorm1d(16)
        self.out = nn.Linear(16, 50, bias=False)
        self.out.weight = self.words.weight
        self.scale = Scale()

    def forward(self, batch):
        return self.scale(self.out(self.norm(self.frozen(self.words(batch["ids"])))))


def tied():
    return Tied(), {"ids": torch.randint(0, 50, (64,))}, mean_square


def enormous():
    """4 TiB of weights."""
    return nn.Linear(1 << 20, 1 << 20, bias=False), torch.randn(1, 1 << 20), mean_square


class Checkpointed(nn.Module):
    """Computes its parts again in backward."""

    def __init__(self):
        super().__init__()
        self.parts = nn.ModuleList(
            nn.Sequential(nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 16)) for _ in range(2)
        )

    def forward(self, x):
        for part in self.parts:
            x = torch.utils.checkpoint.checkpoint(part, x, use_reentrant=False)
        return x


def checkpointed():
    return Checkpointed(), torch.randn(8, 16, requires_grad=True), mean_square


class Interleaved(nn.Module):
    """Registered block by block and norm by norm, called in turns."""

    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(nn.Linear(16, 16) for _ in range(2))
        self.norms = nn.ModuleList(nn.LayerNorm(16) for _ in range(2))

    def forward(self, x):
        for block, norm in zip(self.blocks, self.norms, strict=True):
            x = norm(block(x))
        return x


class Keeping(nn.Module):
    """Keeps its latest output, and frees the one before."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(16, 16)
        self.kept = None

    def forward(self, x):
        self.kept = self.layer(x)
        return self.kept


def keeping():
    return Keeping(), torch.randn(8, 16), mean_square


def interleaved():
    return Interleaved(), torch.randn(8, 16), lambda model, x: (model(x) ** 3).sum()


class Alternating(nn.Module):
    """Calls its parts in another order every other time."""

    def __init__(self):
        super().__init__()
        self.parts = nn.ModuleList([nn.Linear(4, 4), nn.Linear(4, 4)])
        self.turns = itertools.cycle([(0, 1), (1, 0)])

    def forward(self, x):
        first, second = next(self.turns)
        return self.parts[second](self.parts[first](x))


def alternating():
    return Alternating(), torch.randn(2, 4), mean_square


def model_alone():
    return mlp()[0]


def no_model():
    return "bert", torch.randn(2), mean_square


def no_loss_function():
    return nn.Linear(2, 2), torch.randn(2, 2), "loss"


def raises():
    raise ValueError("no such checkpoint")


def vector_loss():
    return nn.Linear(2, 2), torch.randn(2, 2), lambda model, x: model(x)


def number_loss():
    return nn.Linear(2, 2), torch.randn(2, 2), lambda model, x: model(x).sum().item()


def detached_loss():
    return nn.Linear(2, 2), torch.randn(2, 2), lambda model, x: model(x).sum().detach()


def unused_parameter():
    return nn.ModuleList([nn.Linear(2, 2), nn.Linear(2, 2)]), torch.randn(2, 2), first_of_two


def first_of_two(model, x):
    return model[0](x).sum()


def all_frozen():
    return nn.Linear(2, 2).requires_grad_(False), torch.randn(2, 2), mean_square


def half_precision():
    return nn.Linear(2, 2).bfloat16(), torch.randn(2, 2).bfloat16(), mean_square


def backward_inside():
    def loss_of(model, x):
        model(x).sum().backward()
        return model(x).sum()

    return nn.Linear(2, 2), torch.randn(2, 2), loss_of


def wrong_shapes():
    return nn.Linear(2, 2), torch.randn(2, 3), mean_square


REFUSED = {
    "nothing": "got 'nothing', expected MODULE:FUNCTION",
    "no_such_module:build": "module 'no_such_module' cannot be imported: ModuleNotFoundError",
    f"{HERE}x.py:build": "cannot be imported: FileNotFoundError",
    f"{HERE}:build": "has no function 'build'",
    f"{HERE}:model_alone": "returned Sequential, expected (model, batch, loss_of)",
    f"{HERE}:no_model": "model is a str, expected a torch.nn.Module",
    f"{HERE}:no_loss_function": "loss_of is a str, expected a function",
    f"{HERE}:raises": "failed: ValueError: no such checkpoint",
    f"{HERE}:vector_loss": "loss_of: got a tensor of shape [2, 2], expected a scalar",
    f"{HERE}:number_loss": "loss_of: got float, expected a scalar tensor",
    f"{HERE}:detached_loss": "loss_of: got a loss without gradient",
    f"{HERE}:unused_parameter": "parameter 1.weight: got no gradient, expected one in every",
    f"{HERE}:all_frozen": "the model has no parameter that requires a gradient",
    f"{HERE}:half_precision": "parameter weight: got torch.bfloat16, expected float32",
    f"{HERE}:backward_inside": "became ready twice in one backward",
    f"{HERE}:alternating": "a paced model has one order",
    f"{HERE}:wrong_shapes": "forward or backward failed: RuntimeError",
}


def run(*arguments):
    """Returns (exit status, stdout, stderr)."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            status = record_profile.main([str(argument) for argument in arguments])
        except SystemExit as exit_:
            status = exit_.code
    return status, out.getvalue(), err.getvalue()


def record(function, *options):
    """Returns the profile of one of the functions above, however busy the machine is."""
    with mock.patch.object(recorder, "HOOKS_RATIO", (0, math.inf)):
        status, out, err = run(f"{HERE}:{function}", "--steps", 2, "--warmup", 0, *options)
    if status != 0:
        raise AssertionError(err)
    profile = json.loads(out)
    jsonschema.validate(profile, SCHEMA)
    return profile


def tensors_of(profile):
    return [tensor for layer in profile["layers"] for tensor in layer["parameters"]]


def order_of_accumulation(build):
    """Names in the order in which autograd accumulates their gradients, by its nodes' own hooks."""
    model, batch, loss_of = build()
    order, nodes = [], []
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            node = parameter.view_as(parameter).grad_fn.next_functions[0][0]
            node.register_hook(lambda *_, name=name: order.append(name))
            nodes.append(node)
    loss_of(model.train(), batch).backward()
    return order


class RecordedModels(unittest.TestCase):
    def test_parameters_stand_in_reverse_order_of_their_gradients(self):
        for build in (mlp, transformer, tied):
            with self.subTest(build.__name__):
                profile = record(build.__name__)
                names = [tensor["name"] for tensor in tensors_of(profile)]
                self.assertEqual(names[::-1], order_of_accumulation(build))

    def test_parameters_have_their_shapes(self):
        for build in (mlp, transformer):
            with self.subTest(build.__name__):
                ours = {t["name"]: t["shape"] for t in tensors_of(record(build.__name__))}
                model = build()[0]
                self.assertEqual(ours, {n: list(p.shape) for n, p in model.named_parameters()})

    def test_shared_parameters_count_once_and_frozen_ones_not(self):
        shapes = {t["name"]: t["shape"] for t in tensors_of(record("tied"))}
        norm = {"norm.weight": [16], "norm.bias": [16]}
        self.assertEqual(shapes, {"words.weight": [50, 16], **norm, "scale.by": [1]})

    def test_buffers_keep_their_bytes(self):
        buffers = {b["name"]: b["shape"] for b in record("tied")["buffers"]}
        self.assertEqual(
            buffers,
            {"norm.running_mean": [8], "norm.running_var": [8], "norm.num_batches_tracked": [1]},
        )

    def test_names_that_no_module_tree_lists_in_this_order_become_flat(self):
        names = [tensor["name"] for tensor in tensors_of(record("interleaved"))]
        dotted = [name.replace("/", ".") for name in names]
        self.assertEqual(dotted[::-1], order_of_accumulation(interleaved))
        self.assertFalse(nests(dotted))
        self.assertTrue(nests(names))

    def test_layers_add_up_to_the_micro_batch(self):
        for build in ("mlp", "transformer"):
            with self.subTest(build):
                options = record_profile.parse([f"{HERE}:{build}", "--steps", "3"])
                with mock.patch.object(recorder, "HOOKS_RATIO", (0, math.inf)):
                    model, recording, memory = record_profile.record(options)
                profile = record_profile.profile_of(
                    recording, memory, "x", type(model).__name__, options
                )
                forward_s = sum(layer["forward_s"] for layer in profile["layers"])
                backward_s = sum(layer["backward_s"] for layer in profile["layers"])
                self.assertAlmostEqual(forward_s, recording.forward_s, places=7)
                self.assertAlmostEqual(forward_s + backward_s, recording.micro_batch_s, places=7)
                self.assertGreater(profile["optimizer_s"], 0)

    def test_layers_that_do_not_add_up_are_refused(self):
        layers = [{"forward_s": 0.1, "backward_s": 0.2}]
        record_profile.refuse_other_sum(layers, 0.3)
        with self.assertRaisesRegex(recorder.UnsteadyError, r"add up to 0\.3.* expected .* 0\.31"):
            record_profile.refuse_other_sum(layers, 0.31)


class Memory(unittest.TestCase):
    """The field "memory": bytes by hand, of float32."""

    def modules(self, memory):
        return {module["name"]: module for module in memory["modules"]}

    def test_what_forward_saves_by_hand(self):
        """Linear saves its input, ReLU its result, square its input; each is counted where it is
        saved first, and the batch and parameters nowhere.
        """
        modules = self.modules(record("mlp")["memory"])
        wide = 32 * 128 * 4
        saved = {name: module["saved_bytes"] for name, module in modules.items()}
        self.assertEqual(saved, {"": wide + 32 * 8 * 4, "0": 0, "2": 0, "3": wide})
        self.assertEqual(modules["0"]["output_bytes"], 32 * 128 * 4)
        self.assertEqual(modules["3"]["output_bytes"], 32 * 8 * 4)

    def test_highest_points_by_hand(self):
        modules = self.modules(record("mlp")["memory"])
        self.assertEqual(modules["2"]["forward_high_bytes"], 32 * 128 * 4)
        # Gradients of weight, bias and input.
        self.assertEqual(modules["2"]["backward_high_bytes"], (128 * 128 + 128 + 32 * 128) * 4)

    def test_a_model_that_casts_is_recorded_as_it_trains(self):
        profile = record("mixed")
        modules = self.modules(profile["memory"])
        self.assertEqual(modules["0"]["output_bytes"], 32 * 128 * 2)
        self.assertCountEqual(tensors_of(profile), tensors_of(record("mlp")), "in its own order")

    def test_a_pass_ends_with_gradients_alone(self):
        for build in (mlp, mixed, transformer, tied):
            memory = record(build.__name__)["memory"]
            passes = [memory[name] for name in ("forward", "backward_first", "backward_later")]
            forward, first, later = (sum(e[2] for e in p if e[0] == "hold") for p in passes)
            gradients = sum(event[2] for event in passes[1] if event[0] == "gradient")
            trained = sum(
                4 * math.prod(parameter["shape"])
                for parameter in memory["parameters"]
                if parameter["trains"]
            )
            with self.subTest(build.__name__):
                self.assertEqual(gradients, trained)
                self.assertEqual(forward + first, gradients)
                self.assertEqual(forward + later, 0)

    def test_a_module_that_is_computed_again_ends_once(self):
        memory = record("checkpointed")["memory"]
        ends = [event[1] for event in memory["backward_first"] if event[0] == "out"]
        called = [i for i, module in enumerate(memory["modules"]) if module["name"] != "parts"]
        self.assertEqual(sorted(ends), called)

    def test_tied_and_frozen_parameters(self):
        parameters = {p["name"]: p for p in record("tied")["memory"]["parameters"]}
        self.assertEqual(parameters["words.weight"]["tied"], ["out.weight"])
        self.assertNotIn("out.weight", parameters)
        self.assertEqual(
            [name for name, parameter in parameters.items() if not parameter["trains"]],
            ["frozen.weight", "frozen.bias"],
        )

    def test_units_are_kept_and_unknown_ones_refused(self):
        units = record("transformer", "--units", "TransformerEncoderLayer")["memory"]["units"]
        self.assertEqual(units, ["TransformerEncoderLayer"])
        with mock.patch.object(recorder, "HOOKS_RATIO", (0, math.inf)):
            status, _, err = run(f"{HERE}:mlp", "--steps", 1, "--units", "Block")
        self.assertEqual(status, 2)
        self.assertIn("--units: got 'Block'", err)

    def test_fake_tensors_hold_the_same_and_have_no_times(self):
        real, fake = record("mlp"), record("mlp", "--fake")
        self.assertNotIn("layers", fake)
        self.assertEqual(fake["memory"]["recorded_on"], "fake")
        for name in ("parameters", "modules", "batch_bytes"):
            self.assertEqual(fake["memory"][name], real["memory"][name])

    def test_untimed_it_holds_the_same_and_has_no_times(self):
        timed, untimed = record("mlp"), record("mlp", "--untimed")
        self.assertNotIn("layers", untimed)
        self.assertEqual(untimed["memory"], timed["memory"])

    def test_a_model_too_large_for_the_machine(self):
        memory = record("enormous", "--fake")["memory"]
        self.assertEqual(memory["parameters"][0]["shape"], [1 << 20, 1 << 20])
        self.assertEqual(self.modules(memory)[""]["output_bytes"], 4 * (1 << 20))


PASSES = ("forward", "backward_first", "backward_later")


class Changes(unittest.TestCase):
    """The field "changes": tensors one by one."""

    def play(self, memory, name, live):
        """Plays a pass: its tensors are in `live`, by size, the youngest last."""
        for event in memory[name]:
            if event[0] == "hold":
                held, high = 0, 0
                for change in memory["changes"][event[3]]:
                    size, age = change if isinstance(change, list) else (change, 0)
                    if size > 0:
                        live.setdefault(size, []).append(event)
                    else:
                        live[-size].pop(-1 - age)
                    held += size
                    high = max(high, held)
                self.assertEqual(event[1:3], [high, held])
            elif event[0] == "gradient" and name == "backward_first":
                live[event[2]].pop(-1 - (event[3] if len(event) > 3 else 0))

    def test_they_are_the_sums_and_free_what_there_is(self):
        recordings = [(build, ()) for build in (mlp, mixed, transformer, tied, checkpointed)]
        for build, options in (*recordings, (mlp, ("--fake",)), (tied, ("--fake",))):
            memory = record(build.__name__, *options)["memory"]
            for backward in PASSES[1:]:
                with self.subTest(build.__name__, options=options, backward=backward):
                    live = {}
                    self.play(memory, "forward", live)
                    self.play(memory, backward, live)
                    self.assertFalse(any(live.values()))

    def test_forward_by_hand(self):
        """An output that nothing saves is freed when the next layer's, a younger one, is there."""
        memory = record("mlp")["memory"]
        self.assertEqual(memory["batch_tensors_bytes"], [32 * 64 * 4])
        wide, narrow = 32 * 128 * 4, 32 * 8 * 4
        changes = [memory["changes"][e[3]] for e in memory["forward"] if e[0] == "hold"]
        self.assertEqual(changes[:4], [[wide], [wide, [-wide, 1]], [wide], [narrow]])

    def test_equal_changes_stand_once(self):
        memory = record("transformer")["memory"]
        listed = [json.dumps(change) for change in memory["changes"]]
        self.assertEqual(len(set(listed)), len(listed))
        holds = [event for name in PASSES for event in memory[name] if event[0] == "hold"]
        self.assertLess(len(listed), len(holds))

    def test_a_model_that_keeps_what_it_made_has_sums_alone(self):
        memory = record("keeping")["memory"]
        self.assertNotIn("changes", memory)
        self.assertEqual({len(e) for e in memory["forward"] if e[0] == "hold"}, {3})


class CountingClock(recorder.HostClock):
    """Every mark is a second after the one before."""

    def __init__(self):
        self.marks = itertools.count()

    def mark(self):
        return next(self.marks)


class Times(unittest.TestCase):
    def recording(self, ratio):
        torch.manual_seed(1)
        model, batch, loss_of = mlp()
        with mock.patch.object(recorder, "HOOKS_RATIO", ratio):
            return recorder.Recorder(model, batch, loss_of, CountingClock(), 3).record(2, 1)

    def test_every_mark_lands_in_its_place_and_the_hooks_time_is_taken_out(self):
        recording = self.recording((0, math.inf))
        # Two marks a micro-batch, begin apart; with hooks 3 modules and 6 parameters more.
        self.assertEqual(recording.micro_batch_s, 2)
        self.assertEqual(recording.hooks_ratio, 11 / 2)
        ready = [arrival.ready_s * 11 / 2 for arrival in recording.arrivals]
        for got, expected in zip(ready, range(1, 7), strict=True):
            self.assertAlmostEqual(got, expected)
        self.assertAlmostEqual(recording.forward_s * 11 / 2, 4)
        self.assertAlmostEqual(recording.entered_s["2"] * 11 / 2, 2)
        self.assertEqual(recording.optimizer_s, 1)

    def test_hooks_that_change_the_time_too_much_are_refused(self):
        with self.assertRaisesRegex(recorder.UnsteadyError, r"but 5\.50 times that"):
            self.recording(recorder.HOOKS_RATIO)


class Layers(unittest.TestCase):
    def test_times_by_hand(self):
        arrivals = [
            Arrival("b.weight", (2, 3), 4.0),
            Arrival("b.bias", (), 4.01),
            Arrival("a.late", (5,), 6.0),
            Arrival("a.last", (5,), 9.0),  # of the same module, but three seconds later
        ]
        layers = profile_layers(arrivals, {"b": 1.5, "a": 0.5}, 2.0, 10.0)
        self.assertEqual([layer["name"] for layer in layers], ["input", "a", "a", "b"])
        self.assertEqual([layer["forward_s"] for layer in layers], [0.5, 0.0, 1.0, 0.5])
        self.assertEqual([layer["backward_s"] for layer in layers], [1.0, 3.0, 1.99, 4.01])
        bias, weight = layers[-1]["parameters"]
        self.assertEqual(bias, {"name": "b.bias", "shape": [1]})
        self.assertEqual(weight, {"name": "b.weight", "shape": [2, 3]})

    def test_which_names_nest(self):
        self.assertTrue(nests(["own", "a.w", "a.b.w", "c.w"]))
        self.assertFalse(nests(["a.w", "own"]))
        self.assertFalse(nests(["a.w", "b.w", "a.b"]))

    def test_buffers_are_rounded_up_to_int64(self):
        self.assertEqual(buffer_entry("b", (3, 3), 4), {"name": "b", "shape": [5]})
        self.assertEqual(buffer_entry("b", (3, 3), 8), {"name": "b", "shape": [3, 3]})


class CommandLine(unittest.TestCase):
    def test_what_cannot_be_recorded_is_one_sentence_and_status_2(self):
        for place, sentence in REFUSED.items():
            with self.subTest(place):
                status, out, err = run(place, "--steps", 1, "--warmup", 0)
                self.assertEqual((status, out), (2, ""))
                self.assertIn(sentence, err)
                self.assertEqual(err.count("\n"), 1)

    def test_wrong_options_are_status_2(self):
        for options, sentence in {
            ("--steps", "0"): "got '0', expected an integer from 1",
            ("--out", "profile.txt"): "expected a name that ends in .json",
            ("--device", "abacus"): "invalid choice: 'abacus'",
        }.items():
            with self.subTest(options):
                status, _, err = run(f"{HERE}:mlp", *options)
                self.assertEqual(status, 2)
                self.assertIn(sentence, err)

    def test_a_file_is_written_whole_and_named_after_itself(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "mine.json"
            with mock.patch.object(recorder, "HOOKS_RATIO", (0, math.inf)):
                status, out, err = run(f"{HERE}:mlp", "--steps", 1, "--out", path)
            self.assertEqual((status, out), (0, ""), err)
            self.assertEqual(json.loads(path.read_text())["name"], "mine")
            self.assertEqual([entry.name for entry in Path(folder).iterdir()], ["mine.json"])
            self.assertIn("6 gradients", err)

    def test_a_folder_that_is_not_there_is_named(self):
        with mock.patch.object(recorder, "HOOKS_RATIO", (0, math.inf)):
            status, _, err = run(f"{HERE}:mlp", "--steps", 1, "--out", "/nowhere/mine.json")
        self.assertEqual(status, 2)
        self.assertIn("/nowhere/mine.json: cannot be written: No such file or directory", err)


if __name__ == "__main__":
    unittest.main()
