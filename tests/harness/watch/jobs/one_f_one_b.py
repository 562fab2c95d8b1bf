"""1F1B as torch.distributed.pipelining has it under DDP: every forward under no_sync, and the
reducer armed before the last backward.
"""

from pipelined import train
from training import ACCUMULATION_STEPS, counted


def forward(model, number, inputs):
    with model.no_sync():
        return model(inputs)


def backward(model, number, loss):
    if number == ACCUMULATION_STEPS - 1:
        model.reducer.prepare_for_backward([])
        loss.backward()
        return
    with model.no_sync():
        loss.backward()


@counted
def main():
    train(forward, backward)


if __name__ == "__main__":
    main()
