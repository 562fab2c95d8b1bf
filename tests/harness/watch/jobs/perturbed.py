"""Two backwards of a step at different weights, moved by noise and without a look at gradients."""

import torch
from torch.nn.functional import mse_loss
from torch.nn.parallel import DistributedDataParallel
from training import batches, counted, make_model


@counted
def main():
    model = DistributedDataParallel(make_model())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    weight = model.module[0].weight
    generator = torch.Generator().manual_seed(7)
    for inputs, targets in batches(12):
        mse_loss(model(inputs), targets).backward()
        noise = 0.05 * torch.randn(weight.shape, generator=generator)
        weight.data.add_(noise)
        mse_loss(model(inputs), targets).backward()
        weight.data.sub_(noise)
        optimizer.step()
        optimizer.zero_grad()


if __name__ == "__main__":
    main()
