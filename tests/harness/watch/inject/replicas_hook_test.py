# ruff: noqa: E402
"""What the Python hook says of parameters: their bit hashes, who reduces their gradients, and which
of the job's own collectives move them. In one process, on a group that moves nothing.

Covers: gradsync_watch_exchanges.py, gradsync_watch_hash.py, gradsync_watch_meant.py,
gradsync_watch_owners.py.
"""

import functools
import importlib.util
import sys
import types
import unittest
import weakref
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

SKIPPED = 77  # as SKIP_RETURN_CODE in CMakeLists.txt
if importlib.util.find_spec("torch") is None:
    print("skipped: Python's torch is not installed; harness/setup --oracles has it")
    sys.exit(SKIPPED)

import torch
import torch.distributed as dist
from torch._utils import _flatten_dense_tensors
from torch.distributed.fsdp import FullyShardedDataParallel, ShardingStrategy, fully_shard
from torch.nn.parallel import DistributedDataParallel
from torch.testing._internal.distributed.fake_pg import FakeStore

sys.path.insert(0, str(Path(__file__).resolve().parents[4] / "harness/watch/inject/hook"))

import gradsync_watch_exchanges as exchanges
import gradsync_watch_hash as hashes
import gradsync_watch_meant as meant
import gradsync_watch_models as models
import gradsync_watch_owners as owners
import gradsync_watch_recording as recording
import gradsync_watch_replicas as replicas

recording.torch = torch  # as gradsync_watch_hook.py has it, once the job has imported torch


def drawn(*shape, dtype=torch.float32):
    return torch.randn(shape, generator=torch.Generator().manual_seed(0)).to(dtype)


