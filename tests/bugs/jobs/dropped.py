"""Jobs in which micro-batches run forward and backward and do not reach the optimizer."""

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from training import (
    average,
    backward,
    ddp,
    end_step,
    finish,
    follow,
    gradients_of,
    loss_of,
    make_net,
    quiet_unless,
    run,
    sgd,
    steps,
    train,
)
from truth import DRIFT, DROPPED, ONLY_LAST, UNEQUAL, bug, by_rank, each, read_by, times


@bug("https://github.com/bytetriper/RAE/issues/67", 2026, DROPPED, weights=ONLY_LAST)
def cleared_before_every_backward(is_fixed):
    """zero_grad() stands in the loop over micro-batches."""
    model = ddp()
    optimizer = sgd(model)
    for step in steps():
        for batch in step:
            if not is_fixed:
                optimizer.zero_grad()  # bug
            with quiet_unless(batch.is_last, model):
                backward(model, batch)
        finish(optimizer)


@bug(
    "https://github.com/pytorch/torchtitan/pull/3575",
    2026,
    DROPPED,
    weights=ONLY_LAST,
    reductions=(4, 4),
)
def cleared_by_forward_backward(is_fixed):
    """A trainer offers forward_backward() and step(); the former clears gradients first."""
    model = fully_shard(follow(make_net()))
    optimizer = sgd(model)

    def forward_backward(batch):
        if not is_fixed:
            optimizer.zero_grad()  # bug
        backward(model, batch)

    for step in steps():
        for batch in step:
            forward_backward(batch)
        finish(optimizer)


@bug(
    "https://github.com/tientrandinh/Revisiting-Reverse-Distillation/issues/12",
    2023,
    DROPPED,
    weights=ONLY_LAST,
    reductions=(4, 4),
)
def two_optimizers_cleared_in_the_loop(is_fixed):
    """Both optimizers step behind the last micro-batch, and are cleared before each."""
    net = follow(make_net())
    optimizers = [sgd(net[0]), sgd(net[2])]
    for step in steps():
        for batch in step:
            for optimizer in optimizers if not is_fixed else ():
                optimizer.zero_grad()  # bug
            backward(net, batch)
        average(net)
        finish(*optimizers)


@bug("https://github.com/huggingface/accelerate/issues/1299", 2023, DROPPED, weights=ONLY_LAST)
def cleared_where_clearing_counts(is_fixed):
    """zero_grad() begins each iteration, and does something only where a step is due: there it
    throws away what was accumulated.
    """
    model = ddp()
    optimizer = sgd(model)
    for step in steps():
        for batch in step:
            if batch.is_last and not is_fixed:
                optimizer.zero_grad()  # bug
            with quiet_unless(batch.is_last, model):
                backward(model, batch)
        finish(optimizer)


@bug(
    "https://github.com/ServiceNow/Fast-LLM/issues/550",
    2026,
    DROPPED,
    weights=ONLY_LAST,
    reductions=(4, 4),
)
def copied_over_what_is_kept(is_fixed):
    """A shared buffer is copied, not added, into the gradient that is kept."""
    net = follow(make_net())
    optimizer = sgd(net)
    kept = [torch.zeros_like(parameter) for parameter in net.parameters()]
    for step in steps():
        for batch in step:
            backward(net, batch)
            for mine, gradient in zip(kept, gradients_of(net), strict=True):
                mine.add_(gradient) if is_fixed else mine.copy_(gradient)  # bug
            net.zero_grad()
        for parameter, mine in zip(net.parameters(), kept, strict=True):
            parameter.grad = mine.clone()
            mine.zero_()
        average(net)
        finish(optimizer)


@bug(
    "https://github.com/ServiceNow/Fast-LLM/pull/551",
    2026,
    DROPPED,
    weights={"0": ONLY_LAST},
)
def copied_over_in_one_layer(is_fixed):
    """The same for one layer alone, whose buffer is shared."""
    model = ddp()

    def clear(batch):
        if batch.index > 0 and not is_fixed:
            model.module[0].zero_grad()  # bug

    train(model, before=clear)


@bug(
    "https://github.com/NVIDIA/Megatron-LM/pull/7186",
    2026,
    DROPPED,
    weights=ONLY_LAST,
    ranks=4,
    reductions=(8, 5),
)
def finished_in_every_micro_batch(is_fixed):
    """Replicas of shards finish a step's gradient in every micro-batch; the next one clears it."""
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("replicate", "shard"))
    model = fully_shard(follow(make_net()), mesh=mesh)

    def begin(batch):
        model.set_requires_all_reduce(batch.is_last or not is_fixed)
        for gradient in gradients_of(model) if batch.index and not is_fixed else ():
            gradient.to_local().zero_()  # bug

    train(model, before=begin)


