"""A job for gate_jobs_test.py whose collectives are others in every start, as of unpadded lengths.

It trains until it is ended. What varies is made of the launcher's process id, which all ranks know.
"""

import itertools
import os

import torch
import torch.distributed as dist
from torch.nn.functional import mse_loss
from torch.nn.parallel import DistributedDataParallel


def main():
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    model = DistributedDataParallel(torch.nn.Linear(8, 8))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    lengths = torch.ones(1 + os.getppid() % 9973)
    for _ in itertools.count():
        mse_loss(model(torch.ones(2, 8)), torch.zeros(2, 8)).backward()
        dist.all_reduce(lengths)
        optimizer.step()
        optimizer.zero_grad()


if __name__ == "__main__":
    main()
