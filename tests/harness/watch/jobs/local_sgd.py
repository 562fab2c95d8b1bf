"""Ranks train apart under no_sync, and average their parameters now and then."""

import torch
import torch.distributed as dist
from torch.nn.functional import mse_loss
from torch.nn.parallel import DistributedDataParallel
from training import counted, make_model, windows


@counted
def main():
    model = DistributedDataParallel(make_model())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for i, window in enumerate(windows(), 1):
        with model.no_sync():
            for _, inputs, targets in window:
                mse_loss(model(inputs), targets).backward()
        optimizer.step()
        optimizer.zero_grad()
        if i % 3 == 0:
            for parameter in model.parameters():
                dist.all_reduce(parameter.data)
                parameter.data /= dist.get_world_size()


if __name__ == "__main__":
    main()
