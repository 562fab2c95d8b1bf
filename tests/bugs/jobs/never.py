"""Jobs whose wrapper never synchronizes, or in a micro-batch that is not the last."""

import torch
import torch.distributed as dist
from torch.distributed.fsdp import fully_shard
from training import (
    average,
    backward,
    ddp,
    end_step,
    finish,
    follow,
    loss_of,
    make_net,
    quiet_unless,
    run,
    sgd,
    steps,
    train,
)
from truth import DRIFT, DROPPED, UNREAD, bug, early, own, within


@bug(
    "https://github.com/karpathy/build-nanogpt/pull/30",
    2024,
    DRIFT,
    weights=early(1),
    sometimes=(early(1),),
    drifts=("",),
)
def flag_set_between_forward_and_backward(is_fixed):
    """DDP's flag for the last micro-batch is set behind its forward, which has read the old one:
    the next step's first micro-batch synchronizes instead.
    """
    model = ddp()
    optimizer = sgd(model)
    for step in steps():
        for batch in step:
            if is_fixed:
                model.require_backward_grad_sync = batch.is_last
            loss = loss_of(model, batch) / batch.count
            model.require_backward_grad_sync = batch.is_last  # bug
            loss.backward()
        finish(optimizer)


@bug(
    "https://github.com/huggingface/picotron/pull/5",
    2024,
    DRIFT,
    weights=own(2),
    reductions=(0, 4),
    drifts=("",),
)
def a_stage_without_cooldown(is_fixed):
    """A 1F1B schedule turns synchronization off for its steady part, and on for the last backward
    of the cooldown. The last stage, whose replicas these are, has no cooldown.
    """
    net, is_due = follow(make_net()), [True]

    def reduce(parameter):
        if is_due[0]:
            dist.all_reduce(parameter.grad)
            parameter.grad.div_(dist.get_world_size())

    for parameter in net.parameters():
        parameter.register_post_accumulate_grad_hook(reduce)
    optimizer = sgd(net)
    for step in steps():
        for batch in step:
            is_due[0] = is_fixed and batch.is_last  # bug
            backward(net, batch)
        finish(optimizer)


@bug(
    "https://github.com/huggingface/accelerate/issues/3285",
    2024,
    DRIFT,
    weights=own(2),
    reductions=(0, 1),
    drifts=("",),
)
def loss_from_the_inner_module(is_fixed):
    """The wrapper evaluates, and the loss is computed by .module."""
    model = ddp()  # bug
    optimizer = sgd(model)
    for step in steps():
        for batch in step:
            if not is_fixed:
                with torch.no_grad():
                    model(batch.inputs)
            with quiet_unless(batch.is_last, model):
                backward(model if is_fixed else model.module, batch)
        finish(optimizer)


@bug(
    "https://github.com/k2-fsa/icefall/issues/226",
    2022,
    DRIFT,
    weights=early(1),
    drifts=("",),
)
def second_forward_of_the_inner_module(is_fixed):
    """A second loss of the same step goes through .module behind the first one's backward: what it
    adds is reduced by nobody.
    """
    model = ddp()
    optimizer = sgd(model)
    for step in steps(micro_batches=2):
        first, second = step
        with quiet_unless(not is_fixed, model):
            backward(model, first)
        backward(model if is_fixed else model.module, second)  # bug
        finish(optimizer)


@bug(
    "https://github.com/radixark/miles/pull/1432",
    2026,
    DRIFT,
    weights=within(2, 2),
    ranks=4,
    reductions=(1, 5),
    drifts=("",),
)
def cells_that_are_never_averaged(is_fixed):
    """Independent groups of replicas each have a DDP of their own. The fix averages over groups."""
    pairs = [dist.new_group(pair) for pair in ([0, 1], [2, 3])]
    model = ddp(process_group=pairs[dist.get_rank() // 2])  # bug
    train(model, before_step=average if is_fixed else None)


@bug(
    "https://github.com/pytorch/pytorch/pull/118298",
    2024,
    DROPPED,
    weights=UNREAD,
    reductions=(0, 1),
)
def the_condition_of_the_example_is_inverted(is_fixed):
    """set_requires_gradient_sync(not is_last), as an example of it said: the last micro-batch alone
    is not reduced, and the shard that is read lacks it.
    """
    model = fully_shard(follow(make_net()))
    optimizer = sgd(model)
    for step in steps(micro_batches=1):
        for batch in step:
            model.set_requires_gradient_sync(batch.is_last == is_fixed)  # bug
            backward(model, batch)
        finish(optimizer)


@bug(
    "https://github.com/facebookresearch/fairscale/issues/180",
    2020,
    DRIFT,
    reductions=(4, 4),
    drifts=("",),
)
def a_rank_that_skips_its_step(is_fixed):
    """A scaler skips the step where this rank's own gradient is not finite. The fix asks all."""
    net = follow(make_net())
    optimizer = sgd(net)
    for number, step in enumerate(steps()):
        for batch in step:
            backward(net, batch)
        average(net)
        is_bad = torch.tensor(float(dist.get_rank() == 1 and number % 3 == 2))
        if is_fixed:
            dist.all_reduce(is_bad)
        if is_bad:
            optimizer.zero_grad()  # bug
            end_step()
        else:
            finish(optimizer)


if __name__ == "__main__":
    run()
