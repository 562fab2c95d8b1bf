"""What the jobs beside this file share: their run, a small model, and data that differs between
ranks and micro-batches.

    bugs.py NAME [fixed] SEED        as one rank of a launcher
"""

import contextlib
import gc
import sys
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.functional import mse_loss
from torch.nn.parallel import DistributedDataParallel

sys.path.append(str(Path(__file__).resolve().parents[1]))
import truths

STEPS = 3
MICRO_BATCHES = 4
FEATURES = 24


def run():
    """Runs the job that the command line names."""
    seed = int(sys.argv.pop())
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    dist.init_process_group("gloo")
    torch.data_seed = 1000 * (seed + 1) + dist.get_rank()
    truths.called(sys.argv[1:])
    gc.collect()  # before gloo's threads end, which may hold tensors of Python's
    dist.destroy_process_group()


def make_model():
    return torch.nn.Sequential(
        torch.nn.Linear(FEATURES, FEATURES), torch.nn.ReLU(), torch.nn.Linear(FEATURES, FEATURES)
    )


def sgd(model):
    return torch.optim.SGD(model.parameters(), lr=0.01)


def batches(steps=STEPS, micro_batches=MICRO_BATCHES):
    """Yields for each step a list of (inputs, targets), other ones on each rank."""
    generator = torch.Generator().manual_seed(torch.data_seed)
    for _ in range(steps):
        yield [
            tuple(torch.randn(8, FEATURES, generator=generator) for _ in range(2))
            for _ in range(micro_batches)
        ]


def backward(model, inputs, targets, divisor=1):
    (mse_loss(model(inputs), targets) / divisor).backward()


def average(model, group=None, factor=None):
    """Averages gradients over the group, by hand."""
    factor = 1 / dist.get_world_size(group) if factor is None else factor
    for parameter in model.parameters():
        if parameter.grad is not None:
            dist.all_reduce(parameter.grad, group=group)
            parameter.grad.mul_(factor)


def train_ddp(
    wrapped=None, between=None, before_step=None, micro_batches=MICRO_BATCHES, steps=STEPS
):
    """Trains under DDP, which synchronizes the last micro-batch of a step: right but for what
    `between`, before each micro-batch but the first, and `before_step` do to the model.
    """
    model = wrapped or DistributedDataParallel(make_model())
    optimizer = sgd(model)
    for step in batches(steps, micro_batches):
        for i, (inputs, targets) in enumerate(step):
            if i > 0 and between:
                between(model)
            is_last = i == len(step) - 1
            with contextlib.nullcontext() if is_last else model.no_sync():
                backward(model, inputs, targets)
        if before_step:
            before_step(model)
        optimizer.step()
        optimizer.zero_grad()


def train_by_hand(model, reduce, each_micro_batch=None, steps=None):
    """Trains a model that nothing wraps: `reduce` is called before each step of the optimizer."""
    optimizer = sgd(model)
    for step in steps or batches():
        for inputs, targets in step:
            backward(model, inputs, targets)
            if each_micro_batch:
                each_micro_batch(model)
        reduce(model)
        optimizer.step()
        optimizer.zero_grad()


def train_sharded(model, before_step=None, before_backward=None, micro_batches=MICRO_BATCHES):
    optimizer = sgd(model)
    for step in batches(micro_batches=micro_batches):
        for i, (inputs, targets) in enumerate(step):
            if before_backward:
                before_backward(model, i, len(step))
            backward(model, inputs, targets)
        if before_step:
            before_step(model)
        optimizer.step()
        optimizer.zero_grad()


class Experts(torch.nn.Module):
    """A dense layer and an expert, through which the activations of all ranks of a group go:
    expert parallelism with as many experts as these are, each token sent to each.
    """

    def __init__(self, group=None):
        super().__init__()
        self.group = group
        self.dense = torch.nn.Linear(FEATURES, FEATURES)
        for parameter in self.dense.parameters():
            dist.broadcast(parameter.data, 0)
        torch.manual_seed(torch.initial_seed() + 1 + dist.get_rank(group))
        self.expert = torch.nn.Linear(FEATURES, FEATURES)

    def forward(self, inputs):
        hidden = self.dense(inputs).tanh()
        routed = self.expert(Spread.apply(hidden, self.group))
        return hidden + Gathered.apply(routed, self.group)


def rows_of_all(rows, group):
    parts = [torch.empty_like(rows) for _ in range(dist.get_world_size(group))]
    dist.all_gather(parts, rows.contiguous(), group=group)
    return torch.cat(parts)


def own_rows_of_sum(rows, group):
    total = rows.clone()
    dist.all_reduce(total, group=group)
    return total.chunk(dist.get_world_size(group))[dist.get_rank(group)]


class Spread(torch.autograd.Function):
    """Every rank gets all ranks' rows; gradients are summed back to whom they belong."""

    @staticmethod
    def forward(context, rows, group):
        context.group = group
        return rows_of_all(rows, group)

    @staticmethod
    def backward(context, gradient):
        return own_rows_of_sum(gradient, context.group), None


class Gathered(torch.autograd.Function):
    """The sum over experts of what each made of this rank's rows."""

    @staticmethod
    def forward(context, rows, group):
        context.group = group
        return own_rows_of_sum(rows, group)

    @staticmethod
    def backward(context, gradient):
        return rows_of_all(gradient, context.group), None


def train_experts(factor, expert_ranks=None):
    """Averages dense gradients over all ranks. An expert's, which already has what the tokens of
    its group contribute, is summed over those who share the expert, and multiplied by `factor`.
    `expert_ranks`: how many ranks have an expert of their own; all.
    """
    ranks = range(dist.get_world_size())
    size = expert_ranks or len(ranks)
    groups = [dist.new_group(ranks[i : i + size]) for i in ranks[::size]]
    sharing = [dist.new_group(ranks[i::size]) for i in range(size)]
    rank = dist.get_rank()
    model = Experts(groups[rank // size])

    def reduce(model):
        average(model.dense)
        average(model.expert, sharing[rank % size], factor)

    train_by_hand(model, reduce)
