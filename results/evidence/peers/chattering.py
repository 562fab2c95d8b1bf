"""Trains a small model under DDP, and has its ranks meet in every step for nothing that a step
needs, or not.

usage: chattering.py each|never STEPS      one rank, as torchrun starts it

each   in every step barriers, numbers that are summed over ranks, and objects that are gathered
never  none of these

A job to watch, which waits for its link most of the time. It prints nothing; its data is random.
"""

import sys

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

WIDTH, LAYERS, SAMPLES = 1024, 2, 8
BARRIERS, NUMBERS, OBJECTS = 300, 300, 4
OBJECT_BYTES = 1 << 20


def never(loss):
    pass


def each(loss):
    number, gathered = loss.detach().clone(), [None] * dist.get_world_size()
    for _ in range(BARRIERS):
        dist.barrier()
    for _ in range(NUMBERS):
        dist.all_reduce(number)
    for _ in range(OBJECTS):
        dist.all_gather_object(gathered, bytes(OBJECT_BYTES))


WAYS = {"each": each, "never": never}


def main(way, steps):
    torch.set_num_threads(1)
    torch.manual_seed(0)
    dist.init_process_group("gloo")
    layers = [torch.nn.Linear(WIDTH, WIDTH) for _ in range(LAYERS)]
    model = DistributedDataParallel(torch.nn.Sequential(*layers))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    inputs = torch.randn(SAMPLES, WIDTH)
    for _ in range(steps):
        loss = model(inputs).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        WAYS[way](loss)
    dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
