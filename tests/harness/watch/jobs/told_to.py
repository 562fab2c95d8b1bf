"""Both forwards of a step run under no_sync, and Accelerate has the last backward synchronize."""

import torch
from accelerate import Accelerator
from torch.nn.functional import mse_loss
from training import counted, make_model, windows


@counted
def main():
    accelerator = Accelerator(cpu=True)
    model = accelerator.prepare(make_model())
    optimizer = accelerator.prepare(torch.optim.SGD(model.parameters(), lr=0.01))
    for window in windows(accumulation_steps=2):
        with accelerator.no_sync(model):
            first, last = (mse_loss(model(inputs), targets) for _, inputs, targets in window)
        accelerator.backward(first)
        with accelerator.trigger_sync_in_backward(model):
            accelerator.backward(last)
        optimizer.step()
        optimizer.zero_grad()
    accelerator.free_memory()


if __name__ == "__main__":
    main()
