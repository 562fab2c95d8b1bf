"""with_transformers.py trainer feature|every FOLDER

The Trainer with sequences of other lengths, on purpose: each micro-batch has other tokens that
count. every: gradient_accumulation_kwargs' sync_each_batch.
"""

import os

import torch
from account_of_steps import MICRO_BATCHES, RATE, STEPS, Account, told

WORDS, LENGTH, ROWS = 20, 12, 2


def make():
    import transformers

    transformers.set_seed(1)
    config = transformers.LlamaConfig(
        vocab_size=WORDS,
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=2,
        max_position_embeddings=64,
    )
    return transformers.LlamaForCausalLM(config)


def loss_of(model, batch):
    return model(**batch).loss


def rows():
    generator = torch.Generator().manual_seed(5)
    for _ in range(2 * MICRO_BATCHES * STEPS * ROWS):
        words = torch.randint(0, WORDS, (LENGTH,), generator=generator)
        labels = words.clone()
        labels[: int(torch.randint(1, LENGTH - 2, (1,), generator=generator))] = -100
        yield {"input_ids": words, "labels": labels}


def arguments_of(rows):
    """Returns the arguments that the Trainer shares with those made from it."""
    return {
        "use_cpu": True,
        "max_steps": STEPS,
        "per_device_train_batch_size": rows,
        "gradient_accumulation_steps": MICRO_BATCHES,
        "learning_rate": RATE,
        "lr_scheduler_type": "constant",
        "optim": "sgd",
        "max_grad_norm": 0.0,
        "report_to": [],
        "save_strategy": "no",
        "disable_tqdm": True,
    }


def tokens_of(batch):
    return int((batch["labels"][:, 1:] != -100).sum())


@told
def main(wrapper, policy, folder):
    import transformers

    account = Account(make, loss_of)

    class Trainer(transformers.Trainer):
        def training_step(self, model, inputs, *more, **named):
            account.saw({name: inputs[name].clone() for name in ("input_ids", "labels")})
            return super().training_step(model, inputs, *more, **named)

    class Callback(transformers.TrainerCallback):
        def on_train_begin(self, *_, model, **__):
            account.stepped(model.parameters())

        def on_step_end(self, *_, model, **__):
            account.stepped(model.parameters())

    each = {"gradient_accumulation_kwargs": {"sync_each_batch": True}}
    arguments = transformers.TrainingArguments(
        output_dir=folder,
        accelerator_config=each if policy == "every" else {},
        **arguments_of(ROWS),
    )
    Trainer(make(), arguments, train_dataset=list(rows()), callbacks=[Callback()]).train()
    account.close(tokens_of)


if __name__ == "__main__":
    os.environ.setdefault("TRANSFORMERS_OFFLINE", "1")
    main()
