"""Small trainings for the cases beside this file."""

import contextlib

import torch
from torch.nn.parallel import DistributedDataParallel


def train(properly=True, steps=4):
    """Four micro-batches a step. A synchronization moves 2080 bytes."""
    train_on(lambda: torch.ones(2, 64), properly, steps)


def train_on_others(clears):
    """Trains on other data in every micro-batch. `clears`: gradients, behind the first."""
    generator = torch.Generator().manual_seed(torch.distributed.get_rank())
    train_on(lambda: torch.randn(2, 64, generator=generator), clears=clears)


def train_on(data, properly=True, steps=4, clears=False):
    model = DistributedDataParallel(torch.nn.Linear(64, 8))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(steps):
        for number in range(4):
            quiet = properly and number < 3
            with model.no_sync() if quiet else contextlib.nullcontext():
                model(data()).sum().backward()
            if clears and number == 0:
                model.zero_grad()
        optimizer.step()
        optimizer.zero_grad()
