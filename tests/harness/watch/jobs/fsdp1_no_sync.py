"""FullyShardedDataParallel under no_sync, but for the last micro-batch of a step."""

import contextlib

import torch
from torch.distributed.fsdp import FullyShardedDataParallel
from torch.nn.functional import mse_loss
from training import counted, make_model, windows


@counted
def main():
    model = FullyShardedDataParallel(make_model(), device_id=torch.device("cpu"))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for window in windows():
        for is_last, inputs, targets in window:
            with contextlib.nullcontext() if is_last else model.no_sync():
                outputs = model(inputs)
                mse_loss(outputs, targets).backward()
        optimizer.step()
        optimizer.zero_grad()


if __name__ == "__main__":
    main()
