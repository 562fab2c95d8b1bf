"""What the jobs beside this file share: their run, a small model, data, and the proof of their
truth.

    unowned.py NAME [fixed]        as one rank of a launcher

A job calls `proof.compare(NAMES_AND_TENSORS)` before its first step, and `proof.end_step()` behind
each. Each rank prints as its last line what it found of all: by name the first step that begins
with other values on another rank, how often ranks sum gradients in a usual step, and the
collectives that it counted itself.
"""

import contextlib
import gc
import hashlib
import json
import statistics
import sys
from pathlib import Path

import torch
import torch.distributed as dist
from torch.distributed.tensor import DTensor
from torch.nn.functional import mse_loss

sys.path.append(str(Path(__file__).resolve().parents[2]))
import truths
from jobs.training import OPERATIONS, OwnCount

STEPS = 24
MICRO_BATCHES = 4
FEATURES, HIDDEN, OUTPUTS = 24, 48, 8
BATCH = 8
LEARNING_RATE = 0.05
OPERATIONS.update({"reduce_": ("reduce", 0), "alltoall_base_": ("all_to_all", 0)})
REDUCING = ("allreduce_", "allreduce_coalesced_", "reduce_scatter_", "_reduce_scatter_base_")


class Count(OwnCount):
    """Also how many collectives summed tensors of several numbers since the last step."""

    def __init__(self):
        super().__init__()
        self.reductions = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        if function.namespace == "c10d" and function._opname in REDUCING:
            tensors = [args[0]] if isinstance(args[0], torch.Tensor) else args[0]
            summed = any(each.is_floating_point() and each.numel() > 1 for each in tensors)
            self.reductions += summed
        return super().__torch_dispatch__(function, types, args, kwargs)


class Proof:
    """What this rank saw of its own steps."""

    def __init__(self):
        self.count = Count()
        self.tensors, self.digests, self.reductions, self.said = {}, [], [], {}

    def compare(self, named):
        """Compares these tensors between ranks from now on. Shards have no replica."""
        whole = {name: each for name, each in dict(named).items() if not isinstance(each, DTensor)}
        self.tensors |= whole
        self.digests[:1] = [self.digest()]

    def digest(self):
        return {name: digest_of(each) for name, each in self.tensors.items()}

    def end_step(self):
        self.digests.append(self.digest())
        self.reductions.append(self.count.reductions)
        self.count.reductions = 0

    def say(self, **facts):
        """Adds facts that the job found by itself."""
        self.said |= facts

    def tell(self):
        mine = {"digests": self.digests, "reductions": self.reductions, "said": self.said}
        own = {"rank": dist.get_rank(), "collectives": self.count.sums}
        print(json.dumps(own | found(exchanged(mine, "proof"))), flush=True)


proof = Proof()


def digest_of(tensor):
    return hashlib.sha1(tensor.detach().contiguous().numpy().tobytes()).hexdigest()


def exchanged(mine, name):
    """Returns what each rank gave under that name, by rank, without a collective."""
    store = dist.distributed_c10d._get_default_store()
    store.set(f"{name}{dist.get_rank()}", json.dumps(mine))
    return [json.loads(store.get(f"{name}{rank}")) for rank in range(dist.get_world_size())]


def found(ranks):
    """Returns for each name the first step that begins with other values on another rank, and for
    each rank how often it reduces gradients in a usual step.
    """
    drift = {}
    for step, digests in enumerate(zip(*(each["digests"] for each in ranks), strict=False), 1):
        for name in digests[0]:
            if len({each.get(name) for each in digests}) > 1:
                drift.setdefault(name, step)
    return {
        "drift": drift,
        "reductions": [statistics.mode(each["reductions"]) for each in ranks],
        "said": [each["said"] for each in ranks],
    }


def run():
    """Runs the job that the command line names."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    dist.init_process_group("gloo")
    with proof.count:
        truths.called(sys.argv[1:])
    proof.tell()
    gc.collect()  # before gloo's threads end, which may hold tensors of Python's
    dist.destroy_process_group()


def make_model(outputs=OUTPUTS):
    return torch.nn.Sequential(
        torch.nn.Linear(FEATURES, HIDDEN), torch.nn.Tanh(), torch.nn.Linear(HIDDEN, outputs)
    )


def sgd(parameters, learning_rate=LEARNING_RATE):
    return torch.optim.SGD(parameters, lr=learning_rate)


def finish(optimizer):
    """Ends a step of the job's only optimizer."""
    optimizer.step()
    optimizer.zero_grad()
    proof.end_step()


def draw():
    """Returns a generator of this rank's own data."""
    return torch.Generator().manual_seed(100 + dist.get_rank())


def batches(count, outputs=OUTPUTS):
    """Yields inputs and targets, other ones on each rank."""
    own = draw()
    for _ in range(count):
        inputs = torch.randn(BATCH, FEATURES, generator=own)
        yield inputs, torch.randn(BATCH, outputs, generator=own)


def windows(steps=STEPS, micro_batches=MICRO_BATCHES):
    """Yields for each step its micro-batches, as (is_last, inputs, targets)."""
    data = batches(steps * micro_batches)
    for _ in range(steps):
        yield [(i == micro_batches - 1, *next(data)) for i in range(micro_batches)]


def backward(model, inputs, targets, divisor=1):
    (mse_loss(model(inputs), targets) / divisor).backward()


def quiet_unless(is_due, model):
    return contextlib.nullcontext() if is_due else model.no_sync()


def average(tensors, group=None):
    """Averages tensors over the ranks, by hand."""
    for tensor in tensors:
        dist.all_reduce(tensor, group=group)
        tensor.div_(dist.get_world_size(group))


def gradients_of(parameters):
    return [each.grad for each in parameters if each.grad is not None]
