"""Experts that other ranks' tokens reach: their gradients are sums over ranks before any
collective, and need another divisor than the dense layers'.
"""

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn.functional import mse_loss
from training import (
    FEATURES,
    OUTPUTS,
    end_step,
    finish,
    follow,
    gradients_of,
    proof,
    run,
    sgd,
    steps,
)
from truth import ALL, DRIFT, FACTOR, UNREAD, bug, odd, times


class Experts(torch.nn.Module):
    """A dense layer, and an expert of this rank, through which the tokens of all ranks of a group
    go: each token is sent to each expert.
    """

    def __init__(self, group=None):
        super().__init__()
        self.group = group
        self.dense = torch.nn.Linear(FEATURES, FEATURES)
        torch.manual_seed(1 + dist.get_rank(group))
        self.expert = torch.nn.Linear(FEATURES, OUTPUTS)

    def forward(self, inputs):
        hidden = self.dense(inputs).tanh()
        routed = self.expert(Spread.apply(hidden, self.group))
        return Gathered.apply(routed, self.group)


def rows_of_all(rows, group):
    parts = [torch.empty_like(rows) for _ in range(dist.get_world_size(group))]
    dist.all_gather(parts, rows.contiguous(), group=group)
    return torch.cat(parts)


def own_rows_of_sum(rows, group):
    """Returns this rank's rows of the sum, by exchanges that are no reductions."""
    ranks, rank = dist.get_world_size(group), dist.get_rank(group)
    sent = rows_of_all(rows.contiguous(), group).chunk(ranks)
    return sum(each.chunk(ranks)[rank] for each in sent)


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


def note(model, batch):
    """Notes this micro-batch's contribution to the dense layer and to its group's experts, computed
    as one process would that has all of them.
    """
    if not proof.folder:
        return
    group = model.group
    size = dist.get_world_size(group)
    weights, biases = (
        rows_of_all(whole(parameter)[None], group)
        for parameter in (model.expert.weight, model.expert.bias)
    )
    dense = [whole(parameter) for parameter in model.dense.parameters()]
    leaves = [each.detach().requires_grad_() for each in (*dense, weights, biases)]
    hidden = torch.nn.functional.linear(batch.inputs, *leaves[:2]).tanh()
    outputs = sum(
        torch.nn.functional.linear(hidden, leaves[2][i], leaves[3][i]) for i in range(size)
    )
    loss = mse_loss(outputs, batch.targets) / (batch.count * dist.get_world_size())
    *of_dense, of_weights, of_biases = torch.autograd.grad(loss, leaves)
    named = dict(zip(("dense.weight", "dense.bias"), of_dense, strict=True))
    # Each rank's own expert has the same name: its place tells which one is meant.
    for i in range(size):
        named |= {f"expert{i}.weight": of_weights[i], f"expert{i}.bias": of_biases[i]}
    proof.note(named)


def whole(parameter):
    full = parameter.full_tensor() if hasattr(parameter, "full_tensor") else parameter
    return full.detach()


def train(model, reduce):
    """`reduce` gets the model before each step, with the sums over micro-batches."""
    optimizer = sgd(model)
    for step in steps():
        for batch in step:
            note(model, batch)
            (mse_loss(model(batch.inputs), batch.targets) / batch.count).backward()
        reduce(model)
        read = dict(model.named_parameters())
        place = dist.get_rank(model.group)
        proof.read |= {
            name.replace("expert", f"expert{place}"): whole(each.grad)
            for name, each in read.items()
            if proof.folder
        }
        optimizer.step()
        optimizer.zero_grad()
        end_step()


def summed(module, group=None, factor=1.0):
    for gradient in gradients_of(module):
        if group is None or dist.get_world_size(group) > 1:
            dist.all_reduce(gradient, group=group)
        gradient.mul_(factor)


