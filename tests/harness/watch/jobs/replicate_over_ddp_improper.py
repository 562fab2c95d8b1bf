"""replicate() over DDP, whose flag is set between forward and backward: too late."""

import torch
from torch.distributed._composable.replicate import replicate
from torch.nn.functional import mse_loss
from training import counted, make_model, windows


@counted
def main():
    model = replicate(make_model())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for window in windows():
        for is_last, inputs, targets in window:
            model.set_requires_gradient_sync(True)
            loss = mse_loss(model(inputs), targets)
            model.set_requires_gradient_sync(is_last)  # to change
            loss.backward()
        optimizer.step()
        optimizer.zero_grad()


if __name__ == "__main__":
    main()
