"""replicate() that is told not to synchronize, and never told to."""

import torch
from torch.distributed._composable.replicate_with_fsdp import replicate
from torch.nn.functional import mse_loss
from training import counted, make_model, windows


@counted
def main():
    model = make_model()
    replicate(model[0])
    replicate(model)
    model.set_requires_gradient_sync(False)  # to change
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for window in windows():
        for _, inputs, targets in window:
            mse_loss(model(inputs), targets).backward()
        optimizer.step()
        optimizer.zero_grad()


if __name__ == "__main__":
    main()
