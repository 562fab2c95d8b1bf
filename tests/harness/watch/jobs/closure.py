"""The optimizer is given a closure, as trainers do, that runs the last micro-batch of a step."""

import torch
from torch.nn.functional import mse_loss
from torch.nn.parallel import DistributedDataParallel
from training import counted, make_model, windows


@counted
def main():
    model = DistributedDataParallel(make_model())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

    def run(inputs, targets):
        loss = mse_loss(model(inputs), targets)
        loss.backward()
        return loss

    for window in windows():
        optimizer.zero_grad()
        *others, (_, *last) = window
        for _, inputs, targets in others:
            with model.no_sync():
                run(inputs, targets)
        optimizer.step(lambda last=last: run(*last))


if __name__ == "__main__":
    main()
