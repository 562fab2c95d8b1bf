"""Accelerate's accumulate."""

import torch
from accelerate import Accelerator
from torch.nn.functional import mse_loss
from training import batches, counted, make_model


@counted
def main():
    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=4)
    model = make_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    model, optimizer = accelerator.prepare(model, optimizer)
    for inputs, targets in batches(24):
        with accelerator.accumulate(model):
            accelerator.backward(mse_loss(model(inputs), targets))
            optimizer.step()
            optimizer.zero_grad()
    accelerator.free_memory()


if __name__ == "__main__":
    main()
