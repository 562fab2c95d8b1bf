"""fully_shard over tensor-parallel layers, which reduces in every micro-batch."""

import torch
from torch.nn.functional import mse_loss
from training import counted, make_tensor_parallel, windows


@counted
def main():
    model = make_tensor_parallel()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for window in windows():
        for _, inputs, targets in window:
            outputs = model(inputs)  # to change
            mse_loss(outputs, targets).backward()
        optimizer.step()
        optimizer.zero_grad()


if __name__ == "__main__":
    main()
