"""Trains with each library in turn, watched by its callback: a rank of two.

usage: torchrun --nproc-per-node 2 callbacks_rank.py FOLDER

In steps of three micro-batches, the loop and transformers' Trainer synchronize each, Accelerate and
Lightning the last. The logged numbers go to FOLDER/rankN.json, by library.
"""

import json
import logging
import os
import sys
import warnings
from pathlib import Path

import accelerate
import lightning.pytorch as lightning
import torch
import transformers
from accelerate.tracking import GeneralTracker, on_main_process
from gradsync import callbacks
from gradsync.callbacks import accelerate as of_accelerate
from gradsync.callbacks import lightning as of_lightning
from gradsync.callbacks import loop as of_loop
from gradsync.callbacks import trainer as of_trainer
from lightning.pytorch.loggers import CSVLogger
from torch.nn.parallel import DistributedDataParallel

STEPS, MICRO_BATCHES, WIDTH = 4, 3, 64
FOLDER = Path(sys.argv[1])


def data():
    """One row for each micro-batch of each rank, wide enough to tell them apart."""
    rows = 2 * STEPS * MICRO_BATCHES
    return torch.randn(rows, WIDTH, generator=torch.Generator().manual_seed(0))


def loop():
    model = DistributedDataParallel(torch.nn.Linear(WIDTH, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    logged = []
    with of_loop.watching(lambda *what: logged.append(what), every=2) as watch:
        for _ in range(STEPS):
            for _ in range(MICRO_BATCHES):
                model(torch.ones(1, WIDTH)).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
            watch.stepped()
    return {"logged": logged, "kind": watch.watched.verdict.kind}


class Tracker(GeneralTracker):
    """Keeps what it is given, as Accelerate's own give it to a file or a server."""

    name, requires_logging_directory = "kept", False

    def __init__(self):
        self.logged = []
        super().__init__()

    tracker = property(lambda self: self.logged)

    @on_main_process
    def log(self, values, step=None, **kwargs):
        self.logged.append((values, step))


def said_of(watched):
    return {
        "kind": watched.verdict.kind,
        "account": watched.account,
        "accounted": watched.json["account"]["steps"],
    }


def with_accelerate():
    tracker = Tracker()
    accelerator = accelerate.Accelerator(
        cpu=True, gradient_accumulation_steps=MICRO_BATCHES, log_with=[tracker]
    )
    accelerator.init_trackers("of the test")
    model = torch.nn.Linear(WIDTH, 2)
    model, optimizer, loader = accelerator.prepare(
        model, torch.optim.SGD(model.parameters(), lr=0.1), torch.utils.data.DataLoader(data())
    )
    with of_accelerate.watching(accelerator, fail_on_excess=True, account=True) as watch:
        for batch in loader:
            with accelerator.accumulate(model):
                accelerator.backward(model(batch).sum())
                optimizer.step()
                optimizer.zero_grad()
    return {"logged": tracker.logged, **said_of(watch.watched)}


class Summed(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(WIDTH, 2)

    def forward(self, x):
        return {"loss": self.linear(x).sum()}


def with_trainer():
    arguments = transformers.TrainingArguments(
        output_dir=FOLDER / "trainer",
        use_cpu=True,
        max_steps=STEPS,
        per_device_train_batch_size=1,
        gradient_accumulation_steps=MICRO_BATCHES,
        accelerator_config={"gradient_accumulation_kwargs": {"sync_each_batch": True}},
        ddp_find_unused_parameters=False,
        report_to=[],
        save_strategy="no",
        disable_tqdm=True,
    )
    trainer = transformers.Trainer(
        Summed(), arguments, train_dataset=[{"x": row} for row in data()]
    )
    callback = of_trainer.GradsyncCallback(
        trainer, fail_on_excess=True, account=True, account_every=1, account_sample=0.9
    )
    trainer.add_callback(callback)
    failed = ""
    try:
        trainer.train()
    except callbacks.Excess as excess:
        failed = str(excess)
    logged = [line for line in trainer.state.log_history if "gradsync/steps" in line]
    return {"logged": logged, **said_of(callback.watch.watched), "failed": failed}


class Module(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(WIDTH, 2)

    def training_step(self, batch, number):
        return self.linear(batch).sum()

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


def with_lightning():
    callback = of_lightning.GradsyncCallback(fail_on_excess=True, account=True)
    trainer = lightning.Trainer(
        accelerator="cpu",
        devices=2,
        strategy="ddp",
        max_epochs=1,
        accumulate_grad_batches=MICRO_BATCHES,
        callbacks=[callback],
        logger=CSVLogger(FOLDER, name="lightning", version=""),
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(Module(), torch.utils.data.DataLoader(data()))
    return said_of(callback.watch.watched)


def main():
    warnings.simplefilter("ignore")
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    torch.distributed.init_process_group("gloo")
    seen = {
        "loop": loop(),
        "accelerate": with_accelerate(),
        "trainer": with_trainer(),
        "lightning": with_lightning(),
    }
    rank = os.environ["RANK"]
    (FOLDER / f"rank{rank}.json").write_text(json.dumps(seen))
    torch.distributed.barrier()
    # A gloo process that ends as Python ends may abort in torch's own clearing up.
    sys.stderr.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
