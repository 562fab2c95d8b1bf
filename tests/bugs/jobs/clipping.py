"""Jobs that clip gradients at a wrong moment, or by a norm that is not the gradient's.

Clipping scales a gradient by one factor, which depends on the data. Here ranks and layers have
gradients of other sizes, so that a wrong norm gives other factors.
"""

import torch
import torch.distributed as dist
from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard
from torch.nn.utils import clip_grad_norm_
from training import (
    accumulate_scaled,
    average,
    backward,
    ddp,
    end_step,
    finish,
    follow,
    gradients_of,
    make_net,
    proof,
    replicas_of_shards,
    run,
    sgd,
    steps,
    train,
)
from truth import APART, BY_SPLIT, FACTOR, NO_SUM, NOT_A_SUM, SCALED, UNEQUAL, UNEVEN, bug

MOST = 0.002


class Uneven(torch.nn.Module):
    """Makes half of what went in small."""

    def forward(self, outputs):
        return outputs * torch.where(torch.arange(outputs.shape[1]) * 2 < outputs.shape[1], 0.01, 1)


def make_uneven_net():
    """Returns a net in which rank 0's rows of each layer have small gradients."""
    net = make_net().append(Uneven())
    net[2].weight.data[:, : net[2].in_features // 2].mul_(0.01)
    return follow(net)


def local_of(gradient):
    return gradient.to_local() if hasattr(gradient, "to_local") else gradient


def clip_by(gradients, norm):
    factor = min(1.0, MOST / (float(norm) + 1e-6))
    for gradient in gradients:
        local_of(gradient).mul_(factor)


def norm_of(gradients):
    return torch.stack([local_of(gradient).norm() for gradient in gradients]).norm()


@bug(
    "https://github.com/huggingface/diffusers/pull/721",
    2022,
    (NOT_A_SUM, UNEQUAL),
    weights=UNEVEN,
    right={"weights": SCALED},
)
def clipped_in_every_micro_batch(is_fixed):
    """What is accumulated is clipped behind each backward, and before ranks reduce it."""
    model = ddp()

    def clip(batch):
        if batch.is_last or not is_fixed:
            clip_grad_norm_(model.parameters(), MOST)  # bug

    train(model, after=clip)


@bug(
    "https://github.com/Deci-AI/super-gradients/pull/653",
    2023,
    (NOT_A_SUM, UNEQUAL),
    weights=UNEVEN,
    reductions=(4, 4),
    right={"weights": SCALED},
)
def clipped_each_batch_and_then_averaged(is_fixed):
    """The same where gradients are averaged by hand before the step."""
    net = follow(make_net())

    def clip(batch):
        if not is_fixed:
            clip_grad_norm_(net.parameters(), MOST)  # bug

    def reduce(model):
        average(model)
        if is_fixed:
            clip_grad_norm_(model.parameters(), MOST)

    train(net, after=clip, before_step=reduce)


@bug(
    "https://github.com/milesial/Pytorch-UNet/issues/468",
    2023,
    FACTOR,
    weights=SCALED,
    right={"weights": SCALED},
)
def clipped_before_unscaling(is_fixed):
    """Gradients are clipped while a gradient scaler has them multiplied, so that the step is all
    but nothing.
    """
    model = ddp()
    optimizer = sgd(model)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**10)
    for step in steps():
        accumulate_scaled(model, scaler, step)
        if is_fixed:
            scaler.unscale_(optimizer)
        clip_grad_norm_(model.parameters(), MOST)  # bug
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
        end_step()


@bug(
    "https://github.com/pytorch/examples/issues/1196",
    2023,
    FACTOR,
    weights=SCALED,
    reductions=(4, 4),
    right={"weights": SCALED},
)
def clipped_before_unscaling_under_fsdp(is_fixed):
    """The same in an example, here with shards and a scale by hand."""
    model = fully_shard(make_uneven_net())
    scale = 2.0**10
    optimizer = sgd(model)
    for step in steps():
        for batch in step:
            backward(model, batch, batch.count / scale)
        for turn in (0, 1):
            if turn == is_fixed:
                clip_grad_norm_(model.parameters(), MOST)  # bug
            else:
                for gradient in gradients_of(model):
                    gradient.div_(scale)
        finish(optimizer)


