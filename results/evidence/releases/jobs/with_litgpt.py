"""with_litgpt.py ddp feature: the accumulation of its pretraining loop, over Fabric.

Each word follows from the one before it, so that the inputs have the targets.
"""

from pathlib import Path

import torch
from account_of_steps import MICRO_BATCHES, RATE, STEPS, told
from spy import RANKS, Spy

WORDS, LENGTH, ROWS = 20, 8, 2


def make():
    from litgpt import GPT, Config

    torch.manual_seed(1)
    return GPT(
        Config(block_size=LENGTH, vocab_size=WORDS, n_layer=1, n_head=2, n_embd=16, name="tiny")
    )


def after(words):
    return (3 * words + 1) % WORDS


def loss_of(model, words):
    return torch.nn.functional.cross_entropy(model(words).flatten(0, 1), after(words).flatten())


def rows():
    generator = torch.Generator().manual_seed(1)
    words = [torch.randint(0, WORDS, (RANKS * STEPS * MICRO_BATCHES * ROWS,), generator=generator)]
    for _ in range(LENGTH):
        words.append(after(words[-1]))
    return torch.stack(words, dim=1)


@told
def main(wrapper, policy):
    import lightning
    from litgpt import pretrain
    from litgpt.args import EvalArgs, TrainArgs

    fabric = lightning.Fabric(accelerator="cpu", devices=RANKS, strategy="ddp")
    fabric.launch()
    spy = Spy(make, loss_of)
    model = fabric.setup(spy.model)
    optimizer = fabric.setup_optimizers(torch.optim.SGD(model.parameters(), lr=RATE))
    loader = fabric.setup_dataloaders(torch.utils.data.DataLoader(rows(), batch_size=ROWS))
    train = TrainArgs(
        global_batch_size=RANKS * MICRO_BATCHES * ROWS,
        micro_batch_size=ROWS,
        max_tokens=RANKS * STEPS * MICRO_BATCHES * ROWS * LENGTH,
        lr_warmup_steps=0,
        min_lr=RATE,
        max_norm=1e6,
        save_interval=None,
    )
    state = {"model": model, "optimizer": optimizer, "iter_num": 0, "step_count": 0}
    evaluation = EvalArgs(interval=1000, max_iters=1, final_validation=False)
    pretrain.fit(fabric, RANKS, state, loader, loader, Path("."), None, train, evaluation)
    spy.close()


if __name__ == "__main__":
    main()
