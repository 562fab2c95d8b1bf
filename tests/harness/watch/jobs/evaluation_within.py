"""A model is evaluated within an accumulation, without gradients; the last micro-batch alone
synchronizes.
"""

import contextlib

import torch
from torch.nn.functional import mse_loss
from torch.nn.parallel import DistributedDataParallel
from training import counted, make_model, windows


def train(evaluate):
    """`evaluate(model, inputs)`: once in a step, between two micro-batches."""
    model = DistributedDataParallel(make_model(batch_norm=True))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for window in windows():
        for number, (is_last, inputs, targets) in enumerate(window):
            if number == 2:
                model.eval()
                evaluate(model, inputs)
                model.train()
            with contextlib.nullcontext() if is_last else model.no_sync():
                mse_loss(model(inputs), targets).backward()
        optimizer.step()
        optimizer.zero_grad()


@counted
def main():
    def evaluate(model, inputs):
        with torch.no_grad():
            model(inputs)

    train(evaluate)


if __name__ == "__main__":
    main()
