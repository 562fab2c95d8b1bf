"""The first micro-batch of a step synchronizes: what the others add stays on its rank."""

import contextlib

import torch
from torch.nn.functional import mse_loss
from torch.nn.parallel import DistributedDataParallel
from training import counted, make_model, windows


@counted
def main():
    model = DistributedDataParallel(make_model())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for window in windows():
        for index, (_, inputs, targets) in enumerate(window):
            with contextlib.nullcontext() if index == 0 else model.no_sync():  # to change
                mse_loss(model(inputs), targets).backward()
        optimizer.step()
        optimizer.zero_grad()


if __name__ == "__main__":
    main()
