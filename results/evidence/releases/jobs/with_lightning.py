"""with_lightning.py ddp feature|no_sync|every

feature: the Trainer's accumulate_grad_batches; no_sync: Fabric's no_backward_sync; every: Fabric.
"""

import logging
import warnings

import torch
from account_of_steps import (
    MICRO_BATCHES,
    RATE,
    STEPS,
    Account,
    make_model,
    mean_squared_error,
    steps,
    told,
)


def by_trainer(account):
    import lightning

    class Module(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.model = make_model()

        def on_fit_start(self):
            account.stepped(self.model.parameters())

        def training_step(self, batch, number):
            account.saw(batch)
            return mean_squared_error(self.model, batch)

        def optimizer_step(self, *arguments, **more):
            super().optimizer_step(*arguments, **more)
            account.stepped(self.model.parameters())

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=RATE)

    trainer = lightning.Trainer(
        accelerator="cpu",
        devices=2,
        strategy="ddp",
        accumulate_grad_batches=MICRO_BATCHES,
        max_steps=STEPS,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        use_distributed_sampler=False,
    )
    batches = [batch for window in steps() for _, batch in window]
    trainer.fit(Module(), torch.utils.data.DataLoader(batches, batch_size=None))


def by_fabric(account, is_held):
    import lightning

    fabric = lightning.Fabric(accelerator="cpu", devices=2, strategy="ddp")
    fabric.launch()
    model = make_model()
    model, optimizer = fabric.setup(model, torch.optim.SGD(model.parameters(), lr=RATE))
    account.stepped(model.parameters())
    for window in steps():
        for is_last, batch in window:
            account.saw(batch)
            with fabric.no_backward_sync(model, enabled=is_held and not is_last):
                fabric.backward(mean_squared_error(model, batch) / MICRO_BATCHES)
        optimizer.step()
        optimizer.zero_grad()
        account.stepped(model.parameters())


@told
def main(wrapper, policy):
    warnings.simplefilter("ignore")
    logging.getLogger("lightning").setLevel(logging.ERROR)
    account = Account()
    if policy == "feature":
        by_trainer(account)
    else:
        by_fabric(account, policy == "no_sync")
    account.close()


if __name__ == "__main__":
    main()
