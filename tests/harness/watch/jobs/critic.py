"""A critic with an optimizer of its own that synchronizes in every micro-batch, beside a model that
does once per step.
"""

import torch
from torch.nn.functional import mse_loss
from torch.nn.parallel import DistributedDataParallel
from training import counted, make_model, windows


@counted
def main():
    critic = DistributedDataParallel(make_model())
    model = DistributedDataParallel(make_model())
    of_critic = torch.optim.SGD(critic.parameters(), lr=0.01)
    of_model = torch.optim.SGD(model.parameters(), lr=0.01)
    for window in windows():
        for _, inputs, targets in window:
            outputs = critic(inputs)  # to change
            mse_loss(outputs, targets).backward()
        of_critic.step()
        of_critic.zero_grad()
        mse_loss(model(inputs), targets).backward()
        of_model.step()
        of_model.zero_grad()


if __name__ == "__main__":
    main()
