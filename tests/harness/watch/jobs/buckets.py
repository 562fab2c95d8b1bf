"""The same gradients accumulated properly, in buckets as DDP has them by itself."""

import torch
from torch.nn.functional import mse_loss
from torch.nn.parallel import DistributedDataParallel
from training import SlowModel, counted, windows


@counted
def main():
    model = DistributedDataParallel(SlowModel())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for window in windows():
        with model.no_sync():
            for _, inputs, targets in window[:-1]:
                mse_loss(model(inputs), targets).backward()
        _, inputs, targets = window[-1]
        mse_loss(model(inputs), targets).backward()
        optimizer.step()
        optimizer.zero_grad()


if __name__ == "__main__":
    main()