@bug(
    "https://github.com/instructlab/training/issues/414",
    2025,
    DROPPED,
    weights=ONLY_LAST,
    reductions=(4, 4),
)
def reduced_shard_takes_the_place(is_fixed):
    """A reduced shard takes the place of the accumulated one, as with CPU offloading."""
    model = fully_shard(follow(make_net()))

    def clear(batch):
        for gradient in gradients_of(model) if batch.index and not is_fixed else ():
            gradient.to_local().zero_()  # bug

    train(model, before=clear)


@bug(
    "https://github.com/allenai/open-instruct/pull/1498",
    2026,
    DROPPED,
    weights=ONLY_LAST,
    reductions=(1, 1),
)
def every_backward_a_boundary(is_fixed):
    """Each backward passes for the last of its step, and sets anew what is read."""
    net = follow(make_net())
    optimizer = sgd(net)
    for step in steps():
        kept = None
        for batch in step:
            backward(net, batch)
            flat = torch.cat([gradient.flatten() for gradient in gradients_of(net)])
            kept = kept + flat if is_fixed and kept is not None else flat  # bug
            net.zero_grad()
        dist.all_reduce(kept)
        parts = (kept / dist.get_world_size()).split([p.numel() for p in net.parameters()])
        for parameter, part in zip(net.parameters(), parts, strict=True):
            parameter.grad = part.view_as(parameter).clone()
        finish(optimizer)


@bug(
    "https://github.com/deepspeedai/DeepSpeed/pull/7985",
    2026,
    DRIFT,
    weights=read_by(by_rank((1, 1, 1, 2), (1, 1, 1, 0)), by_rank((1, 1, 1, 0), (1, 1, 1, 2))),
    reductions=(4, 4),
    drifts=("",),
)
def reduced_before_the_last_is_added(is_fixed):
    """Ranks reduce what was accumulated before the last micro-batch is, and each adds its own."""
    net = follow(make_net())

    def reduce(batch):
        if batch.index == batch.count - (1 if is_fixed else 2):
            average(net)  # bug

    train(net, after=reduce)


@bug(
    "https://github.com/pytorch/pytorch/pull/125484",
    2024,
    DRIFT,
    weights=read_by(by_rank((2, 2, 2, 1), (0, 0, 0, 1)), by_rank((0, 0, 0, 1), (2, 2, 2, 1))),
    reductions=(4, 4),
    drifts=("",),
)
def reduced_in_the_last_alone(is_fixed):
    """Ranks reduce what the last micro-batch added, and keep the earlier ones to themselves."""
    net = follow(make_net())
    optimizer = sgd(net)
    for step in steps():
        for batch in step:
            earlier = [gradient.clone() for gradient in gradients_of(net)]
            backward(net, batch)
        for gradient, before in zip(gradients_of(net), earlier, strict=True):
            kept = torch.zeros_like(before) if is_fixed else before
            gradient.sub_(kept)
            dist.all_reduce(gradient)  # bug
            gradient.div_(dist.get_world_size()).add_(kept)
        finish(optimizer)


@bug(
    "https://github.com/mflux-community/mflux/pull/447",
    2026,
    (DROPPED, UNEQUAL),
    weights=each(0, 0, 1, 1),
    right={"weights": each(4 / 3, 0, 4 / 3, 4 / 3)},
)
def cleared_by_a_loss_that_is_not_finite(is_fixed):
    """A loss that is not finite clears the gradients of the whole window, whose end does not move.
    The fix leaves out that micro-batch alone, and divides by those that count.
    """
    model = ddp()
    optimizer = sgd(model)
    for step in steps():
        for batch in step:
            is_bad = batch.index == 1  # its loss would not be finite, on all ranks
            if is_bad:
                loss_of(model.module, batch)
                if not is_fixed:
                    optimizer.zero_grad()  # bug
                continue
            with quiet_unless(batch.is_last, model):
                backward(model, batch, 3 if is_fixed else 4)
        finish(optimizer)


@bug(
    "https://github.com/tracel-ai/burn/issues/5695",
    2026,
    DROPPED,
    weights=times(1),
    sometimes=(each(0, 0, 1, 1, 1, 1),),
)
def partial_window_is_thrown_away(is_fixed):
    """An epoch of six micro-batches has a window of four, and a rest that the next one clears."""
    model = ddp()
    optimizer = sgd(model)
    for step in steps(count=12, micro_batches=[4, 2]):
        if len(step) == 4 or is_fixed:
            for batch in step:
                with quiet_unless(batch.is_last, model):
                    backward(model, batch)
            finish(optimizer)
            continue
        for batch in step:
            with model.no_sync():
                backward(model, batch)
        optimizer.zero_grad()  # bug
        end_step()


if __name__ == "__main__":
    run()
