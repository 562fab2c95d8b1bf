"""A model that recomputes activations in backward, in both ways that torch has: the one runs
autograd within autograd.
"""

import contextlib

import torch
from torch.nn.functional import mse_loss
from torch.nn.parallel import DistributedDataParallel
from torch.utils.checkpoint import checkpoint
from training import counted, make_model, windows


class Checkpointed(torch.nn.Module):
    def __init__(self, use_reentrant):
        super().__init__()
        self.layers = make_model()
        self.use_reentrant = use_reentrant

    def forward(self, inputs):
        inputs = inputs.clone().requires_grad_()  # else the reentrant one has no gradients
        return checkpoint(self.layers, inputs, use_reentrant=self.use_reentrant)


def train(use_reentrant, around):
    """`around(model, is_last)`: the context of a micro-batch."""
    model = DistributedDataParallel(Checkpointed(use_reentrant))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for window in windows():
        for is_last, inputs, targets in window:
            with around(model, is_last):
                mse_loss(model(inputs), targets).backward()  # to change
        optimizer.step()
        optimizer.zero_grad()


def no_sync_but_last(model, is_last):
    return contextlib.nullcontext() if is_last else model.no_sync()


@counted
def main():
    train(False, lambda model, is_last: contextlib.nullcontext())


if __name__ == "__main__":
    main()
