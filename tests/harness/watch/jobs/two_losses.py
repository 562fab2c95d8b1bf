"""One forward, of which two losses run backward one after the other: DDP reduces what the first
one left, and the second adds what no other rank sees.
"""

import torch
from torch.nn.functional import mse_loss
from torch.nn.parallel import DistributedDataParallel
from training import batches, counted, make_model


@counted
def main():
    model = DistributedDataParallel(make_model())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for inputs, targets in batches(12):
        outputs = model(inputs)
        mse_loss(outputs, targets).backward(retain_graph=True)
        outputs.square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()


if __name__ == "__main__":
    main()
