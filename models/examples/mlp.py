"""`mlp` in PyTorch: models/mlp.cpp's perceptron, 512 examples of 64 tokens.

    models/record_profile.py models/examples/mlp.py:build --units Linear --out mlp_recorded.json

Each token adds to one of 64 features, so that any length fits.
"""

from itertools import pairwise

import torch

VOCABULARY = 1000
WIDTHS = (64, 512, 512, 2)
MICRO_BATCH, LENGTH = 512, 64


class Mlp(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList(
            torch.nn.Linear(fan_in, fan_out) for fan_in, fan_out in pairwise(WIDTHS)
        )

    def forward(self, ids):
        ones = torch.ones(ids.shape)
        x = torch.zeros(len(ids), WIDTHS[0]).scatter_add_(1, ids % WIDTHS[0], ones)
        for layer in self.layers[:-1]:
            x = torch.relu(layer(x))
        return self.layers[-1](x)


def build(examples=MICRO_BATCH):
    batch = {
        "ids": torch.randint(0, VOCABULARY, (examples, LENGTH)),
        "labels": torch.randint(0, 2, (examples,)),
    }
    return Mlp(), batch, loss_of


def build_2048():
    return build(2048)


def loss_of(model, batch):
    return torch.nn.functional.cross_entropy(model(batch["ids"]), batch["labels"])
