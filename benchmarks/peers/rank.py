"""One rank of a peer: transformers' BERT under torch's DDP or fully_shard, timed as gradsync times
its own.

usage: rank.py SPECIFICATION     JSON, as made by launches.py; torch's variables in the environment
It waits for a line on stdin (its network is being made), then prints its blocks as one JSON line.

Inside the clock: fetching micro-batches from memory, forward, backward, communication, optimizer,
scheduler, zeroing gradients. Outside: making the data, the bucket rebuild, warm-up, barriers. Steps
of a block touch. Collectives are counted in one more step of each strategy.
"""

import itertools
import json
import os
import random
import sys
import time
from datetime import timedelta

import torch
import torch.distributed as dist
from collectives import CountsCollectives
from recomputing import Recomputing
from recording import WAYS
from strategies import STRATEGIES, AccelerateTraining, FullyShardTraining, TorchTraining
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    get_linear_schedule_with_warmup,
)

# As harness/run/workload.cpp and models/bert.h have them.
PREPARED_BATCHES = 32
WARMUP_SCHEDULER_STEPS, TOTAL_SCHEDULER_STEPS = 100, 1_000_000
LR, WEIGHT_DECAY = 2e-5, 0.01
VOCABULARY = 28996


def build_model(spec):
    layers, hidden, heads, intermediate = spec["bert"]
    config = BertConfig(
        vocab_size=VOCABULARY,
        num_hidden_layers=layers,
        hidden_size=hidden,
        num_attention_heads=heads,
        intermediate_size=intermediate,
        num_labels=2,
        attn_implementation=spec["attention"],
    )
    return BertForSequenceClassification(config).train()


def build_batches(spec, rank):
    generator = torch.Generator().manual_seed(spec["seed"] + rank)
    shape = (spec["micro_batch_size"], spec["sequence_length"])
    return itertools.cycle(
        {
            "input_ids": torch.randint(1, VOCABULARY, shape, generator=generator),
            "labels": torch.randint(0, 2, shape[:1], generator=generator),
        }
        for _ in range(PREPARED_BATCHES)
    )


def shard(model, reshard_after_forward):
    """The encoder's layers are units and the rest is the root, as models/bert.h divides it."""
    for layer in model.bert.encoder.layer:
        fully_shard(layer, reshard_after_forward=reshard_after_forward)
    return fully_shard(model)


def build_training(spec, recomputing):
    model = build_model(spec)
    if spec["checkpointing"]:
        recomputing.checkpoint(model)
    if spec["wrapper"] == "fsdp":
        model = shard(model, spec["reshard_after_forward"])  # the optimizer has shards, too
    optimizer = torch.optim.AdamW(model.parameters(), lr=LR, weight_decay=WEIGHT_DECAY, fused=True)
    scheduler = get_linear_schedule_with_warmup(
        optimizer, WARMUP_SCHEDULER_STEPS, TOTAL_SCHEDULER_STEPS
    )
    # A cycle keeps what it has seen: once round, so that every batch is made before the clock runs.
    batches = build_batches(spec, dist.get_rank())
    for _ in range(PREPARED_BATCHES):
        next(batches)
    micro_batches = spec["accumulation_steps"]
    if spec["peer"] == "torch":
        sharded = spec["wrapper"] == "fsdp"
        training = FullyShardTraining if sharded else TorchTraining
        return training(
            model if sharded else DistributedDataParallel(model),
            optimizer,
            scheduler,
            batches,
            micro_batches,
            dist.get_world_size(),
        )
    from accelerate import Accelerator

    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=micro_batches)
    return AccelerateTraining(
        accelerator, *accelerator.prepare(model, optimizer, scheduler), batches
    )


def run_steps(step, training, count, *clocks):
    """Returns the seconds of each by each of the clocks; steps touch."""
    marks = [[clock() for clock in clocks]]
    for _ in range(count):
        step(training)
        marks.append([clock() for clock in clocks])
    return [
        [end - begin for begin, end in itertools.pairwise(times)]
        for times in zip(*marks, strict=True)
    ]


def order_of_blocks(spec):
    """Yields (round, strategy, recorded): every strategy once a round, in an order drawn from the
    seed, the same on every rank. recorded: None, or one block each of True and False."""
    order = random.Random(f"{spec['seed']} {spec['launch']}")
    sides = [True, False] if spec["recording"] else [None]
    for round_ in range(spec["rounds"]):
        for name in order.sample(spec["strategies"], len(spec["strategies"])):
            for recorded in order.sample(sides, len(sides)):
                yield round_, name, recorded


def run_blocks(spec, training, recomputing):
    clocks = (time.perf_counter, recomputing.elapsed_s)
    recording = WAYS[spec["recording"]](**spec["recording_options"])
    blocks = []
    for round_, name, recorded in order_of_blocks(spec):
        with recording(recorded):
            dist.barrier()
            warmup_step_s, _ = run_steps(STRATEGIES[name], training, spec["warmup_steps"], *clocks)
            step_s, recompute_s = run_steps(STRATEGIES[name], training, spec["steps"], *clocks)
        blocks.append(
            {
                "strategy": name,
                "round": round_,
                "recorded": recorded,
                "step_s": step_s,
                "recompute_s": recompute_s,
                "warmup_step_s": warmup_step_s,
            }
        )
    return blocks


def count_collectives(step, training):
    """Returns {operation: {"count", "bytes"}} of one step."""
    with CountsCollectives() as seen:
        step(training)
    return seen.counts


def main(spec):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", timeout=timedelta(seconds=spec["timeout_s"]))
    rank = dist.get_rank()
    torch.manual_seed(spec["seed"])
    recomputing = Recomputing()
    training = build_training(spec, recomputing)
    torch.manual_seed(spec["seed"] + rank)  # dropout's masks
    for _ in range(2):  # the first backward shows the order of gradients, then buckets are rebuilt
        STRATEGIES["baseline"](training)
    blocks = run_blocks(spec, training, recomputing)
    counts = {name: count_collectives(STRATEGIES[name], training) for name in spec["strategies"]}
    print(json.dumps({"rank": rank, "blocks": blocks, "collectives": counts}), flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    sys.stdin.readline()
    os.environ["GLOO_SOCKET_IFNAME"] = os.environ["GRADSYNC_INTERFACE"]
    main(json.loads(sys.argv[1]))