class HashTest(unittest.TestCase):
    TENSORS = (drawn(1), drawn(5, 7), drawn(3, dtype=torch.bfloat16), drawn(2, 2).bool())

    def test_any_one_bit_changes_it(self):
        for tensor in self.TENSORS:
            size = tensor.numel() * tensor.element_size()
            found = {hashes.hash_of: set(), hashes.hash_in_parts: set()}
            for bit in range(-1, 8 * size):  # the first as it is
                changed = tensor.clone()
                if bit >= 0:
                    hashes.in_one_row(changed).view(torch.uint8)[bit // 8] ^= 1 << bit % 8
                for function, values in found.items():
                    values.add(function(changed))
            self.assertEqual([len(values) for values in found.values()], [8 * size + 1] * 2)

    def test_equal_bits_have_equal_ones(self):
        for function in (hashes.hash_of, hashes.hash_in_parts):
            self.assertEqual(function(drawn(5, 7)), function(drawn(5, 7)))

    def test_the_order_of_elements_counts(self):
        tensor = torch.tensor([1.0, 2.0, 3.0])
        for function in (hashes.hash_of, hashes.hash_in_parts):
            self.assertNotEqual(function(tensor), function(tensor.flip(0)))

    def test_several_parts_have_that_of_the_whole(self):
        tensor = drawn(1000)
        whole = hashes.hash_in_parts(tensor)
        for size in (1, 7, 500, 999, 1000):
            with mock.patch.object(hashes, "PART", size):
                self.assertEqual(hashes.hash_in_parts(tensor), whole, size)

    def test_constants(self):
        for tensor in (torch.zeros(5), torch.full((2, 3), 0.1), torch.ones(1), -torch.zeros(2)):
            self.assertTrue(hashes.is_constant(tensor))
        for tensor in (torch.tensor([0.0, -0.0]), torch.tensor([1.0, 1.0, 2.0]), drawn(9)):
            self.assertFalse(hashes.is_constant(tensor))

    def test_only_memory_of_its_own_in_one_piece_is_hashable(self):
        class Other(torch.Tensor):
            pass

        parameter = torch.nn.Parameter(drawn(3))
        for tensor in (drawn(4, 6), drawn(4, 6).t(), parameter, drawn(4, 6)[1:]):
            self.assertTrue(hashes.is_hashable(tensor))
        sparse, meta = drawn(3, 3).to_sparse(), torch.empty(3, device="meta")
        pieces, overlapping = drawn(4, 6)[:, ::2], drawn(1).expand(5)
        for tensor in (
            pieces,
            overlapping,
            sparse,
            meta,
            torch.empty(0),
            drawn(3).as_subclass(Other),
        ):
            self.assertFalse(hashes.is_hashable(tensor), tensor)


def reduces(parameter):
    dist.all_reduce(parameter.grad)


def reduces_within(parameter):
    return [dist.reduce_scatter_tensor(each, each) for each in (parameter.grad,)]


def only_logs(parameter):
    print(parameter.grad)


class MeantTest(unittest.TestCase):
    def setUp(self):
        self.addCleanup(meant.hooks.on.clear)
        self.parameter = torch.nn.Parameter(drawn(3, 2))
        self.names = {id(self.parameter): "weight"}

    def said(self, parameter=None):
        said = meant.Said(self.names)
        fields = said.fields_of(self.parameter if parameter is None else parameter)
        return fields.get("meant"), fields.get("mark"), "hook_line" in fields

    def test_marks(self):
        self.assertEqual(self.said(), (None, None, False))
        for mark, value, word in (
            ("allreduce", True, None),
            ("allreduce", False, "own"),
            ("sequence_parallel", False, "own"),
            ("sequence_parallel_enabled", True, "replica"),
        ):
            setattr(self.parameter, mark, value)
            self.assertEqual(self.said()[0], word)
        self.assertEqual(self.said()[1], "sequence_parallel_enabled")

    def test_hooks_whose_code_reduces(self):
        for hook in (only_logs, print, list.append):
            meant.hooks.see(self.parameter, hook)
        self.assertEqual(self.said(), (None, None, False))
        for hook in (
            reduces,
            reduces_within,
            functools.partial(reduces),
            types.MethodType(reduces, 1),
        ):
            meant.hooks.on.clear()
            meant.hooks.see(self.parameter, hook)
            self.assertEqual(self.said(), ("hooked", None, True))

    def test_a_copy_is_what_no_module_has(self):
        for copied, word in (
            (drawn(3, 2), "hooked_copy"),
            (drawn(2, 3), None),
            (drawn(3, 2) + 1, None),
        ):
            meant.hooks.on.clear()
            copy = torch.nn.Parameter(copied)
            meant.hooks.see(copy, reduces)
            self.assertEqual(self.said()[0], word)
            del copy
            self.assertEqual(self.said()[0], word)
        other = torch.nn.Parameter(drawn(3, 2))
        self.names[id(other)] = "bias"
        meant.hooks.see(other, reduces)
        self.assertEqual(self.said()[0], None)
        self.assertEqual(self.said(other)[0], "hooked")


class FrozenTest(unittest.TestCase):
    def test_matrices_that_change_though_they_are_frozen(self):
        net = make_model()
        net.requires_grad_(False)
        net[2].weight.requires_grad_(True)
        net.codes = torch.nn.Parameter(drawn(3, 2), requires_grad=False)
        model = mock.Mock(module=net, parameters_to_ignore=["codes"])
        frozen = list(models.frozen_in(model))
        self.assertEqual([id(each) for each in frozen], [id(net[0].weight)])
        known = [(weakref.ref(each), each._version) for each in frozen]
        with mock.patch.dict(models.frozen, {model: known}, clear=True):
            self.assertEqual(list(models.changed_frozen()), [])
            net[0].weight.add_(1)
            self.assertEqual([id(each) for each in models.changed_frozen()], [id(net[0].weight)])
            net[0].weight.requires_grad_(True)
            self.assertEqual(list(models.changed_frozen()), [])


def make_model():
    return torch.nn.Sequential(
        torch.nn.Linear(4, 4), torch.nn.BatchNorm1d(4), torch.nn.Linear(4, 2)
    )


class OwnersTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        dist.init_process_group("fake", rank=0, world_size=2, store=FakeStore())

    @classmethod
    def tearDownClass(cls):
        dist.destroy_process_group()

    def setUp(self):
        self.addCleanup(models.wrapped.clear)

    def wrap(self, model, name):
        """As the hook does when it sees the wrapper made."""
        trained = [p for p in model.parameters() if p.requires_grad]
        models.wrapped[model] = (name, frozenset(map(id, trained)))
        return model

    def owners_of(self, named):
        found = owners.owners()
        return {name: found.get(id(each), owners.NONE).owner for name, each in named}

    def test_ddp_has_what_it_was_wrapped_with(self):
        net = make_model()
        net[0].bias.requires_grad_(False)
        DistributedDataParallel._set_params_and_buffers_to_ignore_for_model(net, ["2.bias"])
        model = self.wrap(DistributedDataParallel(net), models.DDP)
        net[0].bias.requires_grad_(True)
        net.late = torch.nn.Parameter(drawn(2))
        alone = torch.nn.Parameter(drawn(2))
        found = self.owners_of([*net.named_parameters(), ("alone", alone)])
        self.assertEqual(
            {owner: [name for name in found if found[name] == owner] for owner in found.values()},
            {
                "added": ["late", "0.bias"],
                "wrapper": ["0.weight", "1.weight", "1.bias", "2.weight"],
                "ignored": ["2.bias"],
                "none": ["alone"],
            },
        )
        self.assertEqual(set(self.owners_of(net.named_buffers()).values()), {"buffer"})
        owner = owners.owners()[id(net[0].weight)]
        self.assertEqual(owner.model, recording.number_of(model))
        self.assertEqual(owner.group, dist.group.WORLD.group_name)

    def test_what_one_wrapper_ignores_another_may_have(self):
        net = make_model()
        inner = self.wrap(DistributedDataParallel(net[2]), models.DDP)
        names = ["2.weight", "2.bias"]
        DistributedDataParallel._set_params_and_buffers_to_ignore_for_model(net, names)
        outer = self.wrap(DistributedDataParallel(net), models.DDP)
        found = owners.owners()
        self.assertEqual(found[id(net[2].bias)], found[id(net[2].weight)])
        self.assertEqual(found[id(net[2].bias)].model, recording.number_of(inner))
        self.assertEqual(found[id(net[0].bias)].model, recording.number_of(outer))

    def test_fsdp1_has_shards_unless_it_is_to_have_none(self):
        for strategy, owner in ((None, "shard"), (ShardingStrategy.NO_SHARD, "wrapper")):
            net = make_model()
            how = {"sharding_strategy": strategy, "device_id": torch.device("cpu")}
            how["ignored_modules"] = [net[2]]
            model = self.wrap(FullyShardedDataParallel(net, **how), models.FSDP1)
            model(drawn(3, 4))  # it is set up by its first forward
            ignored = set(self.owners_of(net[2].named_parameters()).values())
            self.assertEqual(ignored, {"ignored"})
            flat = model._all_handles[0].flat_param
            self.assertEqual(self.owners_of([("flat", flat)]), {"flat": owner})

    def test_fully_shard_has_shards_and_not_what_is_added(self):
        model = fully_shard(make_model())
        self.wrap(model, "fully_shard")
        model.late = torch.nn.Parameter(drawn(2))
        found = self.owners_of(model.named_parameters())
        self.assertEqual(found.pop("late"), "added")
        self.assertEqual(set(found.values()), {"shard"})


class LookTest(unittest.TestCase):
    def test_what_is_not_finite_has_no_sample(self):
        """JSON has no such numbers: the reader would refuse the file."""
        things = list(enumerate((torch.ones(4), torch.full((4,), torch.nan))))
        tracked = SimpleNamespace(things=lambda: things, number=1, steps=1, unstepped=set())
        with mock.patch.object(recording, "writer") as writer:
            replicas.Replicas().look(tracked, start=0)
        written = writer.write.call_args.kwargs
        self.assertEqual(list(written["values"]), ["0", "1"])
        self.assertEqual(written["samples"], {"0": [1.0, 1.0]})


class MadeTest(unittest.TestCase):
    def test_those_of_a_line_that_are_gone_are_counted(self):
        watched, counts = replicas.Replicas(), []
        self.enterContext(mock.patch.object(recording, "writer"))
        self.enterContext(mock.patch.object(replicas, "replicas", watched))
        for steps in (1, 0, 1, 1):
            optimizer = torch.optim.SGD([drawn(3)], lr=0.1)
            replicas.made_optimizer(optimizer)
            watched.tracked(optimizer).steps = steps
            counts.append(watched.places[optimizer]["gone_before"])
        self.assertEqual(counts, [0, 1, 1, 2])
        replicas.made_optimizer(optimizer)
        self.assertEqual(watched.places[optimizer]["gone_before"], 0)  # of another line


class BesideTest(unittest.TestCase):
    def test_what_other_ranks_may_step(self):
        model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Linear(3, 2))
        model(drawn(5, 4)).sum().backward()
        model[1].bias.grad = None
        optimizer = torch.optim.SGD(model[0].parameters(), lr=0.1)
        watched = replicas.Replicas()
        watched.optimizers[optimizer] = tracked = replicas.Tracked(1)
        self.assertEqual(watched.stepped_by_others(), [])  # nothing was reduced by hand
        watched.exchanged_steps = 1
        with mock.patch.dict(models.wrapped, {model: (models.DDP, ())}):
            self.assertEqual(watched.stepped_by_others(), [])
        [beside] = watched.stepped_by_others()
        self.assertIs(beside, model[1].weight)
        self.assertEqual(len(watched.parameters()), 3)
        stepped = [*model[0].parameters(), beside]
        lines = watched.described(tracked, stepped, set(), {id(beside)})
        self.assertEqual([line["is_stepped"] for line in lines], [True, True, False])
        self.assertEqual(tracked.unstepped, {2})

    def test_what_other_ranks_step_is_no_matter_at_the_end(self):
        tracked = SimpleNamespace(things=lambda: [(0, torch.ones(4))], number=1, steps=1)
        tracked.unstepped, tracked.frozen = {0}, set()
        for is_last, seen in ((False, ["0"]), (True, [])):
            with mock.patch.object(recording, "writer") as writer:
                replicas.Replicas().look(tracked, start=0, is_last=is_last)
            self.assertEqual(list(writer.write.call_args.kwargs["values"]), seen)


