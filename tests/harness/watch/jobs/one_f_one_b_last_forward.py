"""1F1B with no_sync around all micro-batches but the last, as without a pipeline: its forward arms
the backward that comes next, which is the one before.
"""

import contextlib

from pipelined import train
from training import ACCUMULATION_STEPS, counted


def forward(model, number, inputs):
    is_last = number == ACCUMULATION_STEPS - 1
    with contextlib.nullcontext() if is_last else model.no_sync():
        return model(inputs)  # to change


def backward(model, number, loss):
    loss.backward()


@counted
def main():
    train(forward, backward)


if __name__ == "__main__":
    main()
