"""Ranks train apart under no_sync, and average what they gather of each other's parameters."""

import torch
import torch.distributed as dist
from torch.nn.functional import mse_loss
from torch.nn.parallel import DistributedDataParallel
from torch.nn.utils import parameters_to_vector, vector_to_parameters
from training import counted, make_model, windows


def average(parameters):
    own = parameters_to_vector(parameters).detach()
    all_ranks = [torch.empty_like(own) for _ in range(dist.get_world_size())]
    dist.all_gather(all_ranks, own)
    vector_to_parameters(torch.stack(all_ranks).mean(0), parameters)


@counted
def main():
    model = DistributedDataParallel(make_model())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for i, window in enumerate(windows(), 1):
        with model.no_sync():
            for _, inputs, targets in window:
                mse_loss(model(inputs), targets).backward()
        optimizer.step()
        optimizer.zero_grad()
        if i % 3 == 0:
            average(list(model.parameters()))


if __name__ == "__main__":
    main()
