"""Trains BERT-mini under hybrid sharding with gradient accumulation, in the way that is named.

usage: hybrid.py each|deferred STEPS      one rank of two nodes, as torchrun starts it

each      replicas are all-reduced in every micro-batch, as fully_shard does unless it is told
deferred  in the last one of a step

A job to watch, of micro-batches so small that its link is what it waits for. It prints nothing; its
data is random.
"""

import os
import runpy
import sys
from pathlib import Path

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

MODEL = Path(__file__).resolve().parents[2] / "models" / "examples" / "bert_mini.py"
ACCUMULATION_STEPS = 4
MICRO_BATCH, LENGTH = 1, 16


def each(model, batch, loss_of):
    for _ in range(ACCUMULATION_STEPS):
        loss = loss_of(model, batch) / ACCUMULATION_STEPS
        loss.backward()


def deferred(model, batch, loss_of):
    for micro_batch in range(ACCUMULATION_STEPS):
        model.set_requires_all_reduce(micro_batch == ACCUMULATION_STEPS - 1)
        loss = loss_of(model, batch) / ACCUMULATION_STEPS
        loss.backward()


WAYS = {way.__name__: way for way in (each, deferred)}


def sharded(model):
    """Shards within a node, replicates over nodes; every encoder layer is a unit."""
    of_node = int(os.environ["LOCAL_WORLD_SIZE"])
    nodes = dist.get_world_size() // of_node
    mesh = init_device_mesh("cpu", (nodes, of_node), mesh_dim_names=("replicate", "shard"))
    for layer in model.bert.encoder.layer:
        fully_shard(layer, mesh=mesh)
    return fully_shard(model, mesh=mesh)


def main(way, steps):
    torch.set_num_threads(1)
    torch.manual_seed(0)
    dist.init_process_group("gloo")
    model, batch, loss_of = runpy.run_path(str(MODEL))["build"]()
    batch["input_ids"] = batch["input_ids"][:MICRO_BATCH, :LENGTH]
    batch["labels"] = batch["labels"][:MICRO_BATCH]
    model = sharded(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    for _ in range(steps):
        WAYS[way](model, batch, loss_of)
        optimizer.step()
        optimizer.zero_grad()
    dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
