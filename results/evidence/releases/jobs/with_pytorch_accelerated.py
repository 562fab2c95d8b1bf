"""with_pytorch_accelerated.py ddp feature|clipped: gradient_accumulation_steps of its Trainer.

clipped: with gradient_clip_value, too.
"""

import torch
from account_of_steps import MICRO_BATCHES, RATE, SAMPLES, told
from spy import Spy, samples

LIMIT = 0.01  # below what most gradients here are


@told
def main(wrapper, policy):
    from pytorch_accelerated import Trainer

    spy = Spy()
    trainer = Trainer(
        model=spy.model,
        loss_func=torch.nn.functional.mse_loss,
        optimizer=torch.optim.SGD(spy.model.parameters(), lr=RATE),
        callbacks=(),
    )
    trainer.train(
        train_dataset=samples(),
        num_epochs=1,
        per_device_batch_size=SAMPLES,
        gradient_accumulation_steps=MICRO_BATCHES,
        gradient_clip_value=LIMIT if policy == "clipped" else None,
    )
    spy.close()


if __name__ == "__main__":
    main()
