"""DDP with no_sync where it belongs, elsewhere, or nowhere."""

from contextlib import nullcontext

import torch
from torch.nn.functional import mse_loss
from torch.nn.parallel import DistributedDataParallel
from training import DEVICE, batches, finish, make_model, run, sgd, windows
from truths import Truth, drifts_at_times, job, never, once, too_early, too_often


@job(once(micro_batches=1))
def plain():
    """One micro-batch per step: nothing could be saved."""
    model = DistributedDataParallel(make_model())
    optimizer = sgd(model)
    for inputs, targets in batches(12):
        mse_loss(model(inputs), targets).backward()
        finish(optimizer)


def train(model, is_fixed):
    optimizer = sgd(model)
    for window in windows():
        for is_last, inputs, targets in window:
            with model.no_sync() if is_fixed and not is_last else nullcontext():
                mse_loss(model(inputs), targets).backward()  # to change
        finish(optimizer)


@job(too_often(), fixed=once())
def baseline(is_fixed):
    """The job does not use no_sync."""
    train(DistributedDataParallel(make_model()), is_fixed)


@job(too_often(also=("buffers",)), fixed=once())
def batch_norm(is_fixed):
    """The same, and each forward broadcasts buffers."""
    train(DistributedDataParallel(make_model(batch_norm=True)), is_fixed)


@job(too_often("no_sync_around_backward"), fixed=once())
def improper(is_fixed):
    """Forward has decided by then."""
    model = DistributedDataParallel(make_model())
    optimizer = sgd(model)
    for window in windows():
        for is_last, inputs, targets in window:
            loss = None if is_fixed else mse_loss(model(inputs), targets)
            with nullcontext() if is_last else model.no_sync():  # to change
                loss = mse_loss(model(inputs), targets) if is_fixed else loss
                loss.backward()
        optimizer.step()
        optimizer.zero_grad()


@job(too_often("no_sync_of_another_model"), fixed=once())
def other_model(is_fixed):
    """no_sync of a model that does not run."""
    other = DistributedDataParallel(make_model())
    model = DistributedDataParallel(make_model())
    optimizer = sgd(model)
    for window in windows():
        for is_last, inputs, targets in window:
            quiet = model if is_fixed else other
            with nullcontext() if is_last else quiet.no_sync():  # to change
                mse_loss(model(inputs), targets).backward()
        finish(optimizer)


@job(never("no_sync_around_forward"), fixed=once())
def mirrored(is_fixed):
    """no_sync round forward alone, in every micro-batch: ranks drift."""
    model = DistributedDataParallel(make_model())
    optimizer = sgd(model)
    for window in windows():
        for is_last, inputs, targets in window:
            with nullcontext() if is_fixed and is_last else model.no_sync():  # to change
                loss = mse_loss(model(inputs), targets)
                if is_fixed:
                    loss.backward()
            if not is_fixed:
                loss.backward()
        finish(optimizer)


@job(never("no_sync_around_all"), fixed=once())
def all_quiet(is_fixed):
    """no_sync round everything: ranks drift."""
    model = DistributedDataParallel(make_model())
    optimizer = sgd(model)
    for window in windows():
        quiet, loud = (window[:-1], window[-1:]) if is_fixed else (window, [])
        with model.no_sync():  # to change
            for _, inputs, targets in quiet:
                mse_loss(model(inputs), targets).backward()
        for _, inputs, targets in loud:
            mse_loss(model(inputs), targets).backward()
        finish(optimizer)


@job(never("wrappers_forward_never_ran", micro_batches=0), fixed=once(micro_batches=1))
def unwrapped(is_fixed):
    """The module is called, not its wrapper: ranks drift."""
    model = DistributedDataParallel(make_model())  # to change
    optimizer = sgd(model)
    called = model if is_fixed else model.module
    for inputs, targets in batches(12):
        mse_loss(called(inputs), targets).backward()
        finish(optimizer)


@job(too_early("no_sync_around_all"), fixed=once())
def first_alone(is_fixed):
    """The first micro-batch of a step synchronizes: what the others add stays on its rank."""
    model = DistributedDataParallel(make_model())
    optimizer = sgd(model)
    for window in windows():
        loud = len(window) - 1 if is_fixed else 0
        for index, (_, inputs, targets) in enumerate(window):
            with nullcontext() if index == loud else model.no_sync():  # to change
                mse_loss(model(inputs), targets).backward()
        finish(optimizer)


