"""Batches for the oracles that ask transformers' models."""

import torch

LENGTHS = (24, 17, 5)


def build_batch(vocabulary, padded):
    """Returns input_ids and attention_mask, [3, 24] each, rows padded to LENGTHS or all full."""
    shape = (len(LENGTHS), max(LENGTHS))
    ids = torch.randint(1, vocabulary, shape)
    mask = torch.ones(shape, dtype=torch.long)
    if padded:
        for row, length in enumerate(LENGTHS):
            ids[row, length:] = 0
            mask[row, length:] = 0
    return {"input_ids": ids, "attention_mask": mask}


def shift_parameters(model):
    """Adds noise to every parameter, so that those which begin at 0 or 1 matter, too."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.05 * torch.randn_like(parameter))
