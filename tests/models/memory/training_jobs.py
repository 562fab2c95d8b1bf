"""Small training jobs, as users of PyTorch write them, and the peak of their CPU tensors."""

import gc
import time
from contextlib import contextmanager, nullcontext
from unittest import mock

import small_transformers
import torch
import torch.distributed as dist
from gradsync import watching
from gradsync.testing.memory import TensorMemory
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.nn.parallel import DistributedDataParallel

LOOKS, LOOK_S = 2, 0.0002
STEPS = 3  # moments are made at the end of the first, the Reducer's buckets anew in the second


def peaks(rank, cells):
    """Returns the peak of each cell of `cells` (dictionaries) on this rank, and what was held
    before it, in bytes.
    """
    torch.set_num_threads(1)
    memory = TensorMemory()
    if memory.unknown:
        raise RuntimeError(memory.unknown)
    # The watcher knows gloo's threads, and the counting waits for what they are about to give back.
    with watching(), gloo_lets_go(memory):
        return [peak_of(memory, **cell) for cell in cells]


@contextmanager
def gloo_lets_go(memory):
    """Between a collective of fully_shard and what follows, gloo's thread may let go of its copy.

    It needs Python's lock to do so, since some of what it lets go of are Python's tensors. When it
    gets it is chance, and with it whether the copy is still there at the next peak.
    """

    def patiently(collective):
        def begin(*args, **kwargs):
            work = collective(*args, **kwargs)
            for _ in range(LOOKS):
                time.sleep(LOOK_S)
                memory.held_bytes()  # waits for threads, and does not hold the lock meanwhile
            return work

        return begin

    names = ("all_gather_into_tensor", "reduce_scatter_tensor")
    with mock.patch.multiple(dist, **{name: patiently(getattr(dist, name)) for name in names}):
        yield


def peak_of(memory, model, wrapper, strategy, accumulation_steps, **options):
    gc.collect()
    before = memory.held_bytes()
    memory.reset_peak()
    train(model, wrapper, strategy, accumulation_steps, **options)
    return memory.peak_bytes() - before


def train(model, wrapper, strategy, accumulation_steps, **options):
    torch.manual_seed(1)
    name = model
    model, batch, loss_of = getattr(small_transformers, name)()
    model.train()
    model = wrapped(model, wrapper, small_transformers.BLOCKS[name], **options)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    for _ in range(STEPS):
        for i in range(accumulation_steps):
            syncs = strategy != "no_sync" or i == accumulation_steps - 1
            with synchronizing(model, syncs):
                loss = loss_of(model, batch) / accumulation_steps
                loss.backward()
        optimizer.step()
        optimizer.zero_grad()


def wrapped(model, wrapper, block, bucket_view=False, reshard=True, dtypes=None):
    """`dtypes`: names of parameters' as gathered, and of gradients' as reduced."""
    if wrapper == "ddp":
        return DistributedDataParallel(model, gradient_as_bucket_view=bucket_view)
    options = {} if reshard else {"reshard_after_forward": False}
    if dtypes:
        options["mp_policy"] = MixedPrecisionPolicy(*(getattr(torch, name) for name in dtypes))
    for module in model.modules():
        if type(module).__name__ == block:
            fully_shard(module, **options)
    return fully_shard(model, **options)


def synchronizing(model, syncs):
    if isinstance(model, DistributedDataParallel):
        return nullcontext() if syncs else model.no_sync()
    model.set_requires_gradient_sync(syncs)
    return nullcontext()
