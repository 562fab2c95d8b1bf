"""Adversarial training (FGM): the gradient of a clean batch moves weights for a second backward."""

import torch
from torch.nn.functional import mse_loss
from torch.nn.parallel import DistributedDataParallel
from training import batches, counted, make_model


@counted
def main():
    model = DistributedDataParallel(make_model())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    attacked = model.module[0].weight
    for inputs, targets in batches(12):
        mse_loss(model(inputs), targets).backward()
        attack = 0.05 * attacked.grad / attacked.grad.norm()
        attacked.data.add_(attack)
        mse_loss(model(inputs), targets).backward()
        attacked.data.sub_(attack)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()


if __name__ == "__main__":
    main()
