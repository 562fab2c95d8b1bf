"""FullyShardedDataParallel, on one axis and on two."""

from contextlib import nullcontext

import torch
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FullyShardedDataParallel, ShardingStrategy
from torch.nn.functional import mse_loss
from training import DEVICE, finish, make_model, run, sgd, windows
from truths import axis, job, once, replicas_too_often, sharded_each


def train(is_fixed, **options):
    model = FullyShardedDataParallel(make_model(), device_id=torch.device(DEVICE), **options)
    optimizer = sgd(model)
    for window in windows():
        for is_last, inputs, targets in window:
            with model.no_sync() if is_fixed and not is_last else nullcontext():
                mse_loss(model(inputs), targets).backward()  # to change
        finish(optimizer)


@job(sharded_each(), fixed=once())
def fsdp1(is_fixed):
    """Reduces in every micro-batch; fixed, under no_sync."""
    train(is_fixed)


@job(
    replicas_too_often("fsdp1_all_reduces_each", fails=False),
    fixed=once(axes={"replicate": axis({"all_reduce": 1})}),
    ranks=4,
)
def fsdp1_hybrid(is_fixed):
    """Its hybrid sharding; fixed, that which keeps parameters between forward and backward."""
    mesh = init_device_mesh(DEVICE, (2, 2), mesh_dim_names=("dp_replicate", "dp_shard"))
    strategy = "_HYBRID_SHARD_ZERO2" if is_fixed else "HYBRID_SHARD"
    train(is_fixed, device_mesh=mesh, sharding_strategy=ShardingStrategy[strategy])


if __name__ == "__main__":
    run()
