"""Small trainings with the bugs of public projects, and with their fixes: see README.md.

All have four micro-batches a step where nothing else is said.
"""

import contextlib

import torch
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

MICRO_BATCHES = 4
STEPS = 4


def layers(count, width=64):
    return torch.nn.Sequential(*(torch.nn.Linear(width, width, bias=False) for _ in range(count)))


def optimizer_of(model):
    return torch.optim.SGD(model.parameters(), lr=0.01)


def train(model, before, micro_batches=MICRO_BATCHES, width=64):
    """`before`: told before each micro-batch whether it is the last of its step."""
    optimizer = optimizer_of(model)
    for _ in range(STEPS):
        for number in range(micro_batches):
            before(number == micro_batches - 1)
            model(torch.ones(2, width)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()


def replicas_of_shards(fixed):
    """VeOmni: two replicas of one shard each, of two units."""
    mesh = init_device_mesh("cpu", (2, 1), mesh_dim_names=("replicate", "shard"))
    model = layers(2)
    fully_shard(model[0], mesh=mesh)
    fully_shard(model, mesh=mesh)
    train(model, lambda is_last: model.set_requires_all_reduce(is_last or not fixed))


def growing_windows(fixed):
    """SkyRL: a first window of two micro-batches, the others have three."""
    model = DistributedDataParallel(layers(2))
    optimizer = optimizer_of(model)
    learned = 2
    for window in (learned, 3, 3, 3, 3):
        for number in range(window):
            syncs = number == (window if fixed else learned) - 1
            with contextlib.nullcontext() if syncs else model.no_sync():
                model(torch.ones(2, 64)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()


def timesteps(fixed):
    """verl-omni: each micro-batch is a timestep of denoising."""
    model = layers(2)
    fully_shard(model[0])
    fully_shard(model)
    train(model, lambda is_last: model.set_requires_gradient_sync(is_last or not fixed))


def grad_norms(rank, fixed):
    """AReaL: returns the norm of the gradients of one batch, whole and in four micro-batches of
    unequal weight.
    """
    batch = torch.arange(128.0).reshape(2, 64)[rank] / 128
    return [norm_in_parts(batch, sizes, fixed) for sizes in ([64], [8, 24, 16, 16])]


def norm_in_parts(batch, sizes, fixed):
    torch.manual_seed(0)
    model = DistributedDataParallel(torch.nn.Linear(1, 1))
    for number, part in enumerate(batch.split(sizes)):
        loss = model(part[:, None]).square().mean() * len(part) / len(batch)
        loss = loss / len(sizes) * (len(sizes) if fixed else 1)  # the schedule's, and its undoing
        is_last = number == len(sizes) - 1
        with contextlib.nullcontext() if is_last else model.no_sync():
            loss.backward()
    return torch.nn.utils.clip_grad_norm_(model.parameters(), 1e9).item()


def eight_layers(fixed):
    """Megatron-LM: a layer is 256 KiB, and half of that on each rank."""
    model = layers(8, width=256)
    for layer in model:
        fully_shard(layer, reshard_after_forward=fixed)
    fully_shard(model)
    train(model, lambda is_last: None, micro_batches=1, width=256)


def kept_parameters(fixed):
    """fairscale: one unit of 16 KiB."""
    model = layers(1)
    fully_shard(model)

    def before(is_last):
        model.set_requires_gradient_sync(is_last)
        model.set_reshard_after_backward(is_last or not fixed)

    train(model, before)
