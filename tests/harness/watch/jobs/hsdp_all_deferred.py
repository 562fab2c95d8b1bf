"""Hybrid sharding that reduces in the last micro-batch of a step alone."""

import torch
from torch.nn.functional import mse_loss
from training import counted, make_hybrid, note_held, windows


@counted
def main():
    model = make_hybrid()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for window in windows():
        for is_last, inputs, targets in window:
            model.set_is_last_backward(is_last)
            model.set_requires_gradient_sync(is_last)
            mse_loss(model(inputs), targets).backward()
            if not is_last:
                note_held(model)
        optimizer.step()
        optimizer.zero_grad()


if __name__ == "__main__":
    main()
