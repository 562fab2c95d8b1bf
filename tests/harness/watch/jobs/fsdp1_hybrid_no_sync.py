"""FullyShardedDataParallel's hybrid sharding that reduces in the last micro-batch alone."""

import contextlib

import torch
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FullyShardedDataParallel, ShardingStrategy
from torch.nn.functional import mse_loss
from training import counted, make_model, windows


@counted
def main():
    model = FullyShardedDataParallel(
        make_model(),
        device_id=torch.device("cpu"),
        device_mesh=init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp_replicate", "dp_shard")),
        sharding_strategy=ShardingStrategy._HYBRID_SHARD_ZERO2,
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for window in windows():
        for is_last, inputs, targets in window:
            with contextlib.nullcontext() if is_last else model.no_sync():
                mse_loss(model(inputs), targets).backward()
        optimizer.step()
        optimizer.zero_grad()


if __name__ == "__main__":
    main()
