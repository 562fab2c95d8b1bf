"""A generator and its critic, whose optimizers take turns; the critic sees two batches."""

import torch
from torch.nn.functional import mse_loss
from torch.nn.parallel import DistributedDataParallel
from training import batches, counted, make_model


@counted
def main():
    generator = DistributedDataParallel(make_model())
    critic = DistributedDataParallel(make_model())
    generator_optimizer = torch.optim.SGD(generator.parameters(), lr=0.01)
    critic_optimizer = torch.optim.SGD(critic.parameters(), lr=0.01)
    for inputs, targets in batches(12):
        with torch.no_grad():
            made = inputs + generator(inputs)
        loss = mse_loss(critic(made), targets) - mse_loss(critic(inputs), targets)
        loss.backward()
        critic_optimizer.step()
        critic_optimizer.zero_grad()
        mse_loss(inputs.mean(1, keepdim=True) + generator(inputs), targets).backward()
        generator_optimizer.step()
        generator_optimizer.zero_grad()


if __name__ == "__main__":
    main()
