"""Training jobs for watch_test.py, which count for themselves what a watcher must see of them.

usage: watched_training.py JOB      under torchrun

Each rank prints one line of JSON: its rank, how many forwards, backwards and optimizer steps it
made, and of each collective how many and how many bytes.
"""

import collections
import json
import os
import signal
import sys

import torch
import torch.distributed as dist
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel
from torch.utils._python_dispatch import TorchDispatchMode

STEPS = 3
MICRO_BATCHES = 4
FEATURES = 64

# c10d's operations: the name of each, and where among its arguments the bytes are.
OPERATIONS = {
    "allreduce_": ("all_reduce", 0),
    "broadcast_": ("broadcast", 0),
    "allgather_": ("all_gather", 0),
    "_allgather_base_": ("all_gather", 0),
    "_reduce_scatter_base_": ("reduce_scatter", 1),
    "barrier": ("barrier", None),
}


def bytes_of(given):
    if isinstance(given, torch.Tensor):
        return given.numel() * given.element_size()
    return sum(bytes_of(each) for each in given)


class Counts(TorchDispatchMode):
    """Counts by torch's dispatcher; also what DDP's Reducer starts on this thread."""

    def __init__(self):
        super().__init__()
        self.collectives = collections.defaultdict(lambda: {"count": 0, "bytes": 0})
        self.forwards = self.backwards = self.steps = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func.namespace == "c10d":
            name, place = OPERATIONS[func._schema.name.removeprefix("c10d::")]
            self.add(name, 0 if place is None else bytes_of(args[place]))
        return func(*args, **(kwargs or {}))

    def add(self, name, size):
        self.collectives[name]["count"] += 1
        self.collectives[name]["bytes"] += size

    def print(self):
        line = {
            "rank": dist.get_rank(),
            "forward": self.forwards,
            "backward": self.backwards,
            "optimizer_step": self.steps,
            "collectives": self.collectives,
        }
        sys.stdout.write(json.dumps(line) + "\n")  # in one piece: two ranks have one output
        sys.stdout.flush()


def make_model():
    torch.manual_seed(7)
    layers = [torch.nn.Linear(FEATURES, FEATURES) for _ in range(3)]
    return torch.nn.Sequential(*layers, torch.nn.BatchNorm1d(FEATURES))


def micro_batch(model, counts):
    counts.forwards += 1
    counts.backwards += 1
    model(torch.randn(8, FEATURES)).square().mean().backward()


def train(model, counts, steps=STEPS, synced=None):
    """`synced`: which micro-batches of a step leave no_sync; None: all, without it."""
    optimizer = torch.optim.AdamW(model.parameters(), foreach=False)
    for _ in range(steps):
        for index in range(MICRO_BATCHES):
            if synced is None or index in synced:
                micro_batch(model, counts)
            else:
                with model.no_sync():
                    micro_batch(model, counts)
        counts.steps += 1
        optimizer.step()
        optimizer.zero_grad()


def ddp(counts, **options):
    with counts:
        train(DistributedDataParallel(make_model(), bucket_cap_mb=0.01), counts, **options)


def no_sync(counts):
    ddp(counts, synced={MICRO_BATCHES - 1})


def two_models(counts):
    """With a model in evaluation and a gradient outside of training between them."""
    ddp(counts)
    with counts, torch.no_grad():
        counts.forwards += 1
        DistributedDataParallel(make_model()).eval()(torch.randn(8, FEATURES))
    x = torch.randn(3, requires_grad=True)
    counts.backwards += 1
    torch.autograd.grad(x.square().sum(), x)
    no_sync(counts)


def sharded(counts):
    with counts:
        model = make_model()
        for layer in model[:3]:
            fully_shard(layer)
        train(fully_shard(model), counts)


def checkpointed(counts):
    """Backwards that run autograd again inside of a node."""

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = make_model()

        def forward(self, x):
            x = x.requires_grad_()
            return torch.utils.checkpoint.checkpoint(self.layers, x, use_reentrant=True)

    with counts:
        train(DistributedDataParallel(Model()), counts)


def operations(counts):
    """Each collective once, of a size that it says itself."""
    ranks = dist.get_world_size()

    def tensor(elements, dtype=torch.float32):
        return torch.ones(elements, dtype=dtype)

    pair = dist.new_group(list(range(ranks)))
    dist.all_reduce(tensor(1000))
    counts.add("all_reduce", 4000)
    dist.all_reduce(tensor(10, torch.bfloat16), group=pair)
    counts.add("all_reduce", 20)
    dist.all_reduce(tensor(100)[::2].contiguous(), async_op=True).wait()
    counts.add("all_reduce", 200)
    dist.broadcast(tensor(3, torch.int64), src=0)
    counts.add("broadcast", 24)
    dist.reduce(tensor(7), dst=0)
    counts.add("reduce", 28)
    dist.all_gather([tensor(5) for _ in range(ranks)], tensor(5))
    counts.add("all_gather", 20 * ranks)
    dist.all_gather_into_tensor(tensor(6 * ranks), tensor(6))
    counts.add("all_gather", 24 * ranks)
    dist.reduce_scatter_tensor(tensor(8), tensor(8 * ranks))
    counts.add("reduce_scatter", 32 * ranks)
    mine = dist.get_rank() == 0
    dist.gather(tensor(9), [tensor(9) for _ in range(ranks)] if mine else None, dst=0)
    counts.add("gather", 36)
    dist.scatter(tensor(11), [tensor(11) for _ in range(ranks)] if mine else None, src=0)
    counts.add("scatter", 44)
    dist.all_to_all_single(tensor(12 * ranks), tensor(12 * ranks))
    counts.add("all_to_all", 48 * ranks)
    if mine:
        dist.send(tensor(13), dst=1)
        counts.add("send", 52)
    elif dist.get_rank() == 1:
        dist.recv(tensor(13), src=0)
        counts.add("recv", 52)
    dist.barrier()
    counts.add("barrier", 0)
    with torch.inference_mode():  # without what dispatches for autograd
        dist.all_reduce(tensor(14))
    counts.add("all_reduce", 56)
    dist.all_reduce(tensor(15).requires_grad_().detach())
    counts.add("all_reduce", 60)


def killed(counts):
    """Rank 1 dies after a step; its peer cannot go on."""
    with counts:
        model = DistributedDataParallel(make_model())
        train(model, counts, steps=1)
        counts.print()
        dist.barrier()
        if dist.get_rank() == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        train(model, counts, steps=1)


def forked(counts):
    """Workers that are forked off a rank, and load data while it trains."""
    data = torch.utils.data.DataLoader(torch.randn(8, FEATURES), num_workers=2)
    with counts:
        model = DistributedDataParallel(make_model())
        for _ in data:
            pass
        train(model, counts)


def main():
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    counts = Counts()
    globals()[sys.argv[1]](counts)
    counts.print()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
