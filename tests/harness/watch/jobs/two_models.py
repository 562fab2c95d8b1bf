"""Two models of one size train side by side, each synchronized once per step."""

import torch
from torch.nn.functional import mse_loss
from torch.nn.parallel import DistributedDataParallel
from training import batches, counted, make_model


@counted
def main():
    first = DistributedDataParallel(make_model())
    second = DistributedDataParallel(make_model())
    optimizers = [torch.optim.SGD(model.parameters(), lr=0.01) for model in (first, second)]
    for inputs, targets in batches(12):
        mse_loss(first(inputs), targets).backward()
        mse_loss(second(inputs), targets).backward()
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad()


if __name__ == "__main__":
    main()
