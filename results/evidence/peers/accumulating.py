"""Trains BERT-mini under DDP with gradient accumulation, in the way that is named.

usage: accumulating.py improper|no_sync|baseline STEPS      one rank, as torchrun starts it

A job to watch. It prints nothing; its data is random.
"""

import contextlib
import runpy
import sys
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

MODEL = Path(__file__).resolve().parents[3] / "models" / "examples" / "bert_mini.py"
ACCUMULATION_STEPS = 4


def unsynchronized(model, micro_batch):
    """no_sync() for every micro-batch of a step but the last."""
    is_last = micro_batch == ACCUMULATION_STEPS - 1
    return contextlib.nullcontext() if is_last else model.no_sync()


def baseline(model, batch, loss_of):
    for _ in range(ACCUMULATION_STEPS):
        loss = loss_of(model, batch) / ACCUMULATION_STEPS
        loss.backward()


def improper(model, batch, loss_of):
    for micro_batch in range(ACCUMULATION_STEPS):
        loss = loss_of(model, batch) / ACCUMULATION_STEPS
        with unsynchronized(model, micro_batch):
            loss.backward()


def no_sync(model, batch, loss_of):
    for micro_batch in range(ACCUMULATION_STEPS):
        with unsynchronized(model, micro_batch):
            loss = loss_of(model, batch) / ACCUMULATION_STEPS
            loss.backward()


WAYS = {way.__name__: way for way in (baseline, improper, no_sync)}


def begin():
    """Joins the other ranks. Returns the model, a batch, and what makes a loss of both."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    dist.init_process_group("gloo")
    return runpy.run_path(str(MODEL))["build"]()


def train(way, steps, model, batch, loss_of, optimizer):
    for _ in range(steps):
        way(model, batch, loss_of)
        optimizer.step()
        optimizer.zero_grad()
    dist.destroy_process_group()


def main(way, steps):
    model, batch, loss_of = begin()
    model = DistributedDataParallel(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    train(WAYS[way], steps, model, batch, loss_of, optimizer)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
