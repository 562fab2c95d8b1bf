"""Gradient noise scale: the norm after one batch is compared with that after four."""

import torch
from torch.nn.functional import mse_loss
from torch.nn.parallel import DistributedDataParallel
from training import ACCUMULATION_STEPS, counted, make_model, windows


def squared_norm(model):
    return sum(parameter.grad.pow(2).sum().item() for parameter in model.parameters())


@counted
def main():
    model = DistributedDataParallel(make_model())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for window in windows():
        small = None
        for is_last, inputs, targets in window:
            (mse_loss(model(inputs), targets) / ACCUMULATION_STEPS).backward()
            if small is None:
                small = ACCUMULATION_STEPS**2 * squared_norm(model)
            if is_last:
                noise = small - squared_norm(model)
                assert noise == noise
        optimizer.step()
        optimizer.zero_grad()


if __name__ == "__main__":
    main()
