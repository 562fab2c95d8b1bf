"""A mean of the parameters over steps is kept, and a copy of the model with them is asked before
each micro-batch. Each synchronizes.
"""

import contextlib

import torch
from torch.nn.functional import mse_loss
from torch.nn.parallel import DistributedDataParallel
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
from training import counted, make_model, windows


def train(around):
    """`around(model, is_last)`: the context of a micro-batch."""
    model = DistributedDataParallel(make_model())
    averaged = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.9))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for window in windows():
        for is_last, inputs, targets in window:
            with torch.no_grad():
                wanted = averaged(inputs)
            with around(model, is_last):
                outputs = model(inputs)  # to change
                (mse_loss(outputs, targets) + mse_loss(outputs, wanted)).backward()
        optimizer.step()
        optimizer.zero_grad()
        averaged.update_parameters(model)


@counted
def main():
    train(lambda model, is_last: contextlib.nullcontext())


if __name__ == "__main__":
    main()
