"""Local SGD as torch has it: a communication hook that reduces nothing after the first steps, and
an optimizer that averages parameters now and then.
"""

import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks.post_localSGD_hook import (
    PostLocalSGDState,
    post_localSGD_hook,
)
from torch.distributed.algorithms.model_averaging.averagers import PeriodicModelAverager
from torch.distributed.optim import PostLocalSGDOptimizer
from torch.nn.functional import mse_loss
from torch.nn.parallel import DistributedDataParallel
from training import batches, counted, make_model


@counted
def main():
    model = DistributedDataParallel(make_model())
    alone = dist.new_subgroups(group_size=1)[0]
    state = PostLocalSGDState(process_group=None, subgroup=alone, start_localSGD_iter=2)
    model.register_comm_hook(state, post_localSGD_hook)
    optimizer = PostLocalSGDOptimizer(
        torch.optim.SGD(model.parameters(), lr=0.01),
        PeriodicModelAverager(period=3, warmup_steps=2),
    )
    for inputs, targets in batches(12):
        mse_loss(model(inputs), targets).backward()
        optimizer.step()
        optimizer.zero_grad()


if __name__ == "__main__":
    main()
