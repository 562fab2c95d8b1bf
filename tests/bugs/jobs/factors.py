"""Jobs whose whole gradient is too large or too small, by the ranks or the micro-batches."""

import torch
import torch.distributed as dist
from torch.distributed.fsdp import fully_shard
from torch.nn.functional import mse_loss
from training import (
    average,
    ddp,
    finish,
    follow,
    gradients_of,
    loss_of,
    make_net,
    proof,
    quiet_unless,
    replicas_of_shards,
    run,
    sgd,
    steps,
    train,
)
from truth import BY_SPLIT, OF_RANKS, bug, times


@bug("https://github.com/NVIDIA-NeMo/RL/issues/84", 2025, BY_SPLIT, weights=times(4), pair=True)
def summed_over_micro_batches(is_fixed):
    """Losses of micro-batches are means, and are added up."""
    model = ddp()
    optimizer = sgd(model)
    for step in steps():
        for batch in step:
            with quiet_unless(batch.is_last, model):
                loss = loss_of(model, batch)
                (loss / batch.count if is_fixed else loss).backward()  # bug
        finish(optimizer)


@bug(
    "https://github.com/lukas-blecher/LaTeX-OCR/pull/148",
    2022,
    BY_SPLIT,
    weights=times(4),
    reductions=(4, 4),
    pair=True,
)
def gradients_summed_over_micro_batches(is_fixed):
    """The same by hand: the gradient is not scaled by the share of a micro-batch in the batch."""
    net = follow(make_net())
    optimizer = sgd(net)
    for step in steps():
        for batch in step:
            loss_of(net, batch).backward()
        average(net)
        for gradient in gradients_of(net) if is_fixed else ():
            gradient.div_(len(step))
        finish(optimizer)


@bug(
    "https://github.com/verl-project/verl/pull/3332",
    2025,
    BY_SPLIT,
    weights=times(4),
    reductions=(4, 1),
    pair=True,
)
def not_normalized_and_reduced_each_time(is_fixed):
    """Losses are not divided by the micro-batches, and FSDP reduces in each of them."""
    model = fully_shard(follow(make_net()))
    optimizer = sgd(model)
    for step in steps():
        for batch in step:
            if is_fixed:
                model.set_requires_gradient_sync(batch.is_last)
            (loss_of(model, batch) / (batch.count if is_fixed else 1)).backward()  # bug
        finish(optimizer)


@bug(
    "https://github.com/srush/LLM-Training-Puzzles/issues/9",
    2024,
    BY_SPLIT,
    weights=times(2),
    reductions=(4, 4),
    pair=True,
)
def summed_over_ranks(is_fixed):
    """Gradients of means are summed over ranks, and never divided."""
    net = follow(make_net())
    train(net, before_step=lambda model: average(model, factor=None if is_fixed else 1))


@bug(
    "https://github.com/tensorflow/benchmarks/issues/466",
    2020,
    BY_SPLIT,
    weights=times(2),
    pair=True,
)
def summed_as_one_buffer(is_fixed):
    """All gradients as one buffer are summed over replicas. Reported of TensorFlow."""
    net = follow(make_net())

    def reduce(model):
        flat = torch.cat([gradient.flatten() for gradient in gradients_of(model)])
        dist.all_reduce(flat)  # bug
        if is_fixed:
            flat /= dist.get_world_size()
        parts = flat.split([parameter.numel() for parameter in model.parameters()])
        for gradient, part in zip(gradients_of(model), parts, strict=True):
            gradient.copy_(part.view_as(gradient))

    train(net, before_step=reduce)


@bug(
    "https://github.com/pytorch/pytorch/pull/42400",
    2020,
    BY_SPLIT,
    weights=times(1 / 2),
    pair=True,
)
def divided_before_the_hook_and_in_it(is_fixed):
    """A communication hook gets gradients that are divided already, and divides."""
    model = ddp()

    def hook(state, bucket):
        if not is_fixed:
            bucket.buffer().div_(dist.get_world_size())
        flat = bucket.buffer().div_(dist.get_world_size())
        work = dist.all_reduce(flat, async_op=True)  # bug
        return work.get_future().then(lambda future: future.value()[0])

    model.register_comm_hook(None, hook)
    train(model)


@bug("https://github.com/texttron/tevatron/issues/143", 2024, BY_SPLIT, weights=times(2), pair=True)
def loss_times_the_ranks(is_fixed):
    """The loss is a mean, and is multiplied by the ranks so that DDP's mean is a sum."""
    model = ddp()
    optimizer = sgd(model)
    for step in steps():
        for batch in step:
            with quiet_unless(batch.is_last, model):
                factor = 1 if is_fixed else dist.get_world_size()
                (loss_of(model, batch) * factor / batch.count).backward()  # bug
        finish(optimizer)


