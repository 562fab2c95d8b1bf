"""A stage of a pipeline by itself, whose micro-batches come as 1F1B has them: F F B F B F B B. What
it would be sent by other stages is made up: who reduces when is the same.
"""

import torch
from torch.nn.functional import mse_loss
from torch.nn.parallel import DistributedDataParallel
from training import make_model, windows

WARM_UP = 1  # forwards before the first that a backward follows


def train(forward, backward):
    """Runs `forward(model, number, inputs)` and `backward(model, number, loss)`, of micro-batches
    numbered from 0, in the order of 1F1B.
    """
    model = DistributedDataParallel(make_model())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for window in windows():
        losses = []
        for number, (_, inputs, targets) in enumerate(window):
            losses.append(mse_loss(forward(model, number, inputs), targets))
            if number >= WARM_UP:
                backward(model, number - WARM_UP, losses[number - WARM_UP])
        for number in range(len(window) - WARM_UP, len(window)):
            backward(model, number, losses[number])
        optimizer.step()
        optimizer.zero_grad()
