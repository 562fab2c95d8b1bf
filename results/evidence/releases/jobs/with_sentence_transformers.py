"""with_sentence_transformers.py trainer feature: its Trainer, with gradient_accumulation_steps.

A sentence is embedded as how often it has each word.
"""

import torch
from account_of_steps import FEATURES, MICRO_BATCHES, SAMPLES, STEPS, told
from spy import RANKS, Spy, data_set_of, targets_of
from with_transformers import arguments_of

WORDS = [f"word{i}" for i in range(FEATURES)]


def rows():
    generator = torch.Generator().manual_seed(5)
    numbers = torch.randint(
        0, FEATURES, (RANKS * STEPS * MICRO_BATCHES * SAMPLES, 10), generator=generator
    )
    counts = torch.nn.functional.one_hot(numbers, FEATURES).sum(dim=1).float()
    weights = torch.linspace(-1, 1, FEATURES)
    return {
        "sentence": [" ".join(WORDS[i] for i in row) for row in numbers],
        "label": targets_of(counts * weights).tolist(),
    }


@told
def main(wrapper, policy):
    from sentence_transformers import (
        SentenceTransformer,
        SentenceTransformerTrainer,
        SentenceTransformerTrainingArguments,
    )
    from sentence_transformers.losses import MSELoss
    from sentence_transformers.models import BoW

    class Head(torch.nn.Module):
        def __init__(self, inner):
            super().__init__()
            self.inner = inner

        def forward(self, features):
            counts = features["sentence_embedding"]
            return {"sentence_embedding": self.inner(counts * torch.linspace(-1, 1, FEATURES))}

    spy = Spy()
    model = SentenceTransformer(modules=[BoW(WORDS), Head(spy.model)], device="cpu")
    arguments = SentenceTransformerTrainingArguments(output_dir=".", **arguments_of(SAMPLES))
    data = data_set_of(rows())
    SentenceTransformerTrainer(model, arguments, train_dataset=data, loss=MSELoss(model)).train()
    spy.close()


if __name__ == "__main__":
    main()
