"""A correct job that has its ranks meet in every step for nothing that a step needs."""

import torch
import torch.distributed as dist
from torch.nn.functional import mse_loss
from torch.nn.parallel import DistributedDataParallel
from training import batches, counted, make_model

TIMES = 20  # in each step: what they take together is much of it, however slow the machine is


@counted
def main():
    model = DistributedDataParallel(make_model())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    gathered = [None] * dist.get_world_size()
    for inputs, targets in batches(12):
        loss = mse_loss(model(inputs), targets)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        for _ in range(TIMES):
            dist.barrier()  # the waste: barriers
            dist.all_gather_object(gathered, loss.item())  # the waste: object_collectives
            dist.all_reduce(loss.detach().clone())  # the waste: small_collectives


if __name__ == "__main__":
    main()
