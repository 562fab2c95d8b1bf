"""A correct job whose wrapped model is compiled."""

import contextlib

import torch
from torch.nn.functional import mse_loss
from torch.nn.parallel import DistributedDataParallel
from training import counted, make_model, windows


@counted
def main():
    wrapped = DistributedDataParallel(make_model())
    model = torch.compile(wrapped, backend="eager")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for window in windows():
        for is_last, inputs, targets in window:
            with contextlib.nullcontext() if is_last else wrapped.no_sync():
                mse_loss(model(inputs), targets).backward()
        optimizer.step()
        optimizer.zero_grad()


if __name__ == "__main__":
    main()
