"""fully_shard, FullyShardedDataParallel and replicate(), on one axis and on two: when what is
reduced.
"""

from contextlib import nullcontext

import torch
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import (
    FullyShardedDataParallel,
    MixedPrecisionPolicy,
    ShardingStrategy,
    fully_shard,
)
from torch.nn.functional import mse_loss
from training import (
    finish,
    make_hybrid,
    make_model,
    make_tensor_parallel,
    note_held,
    run,
    sgd,
    windows,
)
from truths import (
    REPLICAS_EACH,
    REPLICAS_ONCE,
    SHARDS_EACH,
    SHARDS_ONCE,
    axis,
    job,
    never,
    not_recognised,
    once,
    sharded_each,
    too_early,
    too_often,
)


def in_two_units(wrap):
    model = make_model()
    wrap(model[0])
    return wrap(model)


@job(sharded_each(), fixed=once(), torch="2.8")
def fsdp(is_fixed):
    """Reduces in every micro-batch, which saves memory; fixed, in the last one of a step alone."""
    model = in_two_units(fully_shard)
    optimizer = sgd(model)
    for window in windows():
        for is_last, inputs, targets in window:
            if is_fixed:
                model.set_requires_gradient_sync(is_last)
            mse_loss(model(inputs), targets).backward()  # to change
        finish(optimizer)


@job(
    sharded_each(
        axes={"tensor": axis(excess={}), "shard": axis(excess={"reduce_scatter": 3})},
    ),
    fixed=once(axes={"tensor": axis(excess={}), "shard": axis(excess={})}),
    ranks=4,
    torch="2.8",
)
def fsdp_tensor(is_fixed):
    """The same over tensor-parallel layers."""
    model = make_tensor_parallel()
    optimizer = sgd(model)
    for window in windows():
        for is_last, inputs, targets in window:
            if is_fixed:
                model.set_requires_gradient_sync(is_last)
            mse_loss(model(inputs), targets).backward()  # to change
        finish(optimizer)


def train_fsdp1(is_fixed, **options):
    model = FullyShardedDataParallel(make_model(), device_id=torch.device("cpu"), **options)
    optimizer = sgd(model)
    for window in windows():
        for is_last, inputs, targets in window:
            with model.no_sync() if is_fixed and not is_last else nullcontext():
                mse_loss(model(inputs), targets).backward()  # to change
        finish(optimizer)


@job(sharded_each(), fixed=once())
def fsdp1(is_fixed):
    """FullyShardedDataParallel, which reduces in every micro-batch; fixed, under no_sync."""
    train_fsdp1(is_fixed)


@job(
    too_often(
        "FullyShardedDataParallel all-reduces behind each of its reduce-scatters",
        kind="replicas_more_than_once",
        fails=False,
        also=("fsdp_every_micro_batch",),
    ),
    fixed=once(axes={"replicate": axis({"all_reduce": 1})}),
    ranks=4,
)
def fsdp1_hybrid(is_fixed):
    """Its hybrid sharding; fixed, that which keeps parameters between forward and backward."""
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp_replicate", "dp_shard"))
    strategy = "_HYBRID_SHARD_ZERO2" if is_fixed else "HYBRID_SHARD"
    train_fsdp1(is_fixed, device_mesh=mesh, sharding_strategy=ShardingStrategy[strategy])


# ---- hybrid sharding -------------------------------------------------------------------------


@job(
    too_often(
        "set_requires_all_reduce(False) was not called",
        kind="replicas_more_than_once",
        also=("fsdp_every_micro_batch",),
        axes={"shard": SHARDS_EACH, "replicate": REPLICAS_EACH},
        holds="each_micro_batch",
    ),
    fixed=once(
        axes={"shard": SHARDS_ONCE, "replicate": axis({"all_reduce": 2}, excess={})},
        holds="all_at_the_end",
    ),
    ranks=4,
    torch="2.8",
)
def hsdp(is_fixed):
    """Reduces everything in every micro-batch; fixed, in the last one of a step alone."""
    model = make_hybrid()
    optimizer = sgd(model)
    for window in windows():
        for is_last, inputs, targets in window:
            if is_fixed:
                model.set_is_last_backward(is_last)
                model.set_requires_gradient_sync(is_last)
            mse_loss(model(inputs), targets).backward()  # to change
            if not is_last:
                note_held(model)
        finish(optimizer)


