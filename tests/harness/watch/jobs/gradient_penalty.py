"""A critic whose loss has the norm of its gradient by its inputs in it: autograd runs within the
forward, and its graph is run backward again. The last micro-batch alone synchronizes.
"""

import contextlib

import torch
from torch.nn.functional import mse_loss
from torch.nn.parallel import DistributedDataParallel
from training import counted, make_model, windows


def penalty(critic, inputs):
    inputs = inputs.clone().requires_grad_()
    [gradient] = torch.autograd.grad(critic(inputs).sum(), inputs, create_graph=True)
    return (gradient.norm(dim=1) - 1).square().mean()


@counted
def main():
    critic = DistributedDataParallel(make_model())
    optimizer = torch.optim.SGD(critic.parameters(), lr=0.01)
    for window in windows():
        for is_last, inputs, targets in window:
            with contextlib.nullcontext() if is_last else critic.no_sync():
                loss = mse_loss(critic(inputs), targets) + penalty(critic, inputs)
                loss.backward()
        optimizer.step()
        optimizer.zero_grad()


if __name__ == "__main__":
    main()
