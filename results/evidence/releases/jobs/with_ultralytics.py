"""with_ultralytics.py ddp feature: the accumulation of its BaseTrainer, as nbs over batch says.

It wraps for GPUs alone: here it is told of two ranks, and that they are the CPU.
"""

import types

import torch
from account_of_steps import MICRO_BATCHES, RATE, SAMPLES, told
from spy import RANKS, Spy, of_this_rank, targets_of


def wrapped(wrap):
    def without_devices(self, module, device_ids=None, **more):
        wrap(self, module, **more)

    return without_devices


class Model(torch.nn.Module):
    stride, names, criterion, args = torch.tensor([32]), {0: "it"}, None, None
    yaml, nc, class_weights = {}, 1, None

    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, batch):
        loss = torch.nn.functional.mse_loss(self.inner(batch["img"]), targets_of(batch["img"]))
        return loss, {"error": loss.detach()}


class Validator:
    metrics = types.SimpleNamespace(keys=[])

    def __call__(self, trainer):
        return {"fitness": 0.0}


@told
def main(wrapper, policy):
    from ultralytics.engine.trainer import BaseTrainer

    class Trainer(BaseTrainer):
        def get_dataset(self):
            return {"train": "", "val": "", "names": {0: "it"}, "nc": 1}

        def setup_model(self):
            self.model = Model(spy.model)

        def get_dataloader(self, *_, **__):
            loader = of_this_rank(SAMPLES)
            loader.collate_fn = lambda rows: {"img": torch.stack([row[0] for row in rows])}
            return loader

        def get_validator(self):
            return Validator()

        def _setup_ddp(self):
            torch.distributed.init_process_group("gloo")

        def save_model(self):
            return False

        def final_eval(self):
            pass

    distributed = torch.nn.parallel.DistributedDataParallel
    distributed.__init__ = wrapped(distributed.__init__)
    spy = Spy()
    batch = RANKS * SAMPLES
    told_of = {"epochs": 1, "batch": batch, "nbs": MICRO_BATCHES * batch, "optimizer": "SGD"}
    told_of |= {"lr0": RATE, "lrf": 1.0, "momentum": 0.0, "weight_decay": 0.0, "warmup_epochs": 0}
    told_of |= {"amp": False, "plots": False, "close_mosaic": 0, "val": False, "device": "cpu"}
    told_of |= {"model": "tiny.yaml", "save_dir": "run"}
    trainer = Trainer(overrides=told_of)
    trainer.world_size = RANKS
    trainer.train()
    spy.close()


if __name__ == "__main__":
    main()
