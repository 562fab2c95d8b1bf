"""Models that recompute activations in backward, or are compiled."""

from contextlib import nullcontext

import torch
from torch._dynamo.utils import counters
from torch.nn.functional import mse_loss
from torch.nn.parallel import DistributedDataParallel
from torch.utils.checkpoint import checkpoint
from training import finish, make_model, run, sgd, windows
from truths import job, once, too_often


class Checkpointed(torch.nn.Module):
    def __init__(self, use_reentrant):
        super().__init__()
        self.layers = make_model()
        self.use_reentrant = use_reentrant

    def forward(self, inputs):
        inputs = inputs.clone().requires_grad_()  # else the reentrant one has no gradients
        return checkpoint(self.layers, inputs, use_reentrant=self.use_reentrant)


def train_checkpointed(is_quiet, use_reentrant):
    model = DistributedDataParallel(Checkpointed(use_reentrant))
    optimizer = sgd(model)
    for window in windows():
        for is_last, inputs, targets in window:
            with model.no_sync() if is_quiet and not is_last else nullcontext():
                mse_loss(model(inputs), targets).backward()  # to change
        finish(optimizer)


@job(too_often(), fixed=once())
def checkpointed(is_fixed):
    """Each micro-batch synchronizes."""
    train_checkpointed(is_fixed, use_reentrant=False)


@job(once())
def checkpointed_reentrant():
    """Recomputed by autograd within autograd; the last micro-batch alone synchronizes."""
    train_checkpointed(True, use_reentrant=True)


@job(once(), torch="2.8")
def fsdp_checkpointed():
    """fully_shard, which reduces in the last micro-batch alone."""
    from torch.distributed.fsdp import fully_shard

    model = fully_shard(Checkpointed(use_reentrant=False))
    optimizer = sgd(model)
    for window in windows():
        for is_last, inputs, targets in window:
            model.set_requires_gradient_sync(is_last)
            mse_loss(model(inputs), targets).backward()
        finish(optimizer)


class Model(torch.nn.Module):
    """Has a forward of its own: torch.compile compiles none of torch's beneath DDP."""

    def __init__(self):
        super().__init__()
        self.layers = make_model()

    def forward(self, inputs):
        return self.layers(inputs)


def train_compiled(**compilation):
    wrapped = DistributedDataParallel(Model())
    model = torch.compile(wrapped, **compilation)
    optimizer = sgd(model)
    for window in windows():
        for is_last, inputs, targets in window:
            with nullcontext() if is_last else wrapped.no_sync():
                mse_loss(model(inputs), targets).backward()
        finish(optimizer)
    assert counters["stats"]["unique_graphs"] > 0, "nothing was compiled"


@job(once(), torch="2.10")
def compiled():
    """A correct job whose wrapped model is compiled into graphs, which run operator by operator."""
    train_compiled(backend="eager")


@job(once(), torch="2.10")
def compiled_by_inductor():
    """The same, compiled to machine code as torch.compile does unless told otherwise."""
    train_compiled()


if __name__ == "__main__":
    run()