@job(
    too_often(
        "set_requires_all_reduce(False) was not called",
        kind="replicas_more_than_once",
        also=("fsdp_every_micro_batch",),
        flags=(("set_is_last_backward", True, 6, 18), ("set_reshard_after_backward", False, 6, 18)),
    ),
    ranks=4,
    torch="2.8",
)
def hsdp_last_backward():
    """Sets the flag for the last backward, which defers no reduction."""
    model = make_hybrid()
    optimizer = sgd(model)
    for window in windows():
        for is_last, inputs, targets in window:
            model.set_is_last_backward(is_last)  # set_is_last_backward
            model[0].set_reshard_after_backward(is_last)  # set_reshard_after_backward
            mse_loss(model(inputs), targets).backward()  # to change
        finish(optimizer)


@job(
    too_often(
        "set_requires_gradient_sync(True) behind set_requires_all_reduce(False) undoes it, "
        "sharded.py line {# undone}",
        kind="replicas_more_than_once",
        also=("fsdp_every_micro_batch",),
        axes={"shard": SHARDS_EACH, "replicate": REPLICAS_EACH},
    ),
    ranks=4,
    torch="2.8",
)
def hsdp_undone():
    """The flag for replicas is undone by the one for all gradients."""
    model = make_hybrid()
    optimizer = sgd(model)
    for window in windows():
        for is_last, inputs, targets in window:
            model.set_requires_all_reduce(is_last)  # to change
            model.set_requires_gradient_sync(True)  # undone
            mse_loss(model(inputs), targets).backward()
        finish(optimizer)


@job(
    sharded_each(
        also=("replicas_once_per_step",),
        axes={
            "shard": axis({"all_gather": 12, "reduce_scatter": 8}, excess={"reduce_scatter": 6}),
            "replicate": REPLICAS_ONCE,
        },
        holds="replicas_at_the_end",
    ),
    ranks=4,
    torch="2.8",
)
def hsdp_replicas_deferred():
    """Adds shards up in every micro-batch, and replicas in the last alone."""
    model = make_hybrid()
    optimizer = sgd(model)
    for window in windows():
        for is_last, inputs, targets in window:
            model.set_requires_all_reduce(is_last)
            mse_loss(model(inputs), targets).backward()  # to change
            if not is_last:
                note_held(model)
        finish(optimizer)


@job(
    sharded_each(also=("replicas_once_per_step",), holds="replicas_at_the_end"),
    fixed=once(holds="all_at_the_end"),
    ranks=4,
    torch="2.8",
)
def hsdp_mixed(is_fixed):
    """The same of gradients of 16 bits that are added up in 32; fixed, nothing before the last."""
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    model = make_hybrid(mp_policy=policy)
    optimizer = sgd(model)
    tell = model.set_requires_gradient_sync if is_fixed else model.set_requires_all_reduce
    for window in windows():
        for is_last, inputs, targets in window:
            tell(is_last)
            outputs = model(inputs)  # to change
            mse_loss(outputs.float(), targets).backward()
            if not is_last:
                note_held(model)
        finish(optimizer)


