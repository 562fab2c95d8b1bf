"""Sequences of other lengths with the Trainer of transformers, which is told its split.

with_trainer.py FOLDER MICRO_BATCHES MICRO_BATCH_SIZE
"""

import sys

import torch
import transformers
from plain import SAMPLES, WORDS, sequences

WIDTH, LAYERS = 32, 2


def samples():
    inputs, labels = sequences(are_whole=False)
    for i in range(SAMPLES):
        length = int((labels[i] != -100).sum())
        yield {"input_ids": inputs[i, :length].tolist(), "labels": labels[i, :length].tolist()}


def collated(rows):
    length = max(len(row["input_ids"]) for row in rows)

    def padded(name, value):
        return torch.tensor([row[name] + [value] * (length - len(row[name])) for row in rows])

    mask = torch.tensor(
        [[1] * len(r["input_ids"]) + [0] * (length - len(r["input_ids"])) for r in rows]
    )
    return {
        "input_ids": padded("input_ids", 0),
        "labels": padded("labels", -100),
        "attention_mask": mask,
    }


def main():
    folder, count, size = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    transformers.set_seed(1)
    config = transformers.LlamaConfig(
        vocab_size=WORDS,
        hidden_size=WIDTH,
        intermediate_size=2 * WIDTH,
        num_hidden_layers=LAYERS,
        num_attention_heads=2,
        num_key_value_heads=2,
        max_position_embeddings=64,
    )
    model = transformers.LlamaForCausalLM(config)
    arguments = transformers.TrainingArguments(
        output_dir=folder,
        use_cpu=True,
        max_steps=2,
        per_device_train_batch_size=size,
        gradient_accumulation_steps=count,
        report_to=[],
        save_strategy="no",
        disable_tqdm=True,
        max_grad_norm=0.0,
    )
    trainer = transformers.Trainer(
        model, arguments, train_dataset=list(samples()), data_collator=collated
    )
    trainer.train()


if __name__ == "__main__":
    main()
