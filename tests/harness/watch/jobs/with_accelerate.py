"""Accelerate, which like DDP needs to know which micro-batch is the last."""

from accelerate import Accelerator
from torch.nn.functional import mse_loss
from training import DEVICE, batches, finish, make_model, run, sgd, windows
from truths import job, once, too_often


@job(too_often(), fixed=once())
def accelerate(is_fixed):
    """The user counts, without no_sync; fixed, `accumulate` counts."""
    accelerator = Accelerator(cpu=DEVICE == "cpu", gradient_accumulation_steps=4)
    model = make_model()
    model, optimizer = accelerator.prepare(model, sgd(model))
    if is_fixed:
        for inputs, targets in batches(24):
            with accelerator.accumulate(model):
                accelerator.backward(mse_loss(model(inputs), targets))
                finish(optimizer)
    else:
        for window in windows():
            for _, inputs, targets in window:
                outputs = model(inputs)  # to change
                accelerator.backward(mse_loss(outputs, targets))
            finish(optimizer)
    accelerator.free_memory()


@job(once(micro_batches=2))
def told_to():
    """Both forwards of a step run under no_sync; Accelerate has the last backward synchronize."""
    accelerator = Accelerator(cpu=DEVICE == "cpu")
    model = accelerator.prepare(make_model())
    optimizer = accelerator.prepare(sgd(model))
    for window in windows(accumulation_steps=2):
        with accelerator.no_sync(model):
            first, last = (mse_loss(model(inputs), targets) for _, inputs, targets in window)
        accelerator.backward(first)
        with accelerator.trigger_sync_in_backward(model):
            accelerator.backward(last)
        finish(optimizer)
    accelerator.free_memory()


if __name__ == "__main__":
    run()