@bug(
    "https://github.com/pytorch/pytorch/issues/155903",
    2025,
    BY_SPLIT,
    weights=times(1 / 2),
    ranks=4,
    reductions=(5, 5),
    pair=True,
)
def divide_factor_for_shards_alone(is_fixed):
    """A divide factor is taken for the sharding ranks, and replicas divide again."""
    mesh = replicas_of_shards()
    model = fully_shard(follow(make_net()), mesh=mesh)

    def halve(model):
        for gradient in gradients_of(model) if not is_fixed else ():
            gradient.to_local().div_(mesh["replicate"].size())  # bug

    defer = lambda batch: model.set_requires_all_reduce(batch.is_last)  # noqa: E731
    train(model, before=defer, before_step=halve)


@bug(
    "https://github.com/NovaSky-AI/SkyRL/pull/1420",
    2026,
    BY_SPLIT,
    weights=times(1 / 2),
    ranks=4,
    pair=True,
)
def corrected_for_the_wrong_group(is_fixed):
    """Gradients are averaged over all ranks, two of which share a sequence; the correction that
    makes sums of them knows the data-parallel ranks alone.
    """
    shared = min(2, dist.get_world_size())
    model = ddp()
    optimizer = sgd(model)
    for step in steps():
        for batch in step:
            with quiet_unless(batch.is_last, model):
                correction = dist.get_world_size() / (1 if is_fixed else shared)
                share = 1 / dist.get_world_size()  # of the loss that is a sum over ranks
                (loss_of(model, batch) * share * correction / batch.count).backward()
        finish(optimizer)


@bug(
    "https://github.com/NVIDIA/Megatron-LM/issues/906",
    2024,
    BY_SPLIT,
    weights=times(2),
    reductions=(4, 4),
    ranks=4,
    pair=True,
)
def scaled_for_context_parallelism_twice(is_fixed):
    """The loss is multiplied by the ranks that share a sequence, as gradients were divided by all
    ranks once; now they are divided by the data-parallel ones.
    """
    shared = min(2, dist.get_world_size())
    net = follow(make_net())
    optimizer = sgd(net)
    for step in steps():
        for batch in step:
            (loss_of(net, batch) * (1 if is_fixed else shared) / batch.count).backward()
        average(net)
        finish(optimizer)


@bug(
    "https://github.com/meta-pytorch/torchtune/issues/2420",
    2025,
    BY_SPLIT,
    weights=times(2),
    reductions=(4, 4),
    ranks=4,
    pair=True,
)
def scaled_by_all_ranks(is_fixed):
    """Gradients are scaled by all ranks, of which half hold other parts of the same layers."""
    net = follow(make_net())

    def reduce(model):
        average(model)
        for gradient in gradients_of(model) if not is_fixed else ():
            gradient.mul_(dist.get_world_size() / 2)  # bug

    train(net, before_step=reduce)


class Gathered(torch.autograd.Function):
    """All ranks' rows; what flows back to this rank's own is of its own loss alone."""

    @staticmethod
    def forward(context, rows):
        parts = [torch.empty_like(rows) for _ in range(dist.get_world_size())]
        dist.all_gather(parts, rows.contiguous())
        return torch.cat(parts)

    @staticmethod
    def backward(context, gradient):
        return gradient.chunk(dist.get_world_size())[dist.get_rank()]


def train_on_gathered(scale):
    """A loss of all ranks' outputs, which each rank computes whole."""
    model = ddp()
    optimizer = sgd(model)
    for step in steps():
        share = 1 / (dist.get_world_size() * len(step))
        for batch in step:
            proof.contribute(lambda net, b=batch, s=share: s * mse_loss(net(b.inputs), b.targets))
            with quiet_unless(batch.is_last, model):
                outputs = Gathered.apply(model(batch.inputs))
                loss = mse_loss(outputs, Gathered.apply(batch.targets))
                (loss * scale / len(step)).backward()
        finish(optimizer)


@bug(
    "https://github.com/JohnGiorgi/DeCLUTR/pull/212",
    2021,
    BY_SPLIT,
    weights=times(1 / 2),
    pair=True,
)
def gathered_outputs_without_a_scale(is_fixed):
    """A loss over all ranks' embeddings has a gradient for this rank's own, and DDP divides it."""
    train_on_gathered(dist.get_world_size() if is_fixed else 1)


@bug(
    "https://github.com/lightly-ai/lightly/issues/1977",
    2026,
    BY_SPLIT,
    weights=times(1 / 2),
    reductions=(2, 2),
    pair=OF_RANKS,
)
def a_summed_statistic_without_its_gradient(is_fixed):
    """A loss of a correlation that is summed over ranks, where autograd sees this rank's part."""
    model = ddp()
    optimizer = sgd(model)
    scale = dist.get_world_size() if is_fixed else 1
    for [batch] in steps(micro_batches=1):
        own = model(batch.inputs).T @ batch.targets
        total = own.detach().clone()
        dist.all_reduce(total)
        others = total - own.detach()
        proof.contribute(lambda net, b=batch, o=others: penalty(net(b.inputs).T @ b.targets + o))
        (penalty(own + others) * scale).backward()
        finish(optimizer)


def penalty(correlation):
    return mse_loss(correlation / 100, torch.eye(len(correlation)))


if __name__ == "__main__":
    run()
