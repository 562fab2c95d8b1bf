"""Accelerate without accumulate: the user counts, and nobody thought of no_sync."""

import torch
from accelerate import Accelerator
from torch.nn.functional import mse_loss
from training import counted, make_model, windows


@counted
def main():
    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=4)
    model = make_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    model, optimizer = accelerator.prepare(model, optimizer)
    for window in windows():
        for _, inputs, targets in window:
            outputs = model(inputs)  # to change
            accelerator.backward(mse_loss(outputs, targets))
        optimizer.step()
        optimizer.zero_grad()
    accelerator.free_memory()


if __name__ == "__main__":
    main()
