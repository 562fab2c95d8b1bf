"""Hybrid sharding of which replicas are told not to synchronize, and never told to."""

import torch
from torch.nn.functional import mse_loss
from training import counted, make_hybrid, windows


@counted
def main():
    model = make_hybrid()
    model.set_requires_all_reduce(False)  # to change
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for window in windows():
        for _, inputs, targets in window:
            mse_loss(model(inputs), targets).backward()
        optimizer.step()
        optimizer.zero_grad()


if __name__ == "__main__":
    main()
