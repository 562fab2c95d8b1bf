"""Jobs that synchronize as often as they have to, but not well: in one bucket, behind backward, in
small pieces, or beside what no step needs.
"""

import torch
import torch.distributed as dist
from torch.nn.functional import mse_loss
from torch.nn.parallel import DistributedDataParallel
from training import average, batches, finish, make_model, make_slow_model, run, sgd, windows
from truths import job, once

TIMES = 20  # in each step: what they take together is much of it, however slow the machine is


@job(once())
def buckets():
    """The gradients of one_bucket accumulated properly, in buckets as DDP has them by itself."""
    model = DistributedDataParallel(make_slow_model())
    optimizer = sgd(model)
    for window in windows():
        with model.no_sync():
            for _, inputs, targets in window[:-1]:
                mse_loss(model(inputs), targets).backward()
        _, inputs, targets = window[-1]
        mse_loss(model(inputs), targets).backward()
        finish(optimizer)


@job(once(micro_batches=1, wastes=("one_bucket",)), fixed=once(micro_batches=1))
def one_bucket(is_fixed):
    """32 MiB of gradients in one bucket, since somebody thought that fewer are better."""
    options = {} if is_fixed else {"bucket_cap_mb": 1000}
    model = DistributedDataParallel(make_slow_model(), **options)  # the waste
    optimizer = sgd(model)
    for inputs, targets in batches(8):
        mse_loss(model(inputs), targets).backward()
        finish(optimizer)


@job(once(micro_batches=1, wastes=("no_overlap",)))
def flattened():
    """No wrapper: gradients are averaged by hand behind backward, all in one tensor."""
    model = make_slow_model()
    optimizer = sgd(model)
    for inputs, targets in batches(8):
        loss = mse_loss(model(inputs), targets)
        loss.backward()  # the waste
        gradients = [parameter.grad for parameter in model.parameters()]
        flat = torch.cat([gradient.reshape(-1) for gradient in gradients])
        average([flat])
        parts = flat.split([gradient.numel() for gradient in gradients])
        for gradient, part in zip(gradients, parts, strict=True):
            gradient.copy_(part.view_as(gradient))
        finish(optimizer)


@job(once(micro_batches=1, wastes=("small_reductions",)))
def tensor_by_tensor():
    """The same of a model of many small layers, each tensor by itself."""
    model = make_slow_model(layers=24, width=128, backward_s=0)
    optimizer = sgd(model)
    for inputs, targets in batches(8):
        loss = mse_loss(model(inputs), targets)
        loss.backward()  # the waste
        average(parameter.grad for parameter in model.parameters())
        finish(optimizer)


@job(
    once(
        micro_batches=1,
        wastes=("barriers", "object_collectives", "small_collectives"),
        calls={"barriers": 20, "object_collectives": 20, "small_collectives": 20},
    ),
    fixed=once(micro_batches=1),
)
def chatter(is_fixed):
    """A correct job that has its ranks meet in every step for nothing that a step needs."""
    model = DistributedDataParallel(make_model())
    optimizer = sgd(model)
    gathered = [None] * dist.get_world_size()
    for inputs, targets in batches(12):
        loss = mse_loss(model(inputs), targets)
        loss.backward()
        finish(optimizer)
        for _ in range(0 if is_fixed else TIMES):
            dist.barrier()  # the waste: barriers
            dist.all_gather_object(gathered, loss.item())  # the waste: object_collectives
            dist.all_reduce(loss.detach().clone())  # the waste: small_collectives


if __name__ == "__main__":
    run()
