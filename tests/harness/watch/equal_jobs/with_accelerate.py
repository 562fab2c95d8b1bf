"""The samples of plain.py with Accelerate, which takes the split from the environment.

with_accelerate.py [step | micro_batch]
"""

import os
import sys

import torch
from accelerate import Accelerator
from plain import STEPS, WIDTH, WORDS, sequences, tokens_in
from torch.nn.functional import cross_entropy


def main():
    ranks, count, size = map(int, os.environ["GRADSYNC_SPLIT"].split())
    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=count)
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Embedding(WORDS, WIDTH), torch.nn.Linear(WIDTH, WORDS))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    data = torch.utils.data.TensorDataset(*sequences(are_whole=False))
    loader = torch.utils.data.DataLoader(data, batch_size=size)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    batches = iter(loader)
    for _ in range(STEPS):
        step = [next(batches) for _ in range(count)]
        own = torch.tensor(sum(tokens_in(labels) for _, labels in step))
        total = accelerator.reduce(own).item()
        for inputs, labels in step:
            with accelerator.accumulate(model):
                logits = model(inputs).flatten(0, 1)
                loss = cross_entropy(logits, labels.flatten(), reduction="sum")
                if sys.argv[1] == "step":
                    # Accelerate divides by the micro-batches, and ranks are averaged.
                    loss = loss * count * ranks / total
                else:
                    loss = loss / tokens_in(labels)
                accelerator.backward(loss)
                optimizer.step()
                optimizer.zero_grad()
    accelerator.end_training()


if __name__ == "__main__":
    main()
