"""fully_shard over tensor-parallel layers, which reduces in the last micro-batch alone."""

import torch
from torch.nn.functional import mse_loss
from training import counted, make_tensor_parallel, windows


@counted
def main():
    model = make_tensor_parallel()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for window in windows():
        for is_last, inputs, targets in window:
            model.set_requires_gradient_sync(is_last)
            mse_loss(model(inputs), targets).backward()
        optimizer.step()
        optimizer.zero_grad()


if __name__ == "__main__":
    main()
