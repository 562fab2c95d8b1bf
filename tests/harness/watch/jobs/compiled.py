"""A correct job whose wrapped model is compiled into graphs, which run operator by operator."""

import contextlib

import torch
from torch._dynamo.utils import counters
from torch.nn.functional import mse_loss
from torch.nn.parallel import DistributedDataParallel
from training import counted, make_model, windows


class Model(torch.nn.Module):
    """Has a forward of its own: torch.compile compiles none of torch's beneath DDP."""

    def __init__(self):
        super().__init__()
        self.layers = make_model()

    def forward(self, inputs):
        return self.layers(inputs)


def train(**compilation):
    wrapped = DistributedDataParallel(Model())
    model = torch.compile(wrapped, **compilation)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for window in windows():
        for is_last, inputs, targets in window:
            with contextlib.nullcontext() if is_last else wrapped.no_sync():
                mse_loss(model(inputs), targets).backward()
        optimizer.step()
        optimizer.zero_grad()
    assert counters["stats"]["unique_graphs"] > 0, "nothing was compiled"


@counted
def main():
    train(backend="eager")


if __name__ == "__main__":
    main()
