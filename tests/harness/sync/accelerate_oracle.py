"""Writes what loops under Accelerate do, micro-batch by micro-batch, for accelerate_oracle_test to
compare with.

usage: accelerate_oracle.py FOLDER
Two ranks over gloo on loopback train lines y = a x + b. FOLDER gets answers.json: of each scenario
its options, and of each of its ranks and micro-batches what went in and what was seen. Numbers in
micro-batches are tenths, so that they are whole.
Exit status 77: accelerate cannot be imported.
"""

import json
import multiprocessing
import os
import sys
from pathlib import Path

try:
    import torch
    import torch.distributed as dist
    from accelerate import Accelerator
    from accelerate.state import GradientState
    from accelerate.utils import DataLoaderConfiguration, GradientAccumulationPlugin
    from torch.utils.data import DataLoader, TensorDataset
except (ImportError, OSError) as error:
    print(f"accelerate and torch cannot be imported ({error})")
    sys.exit(77)

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "benchmarks" / "peers"))
from collectives import CountsCollectives  # noqa: E402

RANKS = 2
EPOCHS = 2
MICRO_BATCHES = 5  # of an epoch and rank
MICRO_BATCH_SIZE = 2
LR = 0.01
SCHEDULE_STEPS = 40
TENTH = 10.0

DEFAULTS = {
    "num_steps": 2,
    "adjust_scheduler": True,
    "sync_with_dataloader": True,
    "sync_each_batch": False,
    "split_batches": False,
    "step_with_optimizer": True,
    "zero_grad_first": False,
    "models": 1,
}
SCENARIOS = {
    "defaults": {},
    "no accumulation": {"num_steps": 1},
    "windows of three": {"num_steps": 3},
    "windows span epochs": {"num_steps": 3, "sync_with_dataloader": False},
    "sync each batch": {"sync_each_batch": True},
    "skipped steps are not counted": {"adjust_scheduler": False},
    "split batches": {"split_batches": True},
    "the scheduler by itself": {"step_with_optimizer": False},
    "zero_grad before forward": {"zero_grad_first": True},
    "two models": {"models": 2},
}
SEVERAL_FORWARDS = [([1, 4], [2, 3]), ([-2, 5], [0, 7]), ([6, -3], [1, 1])]  # x, y; of rank 0


class Line(torch.nn.Module):
    def __init__(self, number):
        super().__init__()
        self.a = torch.nn.Parameter(torch.tensor([0.1 * (number + 1)]))
        self.b = torch.nn.Parameter(torch.tensor([-0.2 * (number + 1)]))

    def forward(self, x, y):
        return (self.a * (x / TENTH) + self.b - y / TENTH).pow(2).mean()


def build_accelerator(options):
    GradientState._reset_state()
    plugin = {
        name: options[name]
        for name in ("num_steps", "adjust_scheduler", "sync_with_dataloader", "sync_each_batch")
    }
    accelerator = Accelerator(
        cpu=True,
        gradient_accumulation_plugin=GradientAccumulationPlugin(**plugin),
        dataloader_config=DataLoaderConfiguration(split_batches=options["split_batches"]),
        step_scheduler_with_optimizer=options["step_with_optimizer"],
    )
    # A plugin hands on only what differs from its defaults, and a missing adjust_scheduler counts
    # as false though its default is true. What its documentation says:
    accelerator.gradient_state.plugin_kwargs["adjust_scheduler"] = options["adjust_scheduler"]
    return accelerator


def adjusts_scheduler_by_default():
    """Returns whether Accelerate counts skipped steps by default."""
    GradientState._reset_state()
    plugin = GradientAccumulationPlugin(num_steps=2)
    accelerator = Accelerator(cpu=True, gradient_accumulation_plugin=plugin)
    return accelerator.gradient_state.adjust_scheduler


def build_data(split_batches):
    """As many micro-batches of as many examples for each rank, split or not."""
    examples = torch.arange(RANKS * MICRO_BATCHES * MICRO_BATCH_SIZE)
    return DataLoader(
        TensorDataset(examples - 7, 3 * examples % 11),
        batch_size=MICRO_BATCH_SIZE * (RANKS if split_batches else 1),
    )


def flatten(tensors):
    return [value for tensor in tensors for value in tensor.flatten().tolist()]


