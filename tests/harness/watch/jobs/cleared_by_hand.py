"""Two tasks whose gradients are combined by hand: each is needed alone, and synchronized."""

import torch
from torch.nn.functional import l1_loss, mse_loss
from torch.nn.parallel import DistributedDataParallel
from training import batches, counted, make_model


@counted
def main():
    model = DistributedDataParallel(make_model())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for inputs, targets in batches(12):
        mse_loss(model(inputs), targets).backward()
        kept = [parameter.grad for parameter in model.parameters()]
        for parameter in model.parameters():
            parameter.grad = None
        l1_loss(model(inputs), targets).backward()
        for parameter, gradient in zip(model.parameters(), kept, strict=True):
            parameter.grad += gradient * (gradient * parameter.grad > 0)
        optimizer.step()
        optimizer.zero_grad()


if __name__ == "__main__":
    main()
