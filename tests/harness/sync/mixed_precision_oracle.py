"""Writes what fully_shard makes of every MixedPrecisionPolicy, and DDP of parameters in bfloat16,
with and without float32 masters, and of autocast, for mixed_precision_oracle_test to compare with.

usage: mixed_precision_oracle.py FOLDER
Two ranks over gloo on loopback train the model of toy_layers.h. FOLDER gets answers.json: of each
scenario its options, and of each of its ranks the losses and collectives of its micro-batches and
the whole gradients of its steps.
Exit status 77: torch cannot be imported.
"""

import json
import multiprocessing
import os
import sys
from itertools import product
from pathlib import Path

try:
    import torch
    import torch.distributed as dist
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
    from torch.nn.parallel import DistributedDataParallel
except (ImportError, OSError) as error:
    print(f"torch cannot be imported ({error})")
    sys.exit(77)

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "benchmarks" / "peers"))
from collectives import CountsCollectives  # noqa: E402

RANKS = 2
STEPS = 2
MICRO_BATCHES = 3
LAYERS = 3
LR = 0.01
DTYPES = ("float32", "bfloat16")
# param_dtype, reduce_dtype, no_sync; way, no_sync
POLICIES = list(product(DTYPES, DTYPES, (True, False)))
WAYS = list(product(("bfloat16", "master_weights", "autocast"), (True, False)))


class Layer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.w = torch.nn.Parameter(torch.arange(64.0).sin().reshape(8, 8) / 3)
        self.b = torch.nn.Parameter(torch.full((8,), 0.01))
        self.extra = torch.nn.Parameter(torch.full((8,), 0.02))

    def forward(self, h):
        return torch.tanh(h @ self.w.t() + self.b) * (self.extra + 1)


class ToyLayers(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = torch.nn.Parameter(torch.arange(32.0).cos().reshape(4, 8))
        for i in range(LAYERS):
            self.add_module(f"layer{i}", Layer())
        self.head = torch.nn.Parameter(torch.full((8,), 0.3))

    def forward(self, ids):
        x = (ids / 10.0).to(self.embed.dtype) @ self.embed
        for i in range(LAYERS):
            x = self.get_submodule(f"layer{i}")(x)
        return (x * self.head).sum(-1).float().pow(2).mean()


def toy_batch(rank, index):
    return torch.arange(8).reshape(2, 4) + 3 * rank + 7 * index


def build_model(param_dtype, reduce_dtype):
    policy = MixedPrecisionPolicy(getattr(torch, param_dtype), getattr(torch, reduce_dtype))
    model = ToyLayers()
    for i in range(LAYERS):
        fully_shard(model.get_submodule(f"layer{i}"), mp_policy=policy)
    return fully_shard(model, mp_policy=policy)


class MasterWeights:
    """An AdamW that steps float32 copies of its parameters, which are rounded from them."""

    def __init__(self, parameters):
        self.parameters = list(parameters)
        self.masters = [p.detach().float() for p in self.parameters]
        self.adamw = build_adamw(self.masters)

    def step(self):
        for master, parameter in zip(self.masters, self.parameters, strict=True):
            master.grad = parameter.grad.float()
        self.adamw.step()
        with torch.no_grad():
            for master, parameter in zip(self.masters, self.parameters, strict=True):
                parameter.copy_(master)

    def zero_grad(self):
        for parameter in self.parameters:
            parameter.grad = None


def build_adamw(parameters):
    return torch.optim.AdamW(parameters, lr=LR, weight_decay=0.01, fused=True)


def train_under_fully_shard(rank, param_dtype, reduce_dtype, no_sync):
    model = build_model(param_dtype, reduce_dtype)
    optimizer = build_adamw(model.parameters())
    seen = train(model, model, optimizer, rank, model.set_requires_gradient_sync, no_sync)
    for step in seen["dtypes"]:
        for name, dtypes in step.items():
            wanted = param_dtype if name == "all_gather" else reduce_dtype
            if dtypes != {getattr(torch, wanted)}:
                raise AssertionError(f"{name} of {dtypes}, expected {wanted}")
    return seen


def train_under_ddp(rank, way, no_sync):
    casts = way == "autocast"
    model = DistributedDataParallel(ToyLayers() if casts else ToyLayers().bfloat16())
    build = MasterWeights if way == "master_weights" else build_adamw

    def forward(batch):
        with torch.autocast("cpu", torch.bfloat16, enabled=casts):
            return model(batch)

    def sync(syncs):
        model.require_backward_grad_sync = syncs  # as its no_sync

    return train(model, forward, build(model.parameters()), rank, sync, no_sync)


def train(model, forward, optimizer, rank, sync, no_sync):
    seen = {"losses": [], "collectives": [], "gradients": [], "dtypes": []}
    for step in range(STEPS):
        for i in range(MICRO_BATCHES):
            sync(i + 1 == MICRO_BATCHES or not no_sync)
            with CountsCollectives() as counter:
                loss = forward(toy_batch(rank, step * MICRO_BATCHES + i))
                (loss / MICRO_BATCHES).backward()
            seen["losses"].append(loss.item())
            seen["collectives"].append(dict(counter.counts))
            seen["dtypes"].append(counter.dtypes)
        seen["gradients"].append(
            {name.removeprefix("module."): whole(p.grad) for name, p in model.named_parameters()}
        )
        optimizer.step()
        optimizer.zero_grad()
    return seen


def whole(gradient):
    gradient = gradient.full_tensor() if hasattr(gradient, "full_tensor") else gradient
    return gradient.flatten().tolist()


def rank_main(rank, folder):
    os.environ |= {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    torch.set_num_threads(1)
    store = f"file://{folder / 'store'}"
    dist.init_process_group("gloo", init_method=store, rank=rank, world_size=RANKS)
    seen = {
        "fully_shard": [train_under_fully_shard(rank, *key) for key in POLICIES],
        "ddp": [train_under_ddp(rank, *key) for key in WAYS],
    }
    for each in [*seen["fully_shard"], *seen["ddp"]]:
        del each["dtypes"]
    (folder / f"rank{rank}.json").write_text(json.dumps(seen))
    dist.destroy_process_group()


def rounds_first():
    """Whether a gradient is rounded to reduce_dtype before it is added to those kept, as autograd
    does it from torch 2.15 on, and not with the sum."""
    from torch.distributed.fsdp._fully_shard._fsdp_param import FSDPParam

    return not hasattr(FSDPParam, "accumulate_unsharded_grad_if_needed")


def main(folder):
    fork = multiprocessing.get_context("fork")  # importing torch takes seconds: once
    ranks = [fork.Process(target=rank_main, args=(rank, folder)) for rank in range(RANKS)]
    for rank in ranks:
        rank.start()
    for rank in ranks:
        rank.join()
    if any(rank.exitcode != 0 for rank in ranks):
        return 1
    by_rank = [json.loads((folder / f"rank{rank}.json").read_text()) for rank in range(RANKS)]
    answers = {"lr": LR, "micro_batches": MICRO_BATCHES, "rounds_first": rounds_first()}
    for wrapper, names, keys in (
        ("fully_shard", ("param_dtype", "reduce_dtype", "no_sync"), POLICIES),
        ("ddp", ("way", "no_sync"), WAYS),
    ):
        answers[wrapper] = [
            dict(zip(names, key, strict=True)) | {"ranks": [seen[wrapper][i] for seen in by_rank]}
            for i, key in enumerate(keys)
        ]
    (folder / "answers.json").write_text(json.dumps(answers))
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
