"""fully_shard, with activations recomputed in backward; the last micro-batch alone reduces."""

import torch
from checkpointed import Checkpointed
from torch.distributed.fsdp import fully_shard
from torch.nn.functional import mse_loss
from training import counted, windows


@counted
def main():
    model = fully_shard(Checkpointed(use_reentrant=False))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for window in windows():
        for is_last, inputs, targets in window:
            model.set_requires_gradient_sync(is_last)
            mse_loss(model(inputs), targets).backward()
        optimizer.step()
        optimizer.zero_grad()


if __name__ == "__main__":
    main()