def train(options):
    """Returns what this rank saw of each micro-batch."""
    accelerator = build_accelerator(options)
    models = [Line(number) for number in range(options["models"])]
    parameters = [parameter for model in models for parameter in model.parameters()]
    optimizer = torch.optim.AdamW(parameters, lr=LR, weight_decay=0.01, fused=True)
    scheduler = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: max(0.0, (SCHEDULE_STEPS - step) / SCHEDULE_STEPS)
    )
    data, optimizer, scheduler, *models = accelerator.prepare(
        build_data(options["split_batches"]), optimizer, scheduler, *models
    )
    seen = []
    for _ in range(EPOCHS):
        for x, y in data:
            with accelerator.accumulate(*models), CountsCollectives() as counter:
                if options["zero_grad_first"]:
                    optimizer.zero_grad()
                accelerator.backward(sum(model(x, y) for model in models))
                gradients = flatten(parameter.grad for parameter in parameters)
                no_sync = [not model.require_backward_grad_sync for model in models]
                optimizer.step()
                scheduler.step()
                if not options["zero_grad_first"]:
                    optimizer.zero_grad()
            seen.append(
                {
                    "x": x.tolist(),
                    "y": y.tolist(),
                    "sync_gradients": accelerator.sync_gradients,
                    "no_sync": no_sync,
                    "all_reduces": counter.counts["all_reduce"]["count"],
                    "gradients": gradients,
                    "parameters": flatten(parameter.detach() for parameter in parameters),
                    "lr": optimizer.param_groups[0]["lr"],
                    "scheduler_steps": scheduler.scheduler._step_count,
                }
            )
    return seen


def train_with_several_forwards(rank):
    """All forwards under no_sync, then all backwards, of which the last triggers the sync."""
    accelerator = build_accelerator(DEFAULTS)
    model = accelerator.prepare(Line(0))
    seen = [{"x": [value + 2 * rank for value in x], "y": y} for x, y in SEVERAL_FORWARDS]
    with accelerator.no_sync(model):
        losses = [model(torch.tensor(batch["x"]), torch.tensor(batch["y"])) for batch in seen]
    for batch, loss in zip(seen, losses, strict=True):
        with CountsCollectives() as counter:
            if loss is losses[-1]:
                with accelerator.trigger_sync_in_backward(model):
                    accelerator.backward(loss)
            else:
                accelerator.backward(loss)
        batch["all_reduces"] = counter.counts["all_reduce"]["count"]
        batch["gradients"] = flatten(parameter.grad for parameter in model.parameters())
    return seen


def rank_main(rank, folder):
    os.environ |= {
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
        "WORLD_SIZE": str(RANKS),
        "LOCAL_WORLD_SIZE": str(RANKS),
        "OMP_NUM_THREADS": "1",
        "GLOO_SOCKET_IFNAME": "lo",
    }
    torch.set_num_threads(1)
    store = f"file://{folder / 'store'}"
    dist.init_process_group("gloo", init_method=store, rank=rank, world_size=RANKS)
    seen = {name: train(DEFAULTS | changed) for name, changed in SCENARIOS.items()}
    several = train_with_several_forwards(rank)
    answer = {"seen": seen, "several": several, "adjusts": adjusts_scheduler_by_default()}
    (folder / f"rank{rank}.json").write_text(json.dumps(answer))
    dist.destroy_process_group()


def main(folder):
    fork = multiprocessing.get_context("fork")  # importing accelerate takes seconds: once
    ranks = [fork.Process(target=rank_main, args=(rank, folder)) for rank in range(RANKS)]
    for rank in ranks:
        rank.start()
    for rank in ranks:
        rank.join()
    if any(rank.exitcode != 0 for rank in ranks):
        return 1
    answers = [json.loads((folder / f"rank{rank}.json").read_text()) for rank in range(RANKS)]
    scenarios = [
        DEFAULTS | changed | {"name": name, "ranks": [answer["seen"][name] for answer in answers]}
        for name, changed in SCENARIOS.items()
    ]
    (folder / "answers.json").write_text(
        json.dumps(
            {
                "micro_batches": MICRO_BATCHES,
                "lr": LR,
                "schedule_steps": SCHEDULE_STEPS,
                "scenarios": scenarios,
                "several_forwards": [answer["several"] for answer in answers],
                "adjusts_scheduler_by_default": [answer["adjusts"] for answer in answers],
            }
        )
    )
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
