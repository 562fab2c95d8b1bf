"""with_pytorch_accelerated.py ddp feature|clipped: gradient_accumulation_steps of its Trainer.

clipped: with gradient_clip_value, too, and how far the step is from one whose gradients each rank
clips behind every micro-batch, before they are reduced.
"""

import torch
from account_of_steps import MICRO_BATCHES, RATE, SAMPLES, told
from spy import Spy, samples

LIMIT = 0.01  # below what most gradients here are


class SpyOnClipping(Spy):
    def more_to_say(self, gradients, moved):
        ranks = torch.stack(gradients).unflatten(0, (-1, MICRO_BATCHES)) / MICRO_BATCHES
        held = torch.zeros_like(ranks[:, 0])
        for number in range(MICRO_BATCHES - 1):
            held = (held + ranks[:, number]).clamp(-LIMIT, LIMIT)
        step = (held + ranks[:, -1]).mean(dim=0).clamp(-LIMIT, LIMIT)
        off = ((moved - step).norm() / moved.norm()).item()
        return super().more_to_say(gradients, moved) | {"left_over_if_clipped": off}


@told
def main(wrapper, policy):
    from pytorch_accelerated import Trainer

    spy = (SpyOnClipping if policy == "clipped" else Spy)()
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