def groups(expert_ranks):
    """Returns the group whose experts this rank's tokens reach, and that of its expert's copies."""
    ranks = range(dist.get_world_size())
    reached = [dist.new_group(ranks[i : i + expert_ranks]) for i in ranks[::expert_ranks]]
    sharing = [dist.new_group(ranks[i::expert_ranks]) for i in range(expert_ranks)]
    rank = dist.get_rank()
    return reached[rank // expert_ranks], sharing[rank % expert_ranks]


def train_experts(factor, expert_ranks=2):
    """Dense gradients are averaged over all ranks; an expert's is summed over its copies, and
    multiplied by the factor.
    """
    reached, sharing = groups(expert_ranks)
    model = Experts(reached)

    def reduce(model):
        summed(model.dense, None, 1 / dist.get_world_size())
        summed(model.expert, sharing, factor)

    train(model, reduce)


@bug(
    "https://github.com/databricks/megablocks/pull/20",
    2023,
    FACTOR,
    weights={"dense": ALL, "expert0": times(2), "expert1": times(2)},
    reductions=(2, 2),
)
def experts_that_are_not_divided(is_fixed):
    """An expert's gradient has all ranks' tokens, and is not divided by the ranks."""
    train_experts(1 / 2 if is_fixed else 1)


@bug(
    "https://github.com/NVIDIA/Megatron-LM/pull/5956",
    2026,
    FACTOR,
    weights={"dense": ALL, "expert0": times(2), "expert1": times(2)},
    reductions=(4, 4),
    ranks=4,
)
def experts_divided_by_their_copies(is_fixed):
    """Two ranks have copies of an expert; they divide by two, and four ranks' tokens are in it."""
    train_experts(1 / 4 if is_fixed else 1 / 2)


@bug(
    "https://github.com/deepspeedai/DeepSpeed/pull/6546",
    2024,
    FACTOR,
    weights={"dense": ALL, "expert0": times(1 / 2), "expert1": times(1 / 2)},
    reductions=(4, 4),
    ranks=4,
)
def experts_divided_by_both_groups(is_fixed):
    """An expert's gradient is divided by the data-parallel ranks, and by its copies on the way."""
    train_experts(1 / 4 if is_fixed else 1 / 8)


@bug(
    "https://github.com/NVIDIA/Megatron-LM/pull/7160",
    2026,
    FACTOR,
    weights={"dense": ALL, "expert0": times(4), "expert1": times(4)},
    reductions=(4, 4),
    ranks=4,
)
def dense_layers_alone_recover_a_factor(is_fixed):
    """An axis is cut out of data parallelism: dense layers get its factor back, experts do not."""
    train_experts(1 / 4 if is_fixed else 1)


@bug(
    "https://github.com/facebookresearch/fairseq/issues/4220",
    2022,
    (DRIFT, FACTOR),
    weights=UNREAD,
    reductions=(2, 4),
    ranks=4,
)
def copies_of_experts_that_are_skipped(is_fixed):
    """Parameters of experts are left out of the all-reduce, although two ranks have each expert."""
    reached, sharing = groups(2)
    model = Experts(reached)

    def reduce(model):
        summed(model.dense, None, 1 / dist.get_world_size())
        if is_fixed:
            summed(model.expert, sharing, 1 / 4)  # bug

    train(model, reduce)


@bug(
    "https://github.com/pytorch/pytorch/pull/167178",
    2025,
    FACTOR,
    weights={"dense": ALL, "expert0": times(2), "expert1": times(2)},
    reductions=(4, 4),
)
def divide_factor_of_a_mesh_of_one(is_fixed):
    """Experts are wrapped over a mesh of one rank, where a divide factor is passed over."""
    model = Experts()
    mesh = init_device_mesh("cpu", (dist.get_world_size(), 1), mesh_dim_names=("all", "one"))
    fully_shard(model.expert, mesh=mesh["one"])
    fully_shard(model.dense, mesh=mesh["all"])

    def divide(model):
        for gradient in gradients_of(model.expert) if is_fixed else ():
            gradient.to_local().div_(dist.get_world_size())

    train(model, divide)


class Routed(Experts):
    """Each expert takes its share of the rows of all ranks."""

    def forward(self, inputs):
        rows = Spread.apply(self.dense(inputs).tanh(), self.group)
        taken = torch.arange(len(rows)) % dist.get_world_size() == dist.get_rank()
        return Gathered.apply(self.expert(rows) * taken[:, None], self.group)


@odd(weights=UNREAD, reductions=2, drifts=("expert",))
def experts_that_begin_alike():
    """All ranks' experts begin with the same random numbers."""
    model = follow(Routed())
    torch.manual_seed(1)
    model.expert.reset_parameters()
    optimizer = sgd(model)
    for step in steps():
        for batch in step:
            (mse_loss(model(batch.inputs), batch.targets) / batch.count).backward()
        summed(model.dense, None, 1 / dist.get_world_size())
        for gradient in gradients_of(model.expert):
            gradient.div_(dist.get_world_size())
        finish(optimizer)


if __name__ == "__main__":
    run()
