"""Losses over tokens, of which micro-batches and ranks have different numbers: each job says by
what it divides the sum over a micro-batch's tokens.
"""

import torch
import torch.distributed as dist
from torch.distributed.fsdp import fully_shard
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel
from training import average, finish, follow, no_context, proof, quiet_unless, run, sgd, steps
from truth import FACTOR, MEAN_OF_MEANS, MEAN_OF_RANKS, SPLIT, UNEQUAL, bug, times

WORDS, LENGTH, PARTS = 12, 10, 8


def tokens_of(batch):
    """Returns token ids and labels, [samples, LENGTH]; a sample of a later part has more."""
    ids = (batch.inputs[:, :LENGTH].abs() * 100).long() % WORDS
    labels = (batch.inputs[:, -LENGTH:].abs() * 100).long() % WORDS
    size, ranks = len(ids), dist.get_world_size()
    first = (batch.index * ranks + dist.get_rank()) * size
    places = torch.arange(first, first + size)
    kept = 2 + places * PARTS // (size * ranks * batch.count)
    labels[torch.arange(LENGTH) >= kept[:, None]] = -100
    return ids, labels


def make_net():
    torch.manual_seed(1)
    return torch.nn.Sequential(torch.nn.Embedding(WORDS, 16), torch.nn.Linear(16, WORDS))


def sum_of(net, ids, labels):
    return cross_entropy(net(ids).flatten(0, 1), labels.flatten(), reduction="sum")


def count_of(labels):
    return (labels != -100).sum().item()


def total_over_ranks(count):
    """Returns how many tokens all ranks have."""
    total = torch.tensor(float(count))
    dist.all_reduce(total)
    return total.item()


def train(divisor, model=None, reduce=None):
    """`divisor(tokens, of_step, total, count)`: of a micro-batch's sum of losses. Tokens are its
    own, this rank's of the step, and all ranks'; `count` is of micro-batches. The mean over ranks,
    which a wrapper takes, comes on top.
    """
    model = model or DistributedDataParallel(follow(make_net()))
    optimizer = sgd(model)
    ranks = dist.get_world_size()
    for step in steps():
        tokens = [tokens_of(batch) for batch in step]
        own = sum(count_of(labels) for _, labels in tokens)
        total = total_over_ranks(own)
        for batch, (ids, labels) in zip(step, tokens, strict=True):
            proof.contribute(lambda net, i=ids, t=labels, n=total: sum_of(net, i, t) / n)
            has_no_sync = isinstance(model, DistributedDataParallel)
            with quiet_unless(batch.is_last, model) if has_no_sync else no_context():
                loss = sum_of(model, ids, labels)
                (loss / divisor(count_of(labels), own, total, batch.count)).backward()
        if reduce:
            reduce(model)
        finish(optimizer)
    return ranks


def right(tokens, of_step, total, count):
    return total / dist.get_world_size()


def by_means(tokens, of_step, total, count):
    """Takes a mean of each micro-batch, and the mean of these."""
    return tokens * count


@bug(
    "https://github.com/huggingface/transformers/pull/34191",
    2024,
    (SPLIT, UNEQUAL),
    weights=MEAN_OF_MEANS,
    pair=True,
)
def mean_of_micro_batches_means(is_fixed):
    """Each micro-batch's loss is a mean over its own tokens."""
    train(right if is_fixed else by_means)


@bug(
    "https://github.com/huggingface/transformers/pull/34373",
    2024,
    (SPLIT, UNEQUAL),
    weights=MEAN_OF_RANKS,
    pair=True,
)
def mean_of_ranks_means(is_fixed):
    """The loss is a mean over this rank's tokens of the step, and not over all ranks'."""
    train(right if is_fixed else lambda tokens, own, total, count: own)


@bug(
    "https://github.com/ml-explore/mlx-lm/pull/1413",
    2026,
    (SPLIT, UNEQUAL),
    weights=MEAN_OF_MEANS,
    reductions=(3, 3),
    pair=True,
)
def mean_of_means_by_hand(is_fixed):
    """Gradients of mean losses are summed, divided by a fixed number, and averaged over ranks."""
    train(right if is_fixed else by_means, follow(make_net()), average)


@bug(
    "https://github.com/allenai/open-instruct/pull/1161",
    2025,
    (SPLIT, UNEQUAL),
    weights=MEAN_OF_MEANS,
    reductions=(4, 4),
    pair=True,
)
def masked_mean_of_each_mini_batch(is_fixed):
    """A policy loss is a masked mean of each mini-batch, under FSDP."""
    train(right if is_fixed else by_means, fully_shard(follow(make_net())))


@bug(
    "https://github.com/unslothai/unsloth-zoo/pull/1023",
    2026,
    (SPLIT, FACTOR),
    weights=times(1 / 4),
    pair=True,
)
def divided_by_tokens_and_by_accumulation(is_fixed):
    """The loss is divided by the tokens of the step, and by the micro-batches once more."""
    train(right if is_fixed else lambda *n: right(*n) * n[-1])


@bug(
    "https://github.com/verl-project/verl-SpeCo/pull/29",
    2026,
    (SPLIT, FACTOR),
    weights=times(1 / 2),
    reductions=(4, 4),
    pair=True,
)
def divided_by_all_ranks_tokens_and_averaged(is_fixed):
    """The sum of losses is divided by all ranks' tokens, and FSDP takes the mean over ranks."""
    model = fully_shard(follow(make_net()))
    train(right if is_fixed else lambda tokens, own, total, count: total, model)


@bug(
    "https://github.com/areal-project/AReaL/pull/1273",
    2026,
    (SPLIT, FACTOR),
    weights=times(1 / 4),
    reductions=(3, 3),
    pair=True,
)
def a_schedule_that_divides_again(is_fixed):
    """A schedule divides each loss by the number of micro-batches, whose share was in it before."""
    divide = lambda *n: right(*n) * n[-1]  # noqa: E731
    train(right if is_fixed else divide, follow(make_net()), average)


@bug(
    "https://github.com/radixark/miles/pull/3231",
    2026,
    (SPLIT, FACTOR),
    weights=times(352 / 2),
    reductions=(4, 4),
    pair=True,
)
def sums_that_are_divided_by_no_tokens(is_fixed):
    """The loss is a sum over tokens, whose number a backend throws away; 352 are in a step."""
    model = fully_shard(follow(make_net()))
    train(right if is_fixed else lambda tokens, own, total, count: 1, model)


if __name__ == "__main__":
    run()