@bug(
    "https://github.com/pytorch/pytorch/issues/170862",
    2025,
    APART,
    weights=NO_SUM,
    reductions=(4, 4),
    right={"weights": SCALED},
)
def each_rank_clips_its_shards(is_fixed):
    """Under fully_shard each rank takes the norm of its own shards alone."""
    model = fully_shard(make_uneven_net())

    def clip(model):
        if is_fixed:
            clip_grad_norm_(model.parameters(), MOST)
        else:
            clip_by(gradients_of(model), norm_of(gradients_of(model)))  # bug

    train(model, before_step=clip)


@bug(
    "https://github.com/PrimeIntellect-ai/OpenDiloco/pull/6",
    2024,
    APART,
    weights=NO_SUM,
    reductions=(1, 1),
    right={"weights": SCALED},
)
def torchs_clipping_under_fsdp1(is_fixed):
    """torch's function is called on FSDP1's shards; the model's own is to be."""
    net = make_uneven_net()
    model = FullyShardedDataParallel(net, device_id=torch.device("cpu"), use_orig_params=True)
    proof.wrapper = model

    def clip(model):
        if is_fixed:
            model.clip_grad_norm_(MOST)
        else:
            clip_grad_norm_(model.parameters(), MOST)  # bug

    train(model, before_step=clip)


@bug(
    "https://github.com/areal-project/AReaL/issues/312",
    2025,
    APART,
    weights=NO_SUM,
    reductions=(1, 1),
    right={"weights": SCALED},
)
def norm_of_local_shards(is_fixed):
    """A trainer computes the norm itself, of what its rank has, and deferred all reductions."""
    model = fully_shard(make_uneven_net())
    optimizer = sgd(model)
    for step in steps():
        for batch in step:
            model.set_requires_gradient_sync(batch.is_last)
            backward(model, batch)
        square = norm_of(gradients_of(model)) ** 2
        if is_fixed:
            dist.all_reduce(square)
        clip_by(gradients_of(model), square.sqrt())  # bug
        finish(optimizer)


@bug(
    "https://github.com/ByteDance-Seed/VeOmni/issues/184",
    2025,
    BY_SPLIT,
    weights=SCALED,
    ranks=4,
    reductions=(5, 5),
    right={"weights": SCALED},
    pair=True,
)
def norm_summed_over_replicas_too(is_fixed):
    """The squares of shards are summed over all ranks, so that replicas count twice."""
    mesh = replicas_of_shards()
    model = fully_shard(make_uneven_net(), mesh=mesh)

    def clip(model):
        square = norm_of(gradients_of(model)) ** 2
        dist.all_reduce(square, group=mesh["shard"].get_group() if is_fixed else None)  # bug
        clip_by(gradients_of(model), square.sqrt())

    defer = lambda batch: model.set_requires_all_reduce(batch.is_last)  # noqa: E731
    train(model, before=defer, before_step=clip)


@bug(
    "https://github.com/petuum/adaptdl/pull/26",
    2020,
    BY_SPLIT,
    weights=SCALED,
    reductions=(4, 4),
    right={"weights": SCALED},
    pair=True,
)
def clipped_before_it_is_divided(is_fixed):
    """The user clips the sum over micro-batches, which the optimizer's step divides afterwards."""
    net = follow(make_net())
    optimizer = sgd(net)
    for step in steps():
        for batch in step:
            backward(net, batch, 1)
        average(net)
        for turn in (0, 1):
            if turn == is_fixed:
                clip_grad_norm_(net.parameters(), MOST)  # bug
            else:
                for gradient in gradients_of(net):
                    gradient.div_(len(step))
        finish(optimizer)


if __name__ == "__main__":
    run()
