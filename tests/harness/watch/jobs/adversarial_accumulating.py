"""A generator and its critic take turns, each with four micro-batches of which the last alone
synchronizes.
"""

import contextlib

import torch
from torch.nn.functional import mse_loss
from torch.nn.parallel import DistributedDataParallel
from training import counted, make_model, windows


def accumulate(model, window, loss_of):
    for is_last, inputs, targets in window:
        with contextlib.nullcontext() if is_last else model.no_sync():
            loss_of(inputs, targets).backward()


@counted
def main():
    generator = DistributedDataParallel(make_model())
    critic = DistributedDataParallel(make_model())
    generator_optimizer = torch.optim.SGD(generator.parameters(), lr=0.01)
    critic_optimizer = torch.optim.SGD(critic.parameters(), lr=0.01)

    def loss_of_critic(inputs, targets):
        with torch.no_grad():
            made = inputs + generator(inputs)
        return mse_loss(critic(made), targets) - mse_loss(critic(inputs), targets)

    def loss_of_generator(inputs, targets):
        return mse_loss(inputs.mean(1, keepdim=True) + generator(inputs), targets)

    for window in windows():
        accumulate(critic, window, loss_of_critic)
        critic_optimizer.step()
        critic_optimizer.zero_grad()
        accumulate(generator, window, loss_of_generator)
        generator_optimizer.step()
        generator_optimizer.zero_grad()


if __name__ == "__main__":
    main()
