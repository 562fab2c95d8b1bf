"""fully_shard and replicate(), on one axis and on two: when what is reduced."""

import torch
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.nn.functional import mse_loss
from training import (
    ACCUMULATION_STEPS,
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
    replicas_too_often,
    sharded_each,
    too_early,
    too_often,
)

LAST = ACCUMULATION_STEPS - 1


def in_two_units(wrap):
    model = make_model()
    wrap(model[0])
    return wrap(model)


def train(model, tell=None, due=LAST, notes_held=False):
    """Tells before each micro-batch of a step, numbered from 0, whether it is the one that is due.
    Losses are of 32 bits.
    """
    optimizer = sgd(model)
    for window in windows():
        for number, (is_last, inputs, targets) in enumerate(window):
            if tell:
                tell(number == due)
            mse_loss(model(inputs).float(), targets).backward()  # to change
            if notes_held and not is_last:
                note_held(model)
        finish(optimizer)


@job(sharded_each(), fixed=once(), torch="2.8")
def fsdp(is_fixed):
    """Reduces in every micro-batch, which saves memory; fixed, in the last one of a step alone."""
    model = in_two_units(fully_shard)
    train(model, model.set_requires_gradient_sync if is_fixed else None)


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
    train(model, model.set_requires_gradient_sync if is_fixed else None)


# ---- hybrid sharding -------------------------------------------------------------------------


@job(
    replicas_too_often(
        axes={"shard": SHARDS_EACH, "replicate": REPLICAS_EACH}, holds="each_micro_batch"
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

    def tell(is_last):
        model.set_is_last_backward(is_last)
        model.set_requires_gradient_sync(is_last)

    train(model, tell if is_fixed else None, notes_held=True)


@job(
    replicas_too_often(
        flags=(("set_is_last_backward", True, 6, 18), ("set_reshard_after_backward", False, 6, 18))
    ),
    fixed=once(),
    ranks=4,
    torch="2.8",
)
def hsdp_last_backward(is_fixed):
    """Sets the flag for the last backward, which defers no reduction."""
    model = make_hybrid()

    def tell(is_last):
        model.set_is_last_backward(is_last)  # set_is_last_backward
        model[0].set_reshard_after_backward(is_last)  # set_reshard_after_backward
        if is_fixed:
            model.set_requires_gradient_sync(is_last)

    train(model, tell)


@job(
    replicas_too_often(
        "all_reduce_flag_undone",
        why="undoes it, sharded.py line {# undone}",
        axes={"shard": SHARDS_EACH, "replicate": REPLICAS_EACH},
    ),
    fixed=once(),
    ranks=4,
    torch="2.8",
)
def hsdp_undone(is_fixed):
    """The flag for replicas is undone by the one for all gradients."""
    model = make_hybrid()

    def tell(is_last):
        model.set_requires_all_reduce(is_last)  # to change
        model.set_requires_gradient_sync(is_last or not is_fixed)  # undone

    train(model, tell)


@job(
    sharded_each(
        also=("replicas_once_per_step",),
        axes={"shard": SHARDS_EACH, "replicate": REPLICAS_ONCE},
        holds="replicas_at_the_end",
    ),
    fixed=once(holds="all_at_the_end"),
    ranks=4,
    torch="2.8",
)
def hsdp_mixed(is_fixed):
    """Adds shards up in every micro-batch, of 16 bits in 32, and replicas in the last alone; fixed,
    nothing before the last.
    """
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    model = make_hybrid(mp_policy=policy)
    tell = model.set_requires_gradient_sync if is_fixed else model.set_requires_all_reduce
    train(model, tell, notes_held=True)


@job(
    never(
        "all_reduce_flag_off",
        kind="replicas_never",
        synchronized=4,
        also=("fsdp_every_micro_batch",),
        axes={"shard": axis({"all_gather": 12, "reduce_scatter": 8})},
    ),
    fixed=once(),
    ranks=4,
    torch="2.8",
)
def hsdp_never(is_fixed):
    """Synchronization of replicas is off and stays off; fixed, with all gradients."""
    model = make_hybrid()
    model.set_requires_all_reduce(False)  # to change
    train(model, model.set_requires_gradient_sync if is_fixed else None)


@job(
    too_early(
        "all_reduce_flag_off",
        kind="replicas_too_early",
        synchronized=4,
        also=("fsdp_every_micro_batch",),
        axes={"replicate": axis({"all_reduce": 2}, excess={})},
    ),
    fixed=once(),
    ranks=4,
    torch="2.8",
)
def hsdp_too_early(is_fixed):
    """Synchronizes replicas in the first micro-batch, and not in the last; fixed, everything in
    the last.
    """
    model = make_hybrid()

    def tell(is_due):
        if is_fixed:
            model.set_requires_gradient_sync(is_due)
        else:
            model.set_requires_all_reduce(is_due)  # to change

    train(model, tell, due=LAST if is_fixed else 0)


@job(not_recognised("gradients_changed_by_hand", synchronized=4), ranks=4, torch="2.8")
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


@job(too_often("gradient_flag_not_called"), fixed=once(), torch="2.11")
def replicate(is_fixed):
    """Reduces in every micro-batch; fixed, in the last one of a step alone."""
    model = replicated()
    train(model, model.set_requires_gradient_sync if is_fixed else None)


@job(too_often("gradient_flag_not_called"), fixed=once())
def replicate_over_ddp(is_fixed):
    """The same by DDP."""
    model = replicated_over_ddp()
    train(model, model.set_requires_gradient_sync if is_fixed else None)


@job(never("gradient_flag_off"), fixed=once(), torch="2.11")
def replicate_never(is_fixed):
    """Synchronization is off and stays off."""
    model = replicated()
    model.set_requires_gradient_sync(False)  # to change
    train(model, model.set_requires_gradient_sync if is_fixed else None)


@job(too_often("gradient_flag_behind_forward"), fixed=once())
def replicate_improper(is_fixed):
    """replicate() over DDP, whose flag is set between forward and backward: too late."""
    model = replicated_over_ddp()
    optimizer = sgd(model)
    for window in windows():
        for is_last, inputs, targets in window:
            model.set_requires_gradient_sync(is_last or not is_fixed)
            loss = mse_loss(model(inputs), targets)
            model.set_requires_gradient_sync(is_last)  # to change
            loss.backward()
        finish(optimizer)


if __name__ == "__main__":
    run()
