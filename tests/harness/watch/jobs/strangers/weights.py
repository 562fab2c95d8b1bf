"""Jobs that synchronize as they should, and whose gradient is made of micro-batches or shards with
other weights than were meant.
"""

import torch
import torch.distributed as dist
from torch.distributed.fsdp import FullyShardedDataParallel
from torch.nn.parallel import DistributedDataParallel
from training import (
    FEATURES,
    MICRO_BATCHES,
    STEPS,
    average,
    backward,
    batches,
    exchanged,
    finish,
    gradients_of,
    make_model,
    proof,
    quiet_unless,
    run,
    sgd,
    windows,
)
from truths import job, once

EPOCHS, OF_EPOCH = 6, 10
CLIPPED_TO = 0.002


def norm_of(gradients):
    return torch.stack([each.norm() for each in gradients]).norm()


@job(
    once(4, reductions=1, said={"steps": 12, "dropped": 12}, fails_by_account=True),
    fixed=once(4, reductions=1, said={"steps": 18, "dropped": 0}),
)
def window_dropped_at_the_end_of_an_epoch(is_fixed):
    """Where an epoch is no multiple of the window, its last micro-batches run backward, and the
    next epoch's zero_grad clears them. The fix: one more step, its gradient scaled by what is
    pending of the window.
    https://github.com/NVIDIA-NeMo/Automodel/pull/2257, May 2026
    """
    model = DistributedDataParallel(make_model())
    proof.compare(model.module.named_parameters())
    optimizer = sgd(model.parameters())
    data = batches(EPOCHS * OF_EPOCH)
    steps, dropped, pending = 0, 0, 0
    for _ in range(EPOCHS):
        optimizer.zero_grad()
        dropped, pending = dropped + pending, 0
        for i in range(OF_EPOCH):
            pending += 1
            is_due = pending == MICRO_BATCHES or (is_fixed and i == OF_EPOCH - 1)
            with quiet_unless(is_due, model):
                backward(model, *next(data), MICRO_BATCHES)
            if is_due:
                for gradient in gradients_of(model.parameters()):
                    gradient.mul_(MICRO_BATCHES / pending)
                finish(optimizer)
                steps, pending = steps + 1, 0
    proof.say(steps=steps, dropped=dropped + pending)


@job(once(4, reductions=1), fixed=once(4, reductions=1))
def last_window_divided_by_the_whole(is_fixed):
    """At the end of an epoch the last window is shorter, and its losses are divided by the length
    of a whole one. https://github.com/Lightning-AI/pytorch-lightning/issues/19987, June 2024
    """
    model = DistributedDataParallel(make_model())
    proof.compare(model.module.named_parameters())
    optimizer = sgd(model.parameters())
    data = batches(EPOCHS * OF_EPOCH)
    for _ in range(EPOCHS):
        for size in (4, 4, 2):
            for i in range(size):
                with quiet_unless(i == size - 1, model):
                    backward(model, *next(data), size if is_fixed else MICRO_BATCHES)
            finish(optimizer)


@job(
    once(2, reductions=1, said={"is one factor": False}, fails_by_account=True),
    fixed=once(2, reductions=1, said={"is one factor": True}),
)
def shards_clipped_apart(is_fixed):
    """torch's clip_grad_norm_ sees a rank's own shards alone; under FSDP1 the model's own is to be
    called. https://github.com/ContextualAI/HALOs/issues/15, March 2024
    """
    net = make_model(FEATURES)
    net[2].weight.data.mul_(0.1)  # the first layer, most of rank 0's shard, gets small gradients
    model = FullyShardedDataParallel(net, device_id=torch.device("cpu"))
    optimizer = sgd(model.parameters())
    for window in windows(micro_batches=2):
        for is_last, inputs, _ in window:
            with quiet_unless(is_last, model):
                backward(model, inputs, inputs, len(window))
        before = norm_of(gradients_of(model.parameters()))
        if is_fixed:
            model.clip_grad_norm_(CLIPPED_TO)
        else:
            torch.nn.utils.clip_grad_norm_(model.parameters(), CLIPPED_TO)
        factor = (norm_of(gradients_of(model.parameters())) / before).item()
        finish(optimizer)
    factors = exchanged(factor, "factor")
    proof.say(**{"is one factor": abs(factors[0] / factors[1] - 1) < 0.001})


@job(
    once(1, reductions=4, said={"is one factor": False}, fails_by_account=True),
    fixed=once(1, reductions=4, said={"is one factor": True}),
)
def clipped_before_it_is_averaged(is_fixed):
    """Gradients are clipped on each device before they are averaged over devices, and not behind
    it. Reported of a training step for MindSpore; rebuilt for torch.
    https://github.com/mindspore-lab/mindcv/issues/603, April 2023
    """
    model = make_model()
    proof.compare(model.named_parameters())
    optimizer = sgd(model.parameters())
    own = 1 + 2 * dist.get_rank()  # ranks' losses, and so gradients, differ in size
    for inputs, targets in batches(STEPS):
        backward(model, inputs, own * targets)
        gradients = gradients_of(model.parameters())
        if is_fixed:
            average(gradients)
        before = norm_of(gradients)
        torch.nn.utils.clip_grad_norm_(model.parameters(), CLIPPED_TO)
        factor = (norm_of(gradients) / before).item()
        if not is_fixed:
            average(gradients)
        finish(optimizer)
    factors = exchanged(factor, "factor")
    proof.say(**{"is one factor": abs(factors[0] / factors[1] - 1) < 0.001})


if __name__ == "__main__":
    run()
