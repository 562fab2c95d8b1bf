"""Hybrid sharding of gradients of 16 bits that are reduced in 32, in the last micro-batch."""

import torch
from torch.distributed.fsdp import MixedPrecisionPolicy
from torch.nn.functional import mse_loss
from training import counted, make_hybrid, note_held, windows


@counted
def main():
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    model = make_hybrid(mp_policy=policy)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for window in windows():
        for is_last, inputs, targets in window:
            model.set_requires_gradient_sync(is_last)
            outputs = model(inputs)
            mse_loss(outputs.float(), targets).backward()
            if not is_last:
                note_held(model)
        optimizer.step()
        optimizer.zero_grad()


if __name__ == "__main__":
    main()
