"""Trains a small network under DDP, accumulating gradients over eight micro-batches: the job of
`gradsync demo`.

usage: torchrun --nproc-per-node 2 train.py [--enclose-forward]

It calls no_sync() in the place where it is usually lost; with --enclose-forward, where it works.
"""

import contextlib
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

STEPS, MICRO_BATCHES, SAMPLES, WIDTH = 12, 8, 8, 1024


def unsynchronized(model, micro_batch):
    is_last = micro_batch == MICRO_BATCHES - 1
    return contextlib.nullcontext() if is_last else model.no_sync()


def around_backward_alone(model, batch):
    for micro_batch in range(MICRO_BATCHES):
        loss = model(batch).square().mean() / MICRO_BATCHES
        with unsynchronized(model, micro_batch):
            loss.backward()


def around_forward_too(model, batch):
    for micro_batch in range(MICRO_BATCHES):
        with unsynchronized(model, micro_batch):
            loss = model(batch).square().mean() / MICRO_BATCHES
            loss.backward()


def main(accumulate):
    torch.set_num_threads(1)
    torch.manual_seed(0)
    dist.init_process_group("gloo")
    layers = [layer for _ in range(4) for layer in (nn.Linear(WIDTH, WIDTH), nn.ReLU())]
    model = DistributedDataParallel(nn.Sequential(*layers))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    batch = torch.randn(SAMPLES, WIDTH)
    for _ in range(STEPS):
        accumulate(model, batch)
        optimizer.step()
        optimizer.zero_grad()
    dist.destroy_process_group()


if __name__ == "__main__":
    main(around_forward_too if "--enclose-forward" in sys.argv else around_backward_alone)