@job(
    never(
        "set_requires_all_reduce(False) holds in every micro-batch, sharded.py line {# to change}",
        kind="replicas_never",
        synchronized=4,
        also=("fsdp_every_micro_batch",),
        axes={"shard": axis({"all_gather": 12, "reduce_scatter": 8})},
    ),
    ranks=4,
    torch="2.8",
)
def hsdp_never():
    """Replicas are told not to synchronize, and never told to."""
    model = make_hybrid()
    model.set_requires_all_reduce(False)  # to change
    optimizer = sgd(model)
    for window in windows():
        for _, inputs, targets in window:
            mse_loss(model(inputs), targets).backward()
        finish(optimizer)


@job(
    too_early(
        "set_requires_all_reduce(False) holds in the last micro-batch, "
        "sharded.py line {# to change}",
        kind="replicas_too_early",
        synchronized=4,
        also=("fsdp_every_micro_batch",),
        axes={"replicate": axis({"all_reduce": 2}, excess={})},
    ),
    ranks=4,
    torch="2.8",
)
def hsdp_too_early():
    """Synchronizes replicas in the first micro-batch, and not in the last."""
    model = make_hybrid()
    optimizer = sgd(model)
    for window in windows():
        for number, (_, inputs, targets) in enumerate(window):
            model.set_requires_all_reduce(number == 0)  # to change
            mse_loss(model(inputs), targets).backward()
        finish(optimizer)


@job(
    not_recognised("gradients are changed by hand between", synchronized=4),
    ranks=4,
    torch="2.8",
)
def hsdp_cleared():
    """Takes each micro-batch's gradients away before the next: none is excess."""
    model = make_hybrid()
    optimizer = sgd(model)
    parameters = list(model.parameters())
    for window in windows():
        sums = [0] * len(parameters)
        for _, inputs, targets in window:
            for parameter in parameters:
                parameter.grad = None
            mse_loss(model(inputs), targets).backward()
            grads = [parameter.grad for parameter in parameters]
            sums = [a + g for a, g in zip(sums, grads, strict=True)]
        for parameter, gradient in zip(parameters, sums, strict=True):
            parameter.grad = gradient
        finish(optimizer)


# ---- replicate() -----------------------------------------------------------------------------


def replicated():
    from torch.distributed._composable.replicate_with_fsdp import replicate

    return in_two_units(replicate)


def replicated_over_ddp():
    from torch.distributed._composable.replicate import replicate

    return replicate(make_model())


def train_replicated(model, is_fixed):
    optimizer = sgd(model)
    for window in windows():
        for is_last, inputs, targets in window:
            if is_fixed:
                model.set_requires_gradient_sync(is_last)
            mse_loss(model(inputs), targets).backward()  # to change
        finish(optimizer)


@job(too_often("set_requires_gradient_sync(False) was not called"), fixed=once(), torch="2.11")
def replicate(is_fixed):
    """Reduces in every micro-batch; fixed, in the last one of a step alone."""
    train_replicated(replicated(), is_fixed)


@job(too_often("set_requires_gradient_sync(False) was not called"), fixed=once())
def replicate_over_ddp(is_fixed):
    """The same by DDP."""
    train_replicated(replicated_over_ddp(), is_fixed)


@job(never("set_requires_gradient_sync(False) holds in every micro-batch"), torch="2.11")
def replicate_never():
    """Is told not to synchronize, and never told to."""
    model = replicated()
    model.set_requires_gradient_sync(False)  # to change
    optimizer = sgd(model)
    for window in windows():
        for _, inputs, targets in window:
            mse_loss(model(inputs), targets).backward()
        finish(optimizer)


@job(too_often("set_requires_gradient_sync(False) comes behind forward"))
def replicate_improper():
    """replicate() over DDP, whose flag is set between forward and backward: too late."""
    model = replicated_over_ddp()
    optimizer = sgd(model)
    for window in windows():
        for is_last, inputs, targets in window:
            model.set_requires_gradient_sync(True)
            loss = mse_loss(model(inputs), targets)
            model.set_requires_gradient_sync(is_last)  # to change
            loss.backward()
        finish(optimizer)


if __name__ == "__main__":
    run()
