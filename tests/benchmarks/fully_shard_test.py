"""Gathers and reductions of a step under FSDP, held against torch's own fully_shard.

Both shard a model of two layers and a rest over two ranks. Sizes differ; which unit is gathered and
reduced in which micro-batch must not, also where layers are checkpointed: in the way of torchtitan,
whose checkpoints are inside of the shards, and the other way round. Nor where some are frozen, so
that what is in no layer is frozen in part, or all weights except low-rank updates.
"""

import json
import multiprocessing
import os
import sys
import unittest

from program import QUICK, ROOT, WATCHDOG_S, ProgramTest, free_port, with_cells

SKIPPED = 77
RANKS = 2
LAYERS = 2  # as bert_tiny and mixtral_tiny, which is smaller
MICRO_BATCHES = 3
OPTIONS = [(forward, backward) for forward in (True, False) for backward in (True, False)]
OPERATIONS = ("all_gather", "reduce_scatter")
sys.path.insert(0, str(ROOT / "benchmarks" / "peers"))

os.environ.setdefault("OMP_NUM_THREADS", "1")  # no thread comes along into a fork
try:
    import torch
    import torch._dynamo  # else each rank would, for its optimizer
    import torch.distributed
    from collectives import CountsCollectives
    from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
    from torch.distributed.fsdp import fully_shard
    from torch.utils.checkpoint import checkpoint
except ImportError:
    print("skipped: this Python has no torch; run harness/setup --oracles")
    sys.exit(SKIPPED)


# Where a layer's checkpoint is, seen from its shards.
CHECKPOINTS = ("none", "inside", "outside")


UPDATES = "all but low-rank updates"
# With how many layers frozen, and all before them.
LEVERS = [
    *((where, 0) for where in CHECKPOINTS),
    ("none", 1),
    ("inside", 1),
    ("none", 2),
    ("none", UPDATES),
    ("inside", UPDATES),
]


class UpdatedLinear(torch.nn.Linear):
    def __init__(self):
        super().__init__(8, 8)
        self.requires_grad_(False)
        self.first = torch.nn.Linear(8, 2, bias=False)
        self.second = torch.nn.Linear(2, 8, bias=False)

    def forward(self, x):
        return super().forward(x) + self.second(self.first(x))


class Model(torch.nn.Module):
    def __init__(self, checkpoints, frozen):
        super().__init__()
        self.checkpoints = checkpoints
        self.updates = frozen == UPDATES
        self.first = torch.nn.Linear(4, 8)
        self.layers = torch.nn.ModuleList(self._layer() for _ in range(LAYERS))
        self.last = torch.nn.Linear(8, 1)
        layers = 0 if self.updates else frozen
        for module in [self.first, *self.layers][: layers + 1 if frozen else 0]:
            module.requires_grad_(False)

    def _layer(self):
        linear = UpdatedLinear() if self.updates else torch.nn.Linear(8, 8)
        layer = torch.nn.Sequential(linear, torch.nn.Tanh())
        return checkpoint_wrapper(layer) if self.checkpoints == "inside" else layer

    def forward(self, x):
        x = self.first(x)
        for layer in self.layers:
            outside = self.checkpoints == "outside"
            x = checkpoint(layer, x, use_reentrant=False) if outside else layer(x)
        return self.last(x).pow(2).mean()


def count_step(reshard_after_forward, reshard_after_backward, no_sync, checkpoints, frozen):
    """Returns the collectives of a second, steady step of this rank, by name."""
    model = Model(checkpoints, frozen)
    for layer in model.layers:
        fully_shard(layer, reshard_after_forward=reshard_after_forward)
    fully_shard(model)
    optimizer = torch.optim.AdamW(model.parameters(), foreach=False)
    for _ in range(2):
        with CountsCollectives() as counter:
            for micro_batch in range(MICRO_BATCHES):
                syncs = micro_batch + 1 == MICRO_BATCHES or not no_sync
                model.set_requires_gradient_sync(syncs)
                model.set_reshard_after_backward(syncs or reshard_after_backward)
                model(torch.ones(2, 4)).backward()
        optimizer.step()
        optimizer.zero_grad()
    return {name: counter.counts[name]["count"] for name in OPERATIONS}


def rank_main(rank, port, file):
    place = {"RANK": rank, "WORLD_SIZE": RANKS, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    os.environ |= {name: str(value) for name, value in place.items()}
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo")
    steps = [
        [*key, count_step(*key)]
        for forward, backward in OPTIONS
        for no_sync in (False, True)
        for where, frozen in LEVERS
        for key in [(forward, backward, no_sync, where, frozen)]
    ]
    if rank == 0:
        file.write_text(json.dumps(steps))
    torch.distributed.destroy_process_group()


class FullyShardTest(ProgramTest):
    def steps_of_torch(self):
        """Returns the steps of ranks that are forked from here, where torch is imported."""
        port, file = free_port(), self.place / "steps.json"
        forked = multiprocessing.get_context("fork")
        ranks = [forked.Process(target=rank_main, args=(r, port, file)) for r in range(RANKS)]
        for rank in ranks:
            rank.start()
            self.addCleanup(rank.kill)
        for rank in ranks:
            rank.join(WATCHDOG_S)
            self.assertEqual(rank.exitcode, 0)
        return {tuple(key): counts for *key, counts in json.loads(file.read_text())}

    def steps_of_ours(self, model, out, **freezing):
        plan = with_cells(
            QUICK | {"steps": 1, "warmup_steps": 1},
            model=[model],
            wrapper=["fsdp"],
            strategy=["baseline", "no_sync"],
            reshard_after_forward=[True, False],
            reshard_after_backward=[True, False],
            activation_checkpointing=["none", "full"],
            accumulation_steps=[MICRO_BATCHES],
            micro_batch_size=[1],
            sequence_length=[8],
            **freezing,
        )
        outcome = self.run_plan(plan, out=out)
        self.assertEqual(outcome.status, 0, outcome.err)
        steps = {}
        for trial in self.trials(out):
            cell = trial["cell"]
            key = (
                cell["reshard_after_forward"],
                cell["reshard_after_backward"],
                cell["strategy"] == "no_sync",
                cell["activation_checkpointing"],
                UPDATES if cell["lora_rank"] else cell["frozen_units"],
            )
            moved = trial["ledger"]["per_step"]
            counts = {name: moved[name]["count"] for name in OPERATIONS}
            self.assertEqual(steps.setdefault(key, counts), counts, cell)
        return steps

    def test_every_option_communicates_as_fully_shard_does(self):
        torchs = self.steps_of_torch()
        self.assertEqual(len(torchs), 2 * len(OPTIONS) * len(LEVERS))
        ours = self.steps_of_ours("mixtral_tiny", "frozen", frozen_units=[0, 1, 2])
        ours |= self.steps_of_ours(
            "bert_tiny", "updates", lora_rank=[4], lora_modules=["query_value", "all_linear"]
        )
        self.assertEqual(len(ours), 2 * len(OPTIONS) * 2 * 4)
        for (*options, where, frozen), counts in torchs.items():
            key = (*options, "none" if where == "none" else "full", frozen)
            with self.subTest(options=options, checkpoints=where, frozen=frozen):
                self.assertEqual(ours[key], counts)


if __name__ == "__main__":
    unittest.main()