class ExchangesTest(unittest.TestCase):
    def setUp(self):
        model = torch.nn.Sequential(torch.nn.Linear(6, 4), torch.nn.Linear(4, 3))
        model(drawn(5, 6)).square().sum().backward()
        self.parameters = list(model.parameters())
        self.gradients = [parameter.grad for parameter in self.parameters]
        self.seen = exchanges.Gradients(self.parameters)

    def check(self, tensor, what, parameters):
        found, of = self.seen.found_in(tensor)
        self.assertEqual(found, what)
        self.assertEqual([id(each) for each in of], [id(each) for each in parameters])

    def test_a_gradient_or_a_parameter_is_known_by_its_place(self):
        for parameter in self.parameters:
            self.check(parameter.grad, "gradient", [parameter])
            self.check(parameter.data, "parameter", [parameter])

    def test_a_copy_of_one_is_known_by_its_numbers(self):
        for parameter in self.parameters:
            self.check(parameter.grad.clone(), "copy", [parameter])

    def test_a_flat_copy_is_known_in_both_orders_and_times_a_factor(self):
        flat = _flatten_dense_tensors(self.gradients)
        backwards = _flatten_dense_tensors(self.gradients[::-1])
        self.check(flat, "copy", self.parameters)
        self.check(backwards, "copy", self.parameters[::-1])
        self.check(flat / 8, "copy", self.parameters)
        self.check(_flatten_dense_tensors(self.gradients[1:3]), "copy", self.parameters[1:3])

    def test_gradients_of_an_outer_optimizer_are_seen_later(self):
        inner = torch.optim.SGD(self.parameters[:2], lr=0.1)
        outer = torch.optim.SGD(self.parameters[2:], lr=0.1)
        watched, seen = replicas.Replicas(), exchanges.Exchanges()
        for number, (optimizer, steps) in enumerate(((inner, exchanges.STEPS), (outer, 0))):
            watched.optimizers[optimizer] = replicas.Tracked(number)
            watched.optimizers[optimizer].steps = steps
        for gradient in (*self.gradients, self.gradients[2].clone()):
            seen.keep_outer(watched, gradient, "all_reduce", "")
        [(key, moved)] = seen.found.items()
        self.assertEqual(key[0], "outer_gradient")
        found = list(map(id, moved["parameters"]))
        self.assertEqual(found, list(map(id, self.parameters[2:])))

    def test_other_tensors_are_not(self):
        flat = _flatten_dense_tensors(self.gradients)
        apart = torch.cat([self.gradients[0].view(-1), 2 * self.gradients[1]])
        for tensor in (drawn(24), torch.zeros(24), flat[:-1], drawn(flat.numel()), apart):
            self.check(tensor, None, [])


if __name__ == "__main__":
    unittest.main(verbosity=2)
