"""Sharpness-aware minimization: two backwards of a step at different weights."""

import torch
from torch.nn.functional import mse_loss
from torch.nn.parallel import DistributedDataParallel
from training import batches, counted, make_model


@counted
def main():
    model = DistributedDataParallel(make_model())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for inputs, targets in batches(12):
        mse_loss(model(inputs), targets).backward()
        steps = [0.05 * parameter.grad for parameter in model.parameters()]
        with torch.no_grad():
            for parameter, step in zip(model.parameters(), steps, strict=True):
                parameter += step
        optimizer.zero_grad()  # between
        mse_loss(model(inputs), targets).backward()
        with torch.no_grad():
            for parameter, step in zip(model.parameters(), steps, strict=True):
                parameter -= step
        optimizer.step()
        optimizer.zero_grad()


if __name__ == "__main__":
    main()
