"""Hybrid sharding whose flag for replicas is undone by the one for all gradients."""

import torch
from torch.nn.functional import mse_loss
from training import counted, make_hybrid, windows


@counted
def main():
    model = make_hybrid()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for window in windows():
        for is_last, inputs, targets in window:
            model.set_requires_all_reduce(is_last)  # to change
            model.set_requires_gradient_sync(True)
            mse_loss(model(inputs), targets).backward()
        optimizer.step()
        optimizer.zero_grad()


if __name__ == "__main__":
    main()
