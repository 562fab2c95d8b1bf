"""Hybrid sharding that sets the flag for the last backward, which defers no reduction."""

import torch
from torch.nn.functional import mse_loss
from training import counted, make_hybrid, windows


@counted
def main():
    model = make_hybrid()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for window in windows():
        for is_last, inputs, targets in window:
            model.set_is_last_backward(is_last)
            model[0].set_reshard_after_backward(is_last)
            outputs = model(inputs)  # to change
            mse_loss(outputs, targets).backward()
        optimizer.step()
        optimizer.zero_grad()


if __name__ == "__main__":
    main()
