"""A generator and its critic as tutorials have them: the critic's losses on what is real and what
is made run backward one after the other, and the generator's runs through the critic. Each
synchronizes the critic: twice in its own steps, once in the generator's.
"""

import contextlib

import torch
from torch.nn.functional import binary_cross_entropy_with_logits, softplus
from torch.nn.parallel import DistributedDataParallel
from training import FEATURES, batches, counted, make_model


def train(around_real):
    """`around_real(critic)`: the context of the first of the critic's two backwards."""
    generator = DistributedDataParallel(torch.nn.Linear(FEATURES, FEATURES))
    critic = DistributedDataParallel(make_model())
    generator_optimizer = torch.optim.SGD(generator.parameters(), lr=0.01)
    critic_optimizer = torch.optim.SGD(critic.parameters(), lr=0.01)
    for inputs, _ in batches(12):
        critic_optimizer.zero_grad()
        with around_real(critic):
            outputs = critic(inputs)  # to change
            loss = binary_cross_entropy_with_logits(outputs, torch.ones_like(outputs))
            loss.backward()
        made = generator(torch.randn_like(inputs))
        softplus(critic(made.detach())).mean().backward()
        critic_optimizer.step()
        generator_optimizer.zero_grad()
        softplus(-critic(made)).mean().backward()
        generator_optimizer.step()


@counted
def main():
    train(lambda critic: contextlib.nullcontext())


if __name__ == "__main__":
    main()
