"""An epoch ends in a window that is shorter, and synchronized."""

import contextlib

import torch
from torch.nn.functional import mse_loss
from torch.nn.parallel import DistributedDataParallel
from training import batches, counted, make_model


@counted
def main():
    model = DistributedDataParallel(make_model())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(4):
        data = list(batches(10))
        for i, (inputs, targets) in enumerate(data, 1):
            is_last = i % 4 == 0 or i == len(data)
            with contextlib.nullcontext() if is_last else model.no_sync():
                mse_loss(model(inputs), targets).backward()
            if is_last:
                optimizer.step()
                optimizer.zero_grad()


if __name__ == "__main__":
    main()
