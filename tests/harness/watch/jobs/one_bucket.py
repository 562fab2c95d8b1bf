"""32 MiB of gradients in one bucket, since somebody thought that fewer are better."""

import torch
from torch.nn.functional import mse_loss
from torch.nn.parallel import DistributedDataParallel
from training import SlowModel, batches, counted


@counted
def main():
    model = DistributedDataParallel(SlowModel(), bucket_cap_mb=1000)  # the waste
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for inputs, targets in batches(8):
        mse_loss(model(inputs), targets).backward()
        optimizer.step()
        optimizer.zero_grad()


if __name__ == "__main__":
    main()
