"""Trains a model under DDP, whose gradients are reduced in buckets that suit it, or do not.

usage: bucketing.py WAY STEPS      one rank, as torchrun starts it

one_bucket        32 MiB of gradients in one bucket, so that none is reduced while backward runs
overlapped        the same in buckets of an eighth
tensor_by_tensor  400 gradients of 16 KiB or less, each in a bucket of its own
together          the same in buckets as DDP makes them

A job to watch. Each layer takes its time in backward without computing, as on a GPU. It prints
nothing; its data is random.
"""

import sys
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

SAMPLES = 8
NO_BUCKETS_MB = 1e-6  # each tensor is larger


class Slow(torch.autograd.Function):
    @staticmethod
    def forward(ctx, values, seconds):
        ctx.seconds = seconds
        return values.view_as(values)

    @staticmethod
    def backward(ctx, gradient):
        time.sleep(ctx.seconds)
        return gradient, None


class Layers(torch.nn.Module):
    def __init__(self, number, width, backward_s):
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(width, width) for _ in range(number))
        self.width, self.backward_s = width, backward_s

    def forward(self, values):
        for layer in self.layers:
            values = Slow.apply(torch.relu(layer(values)), self.backward_s)
        return values


def few_large():
    return Layers(8, 1024, backward_s=0.2)


def many_small():
    return Layers(200, 64, backward_s=0.001)


# How each way makes its model, and what it tells DDP.
WAYS = {
    "one_bucket": (few_large, {"bucket_cap_mb": 1000}),
    "overlapped": (few_large, {"bucket_cap_mb": 4}),
    "tensor_by_tensor": (many_small, {"bucket_cap_mb": NO_BUCKETS_MB}),
    "together": (many_small, {}),
}


def main(way, steps):
    torch.set_num_threads(1)
    torch.manual_seed(0)
    dist.init_process_group("gloo")
    make, options = WAYS[way]
    layers = make()
    model = DistributedDataParallel(layers, **options)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    inputs = torch.randn(SAMPLES, layers.width)
    for _ in range(steps):
        model(inputs).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