@job(drifts_at_times(), fixed=once())
def epoch_end(is_fixed):
    """An epoch ends in a window that is shorter, and not synchronized: ranks drift."""
    model = DistributedDataParallel(make_model())
    optimizer = sgd(model)
    for _ in range(4):
        data = list(batches(10))
        for i, (inputs, targets) in enumerate(data, 1):
            is_last = i % 4 == 0 or i == len(data)
            with nullcontext() if i % 4 == 0 or (is_fixed and is_last) else model.no_sync():
                mse_loss(model(inputs), targets).backward()
            if is_last:
                finish(optimizer)


@job(too_often(micro_batches=2, count=2, varies=True), fixed=once(2, varies=True))
def varying(is_fixed):
    """A step has one to four micro-batches, as where they are filled by tokens."""
    model = DistributedDataParallel(make_model())
    optimizer = sgd(model)
    for step, window in enumerate(windows()):
        window = window[: 1 + step % len(window)]
        for number, (_, inputs, targets) in enumerate(window, 1):
            with model.no_sync() if is_fixed and number < len(window) else nullcontext():
                mse_loss(model(inputs), targets).backward()  # to change
        finish(optimizer)


@job(drifts_at_times(micro_batches=2, synchronized=0, varies=True))
def varying_by_number():
    """The same, and the fourth alone synchronizes: most steps have none."""
    model = DistributedDataParallel(make_model())
    optimizer = sgd(model)
    for step, window in enumerate(windows()):
        for is_last, inputs, targets in window[: 1 + step % len(window)]:
            with nullcontext() if is_last else model.no_sync():
                mse_loss(model(inputs), targets).backward()
        finish(optimizer)


@job(once(micro_batches=1, also=("unused_parameters",), names_line=True), fixed=once(1))
def unused_parameters(is_fixed):
    """Unused parameters are searched for where there are none."""
    search = not is_fixed
    model = DistributedDataParallel(make_model(), find_unused_parameters=search)  # to change
    optimizer = sgd(model)
    for inputs, targets in batches(12):
        mse_loss(model(inputs), targets).backward()
        finish(optimizer)


@job(Truth("replicas_drift", 1, 1, "left_behind", fails=True), fixed=once(1))
def two_losses(is_fixed):
    """One forward, of which two losses run backward one after the other: DDP reduces what the first
    one left, and the second adds what no other rank sees.
    """
    model = DistributedDataParallel(make_model())
    optimizer = sgd(model)
    for inputs, targets in batches(12):
        outputs = model(inputs)
        losses = mse_loss(outputs, targets), outputs.square().mean()
        if is_fixed:
            sum(losses).backward()
        else:
            losses[0].backward(retain_graph=True)
            losses[1].backward()
        finish(optimizer)


@job(once())
def closure():
    """The optimizer is given a closure, as trainers do, that runs a step's last micro-batch."""
    model = DistributedDataParallel(make_model())
    optimizer = sgd(model)

    def run_last(inputs, targets):
        loss = mse_loss(model(inputs), targets)
        loss.backward()
        return loss

    for window in windows():
        optimizer.zero_grad()
        *others, (_, *last) = window
        for _, inputs, targets in others:
            with model.no_sync():
                run_last(inputs, targets)
        optimizer.step(lambda last=last: run_last(*last))


@job(once(micro_batches=1))
def scaler():
    """A gradient scaler leaves out every other step."""
    model = DistributedDataParallel(make_model())
    optimizer = sgd(model)
    scaler = torch.amp.GradScaler(DEVICE)
    for i, (inputs, targets) in enumerate(batches(12)):
        factor = float("inf") if i % 2 == 0 else 1.0
        scaler.scale(factor * mse_loss(model(inputs), targets)).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()


@job(once())
def evaluation():
    """A correct job that evaluates between its steps, with buffers."""
    model = DistributedDataParallel(make_model(batch_norm=True))
    optimizer = sgd(model)
    for window in windows():
        for is_last, inputs, targets in window:
            with nullcontext() if is_last else model.no_sync():
                mse_loss(model(inputs), targets).backward()
        finish(optimizer)
        model.eval()
        with torch.no_grad():
            for _, inputs, targets in window:
                mse_loss(model(inputs), targets)
        model.train()


@job(too_often("forward_outside_no_sync", count=2), fixed=once())
def evaluation_within(is_fixed):
    """A model is evaluated within an accumulation, without torch.no_grad(): DDP's forward arms the
    backward that comes next, whether that is under no_sync or not.
    """
    model = DistributedDataParallel(make_model(batch_norm=True))
    optimizer = sgd(model)
    for window in windows():
        for number, (is_last, inputs, targets) in enumerate(window):
            if number == 2:
                model.eval()
                with torch.no_grad() if is_fixed else nullcontext():
                    model(inputs)  # to change
                model.train()
            with nullcontext() if is_last else model.no_sync():
                mse_loss(model(inputs), targets).backward()
        finish(optimizer)


if __name__ == "__main__":
    run()
