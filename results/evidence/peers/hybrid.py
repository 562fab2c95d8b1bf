"""Trains BERT-mini under hybrid sharding with gradient accumulation, in the way that is named.

usage: hybrid.py each|deferred STEPS      one rank of two nodes, as torchrun starts it

each      replicas are all-reduced in every micro-batch, as fully_shard does unless it is told
deferred  in the last one of a step

A job to watch, of micro-batches so small that its link is what it waits for. It prints nothing; its
data is random.
"""

import os
import sys

import torch
import torch.distributed as dist
from accumulating import ACCUMULATION_STEPS, baseline, begin, train
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

MICRO_BATCH, LENGTH = 1, 16


def deferred(model, batch, loss_of):
    for micro_batch in range(ACCUMULATION_STEPS):
        model.set_requires_all_reduce(micro_batch == ACCUMULATION_STEPS - 1)
        loss = loss_of(model, batch) / ACCUMULATION_STEPS
        loss.backward()


WAYS = {"each": baseline, "deferred": deferred}


def sharded(model):
    """Shards within a node, replicates over nodes; every encoder layer is a unit."""
    of_node = int(os.environ["LOCAL_WORLD_SIZE"])
    nodes = dist.get_world_size() // of_node
    mesh = init_device_mesh("cpu", (nodes, of_node), mesh_dim_names=("replicate", "shard"))
    for layer in model.bert.encoder.layer:
        fully_shard(layer, mesh=mesh)
    return fully_shard(model, mesh=mesh)


def main(way, steps):
    model, batch, loss_of = begin()
    batch["input_ids"] = batch["input_ids"][:MICRO_BATCH, :LENGTH]
    batch["labels"] = batch["labels"][:MICRO_BATCH]
    model = sharded(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    train(WAYS[way], steps, model, batch, loss_of, optimizer)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
