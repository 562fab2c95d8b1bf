"""with_mosaicml.py ddp feature: device_train_microbatch_size of Composer's Trainer."""

import os

import torch
from account_of_steps import MICRO_BATCHES, RATE, SAMPLES, told
from spy import Spy, of_this_rank


@told
def main(wrapper, policy):
    os.environ.setdefault("NODE_RANK", "0")
    from composer import ComposerModel, Trainer
    from composer.utils import dist

    class Model(ComposerModel):
        def __init__(self, inner):
            super().__init__()
            self.inner = inner

        def forward(self, batch):
            return self.inner(batch[0])

        def loss(self, outputs, batch):
            return torch.nn.functional.mse_loss(outputs, batch[1])

    dist.initialize_dist("cpu")
    spy = Spy()
    trainer = Trainer(
        model=Model(spy.model),
        train_dataloader=of_this_rank(MICRO_BATCHES * SAMPLES),
        optimizers=torch.optim.SGD(spy.model.parameters(), lr=RATE),
        max_duration="1ep",
        device="cpu",
        device_train_microbatch_size=SAMPLES,
        progress_bar=False,
        loggers=[],
    )
    trainer.fit()
    spy.close()


if __name__ == "__main__":
    main()
