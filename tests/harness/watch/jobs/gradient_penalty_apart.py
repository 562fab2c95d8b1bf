"""Loss and penalty run backward one after the other, and each synchronizes."""

import torch
from gradient_penalty import penalty
from torch.nn.functional import mse_loss
from torch.nn.parallel import DistributedDataParallel
from training import batches, counted, make_model


@counted
def main():
    critic = DistributedDataParallel(make_model())
    optimizer = torch.optim.SGD(critic.parameters(), lr=0.01)
    for inputs, targets in batches(6):
        mse_loss(critic(inputs), targets).backward()  # to change
        penalty(critic, inputs).backward()
        optimizer.step()
        optimizer.zero_grad()


if __name__ == "__main__":
    main()
