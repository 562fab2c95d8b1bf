"""A job for gate_jobs_test.py that trains until it is ended.

usage: endless_training.py [EXTRA_S]      seconds that each optimizer step waits in addition
"""

import itertools
import sys
import time

import torch
import torch.distributed as dist
from torch.nn.functional import mse_loss
from torch.nn.parallel import DistributedDataParallel


def main():
    extra_s = float(sys.argv[1]) if len(sys.argv) > 1 else 0.0
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    model = DistributedDataParallel(torch.nn.Linear(64, 64))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    inputs, targets = torch.ones(8, 64), torch.zeros(8, 64)
    for _ in itertools.count():
        mse_loss(model(inputs), targets).backward()
        time.sleep(0.005 + extra_s)
        optimizer.step()
        optimizer.zero_grad()


if __name__ == "__main__":
    main()
