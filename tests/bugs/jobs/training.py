"""What all jobs share: their run, a small model, samples, and one training loop.

    too_often.py NAME [fixed]        as one rank of a launcher

A step has the same samples however they are split between ranks and micro-batches. The split is
that of the job, or GRADSYNC_SPLIT's, "RANKS MICRO_BATCHES SIZE", for checkers that compare splits.
"""

import contextlib
import gc
import os
import sys
from dataclasses import dataclass

import torch
import torch.distributed as dist
import truth
from proof import proof
from torch.distributed.device_mesh import init_device_mesh
from torch.nn.functional import mse_loss
from torch.nn.parallel import DistributedDataParallel

STEPS, MICRO_BATCHES, SIZE = 8, 4, 8
FEATURES, HIDDEN, OUTPUTS = 16, 24, 8
LEARNING_RATE = 0.05
follow, end_step = proof.follow, proof.end_step


def run():
    """Runs the job that the command line names."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    dist.init_process_group("gloo")
    proof.start()
    with proof.count:
        truth.called(sys.argv[1:])
    proof.leave()
    gc.collect()  # before gloo's threads end, which may hold tensors of Python's
    dist.destroy_process_group()


@dataclass
class Batch:
    inputs: torch.Tensor
    targets: torch.Tensor
    index: int  # in its step
    count: int  # micro-batches of the step
    step: int

    @property
    def is_last(self):
        return self.index == self.count - 1


def steps(count=STEPS, micro_batches=MICRO_BATCHES, outputs=OUTPUTS):
    """Yields for each step this rank's micro-batches. `micro_batches` may be a list, in turns."""
    split = os.environ.get("GRADSYNC_SPLIT", "").split()
    rank, ranks = dist.get_rank(), dist.get_world_size()
    for step in range(count):
        own = micro_batches if isinstance(micro_batches, int) else of(micro_batches, step)
        own, size = (int(split[1]), int(split[2])) if split else (own, SIZE)
        drawn = torch.Generator().manual_seed(1000 + step)
        inputs = torch.randn(ranks * own * size, FEATURES, generator=drawn)
        targets = torch.randn(ranks * own * size, outputs, generator=drawn)
        parts = [
            slice((i * ranks + rank) * size, (i * ranks + rank + 1) * size) for i in range(own)
        ]
        yield [Batch(inputs[p], targets[p], i, own, step) for i, p in enumerate(parts)]


def of(turns, step):
    return turns[step % len(turns)]


def make_net(inputs=FEATURES, outputs=OUTPUTS):
    return torch.nn.Sequential(
        torch.nn.Linear(inputs, HIDDEN), torch.nn.Tanh(), torch.nn.Linear(HIDDEN, outputs)
    )


def ddp(net=None, **options):
    """Returns a followed net under DDP."""
    return DistributedDataParallel(follow(net or make_net()), **options)


def replicas_of_shards():
    """Returns a mesh of two replicas; of one where there is one rank."""
    ranks = dist.get_world_size()
    shape = min(2, ranks), max(1, ranks // 2)
    return init_device_mesh("cpu", shape, mesh_dim_names=("replicate", "shard"))


def sgd(module_or_parameters, rate=LEARNING_RATE):
    given = module_or_parameters
    return torch.optim.SGD(given.parameters() if hasattr(given, "parameters") else given, lr=rate)


def note(batch):
    """Notes what a micro-batch should contribute: the step's loss is to be a mean over all."""
    share = 1 / (batch.count * dist.get_world_size())
    proof.contribute(lambda net: share * mse_loss(net(batch.inputs), batch.targets))


def loss_of(model, batch):
    """Returns the loss of a micro-batch."""
    note(batch)
    return mse_loss(model(batch.inputs), batch.targets)


def backward(model, batch, divisor=None):
    (loss_of(model, batch) / (divisor or batch.count)).backward()


def finish(*optimizers):
    """Ends a step."""
    for optimizer in optimizers:
        optimizer.step()
        optimizer.zero_grad()
    end_step()


def accumulate_scaled(model, scaler, step):
    """Runs the micro-batches of a step under a gradient scaler; the last one synchronizes."""
    for batch in step:
        with quiet_unless(batch.is_last, model):
            scaler.scale(loss_of(model, batch) / batch.count).backward()


def quiet_unless(is_due, model):
    return contextlib.nullcontext() if is_due else model.no_sync()


def gradients_of(module):
    return [each.grad for each in module.parameters() if each.grad is not None]


def average(module, group=None, factor=None):
    """Averages gradients over the ranks of a group, by hand."""
    factor = 1 / dist.get_world_size(group) if factor is None else factor
    for gradient in gradients_of(module):
        dist.all_reduce(gradient, group=group)
        gradient.mul_(factor)


def train(model, optimizer=None, data=None, due=None, before=None, after=None, before_step=None):
    """Trains as it should be, but for what is given.

    due: says of a micro-batch whether it synchronizes; DDP's is the last. before, after: called
    with a micro-batch around its forward and backward; before_step: with the model.
    """
    optimizer = optimizer or sgd(model)
    for step in data or steps():
        for batch in step:
            if before:
                before(batch)
            is_due = due(batch) if due else batch.is_last
            with quiet_unless(is_due, model) if hasattr(model, "no_sync") else no_context():
                backward(model, batch)
            if after:
                after(batch)
        if before_step:
            before_step(model)
        finish(optimizer)


no_context = contextlib.nullcontext
