"""Correct jobs with parameters of one name that are not replicas: they differ from the start, or
from the first step on where they began with zeros or ones.
"""

import torch
import torch.distributed as dist
from torch.distributed.nn.functional import all_to_all_single
from torch.nn.functional import mse_loss
from torch.nn.parallel import DistributedDataParallel
from training import (
    BATCH,
    FEATURES,
    HIDDEN,
    OUTPUTS,
    STEPS,
    batches,
    finish,
    make_model,
    proof,
    run,
    sgd,
)
from truths import job, not_recognised, once


def drawn_by_rank(make):
    """Returns what `make` makes with other random numbers on each rank."""
    with torch.random.fork_rng():
        torch.manual_seed(1000 + dist.get_rank())
        made = make()
    for name, parameter in made.named_parameters():
        if name.endswith("bias"):
            torch.nn.init.zeros_(parameter)
    return made


class Mixture(torch.nn.Module):
    """A dense layer that is wrapped by DDP, and an expert on each rank, that nothing wraps. Half of
    a rank's rows go to each expert of two.
    """

    def __init__(self):
        super().__init__()
        self.dense = DistributedDataParallel(torch.nn.Linear(FEATURES, OUTPUTS))
        self.expert = drawn_by_rank(lambda: torch.nn.Linear(OUTPUTS, OUTPUTS))

    def forward(self, inputs):
        hidden = self.dense(inputs).tanh()
        sent = all_to_all_single(torch.empty_like(hidden), hidden)
        made = self.expert(sent)
        return hidden + all_to_all_single(torch.empty_like(made), made.contiguous())


@job(once(1, also=("own_parameters",), drift={"expert.weight": 1, "expert.bias": 2}, reductions=1))
def experts_beside_ddp():
    model = Mixture()
    proof.compare(model.named_parameters())
    optimizer = sgd(model.parameters())
    for inputs, targets in batches(STEPS):
        mse_loss(model(inputs), targets).backward()
        for parameter in model.expert.parameters():
            parameter.grad.div_(dist.get_world_size())  # it has all ranks' rows
        finish(optimizer)


@job(
    not_recognised(
        "unwrapped_averaged_by_hand",
        0,
        drift={"layer.weight": 1, "layer.bias": 2, "norm": 2},
        reductions=0,
    )
)
def stages_of_a_pipeline():
    """Each rank has a stage, whose parameters have the names of the other one's."""

    class Stage(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer, self.norm = (
                torch.nn.Linear(FEATURES, FEATURES),
                torch.nn.LayerNorm(FEATURES),
            )

        def forward(self, inputs):
            return self.norm(self.layer(inputs)).tanh()

    stage = drawn_by_rank(Stage)
    proof.compare(stage.named_parameters())
    optimizer = sgd(stage.parameters())
    for inputs, targets in batches(STEPS, FEATURES):
        if dist.get_rank() == 0:
            hidden = stage(inputs)
            dist.send(hidden.detach(), 1)
            upstream = torch.empty_like(hidden)
            dist.recv(upstream, 1)
            hidden.backward(upstream)
        else:
            received = torch.empty(BATCH, FEATURES)
            dist.recv(received, 0)
            received.requires_grad_()
            mse_loss(stage(received), targets).backward()
            dist.send(received.grad, 0)
        finish(optimizer)


class Copied(torch.autograd.Function):
    """Goes to every rank's part of a layer; their gradients are summed."""

    @staticmethod
    def forward(context, inputs):
        return inputs.clone()

    @staticmethod
    def backward(context, gradient):
        gradient = gradient.clone()
        dist.all_reduce(gradient)
        return gradient


class Summed(torch.autograd.Function):
    """The sum of what every rank's part of a layer made."""

    @staticmethod
    def forward(context, inputs):
        total = inputs.clone()
        dist.all_reduce(total)
        return total

    @staticmethod
    def backward(context, gradient):
        return gradient


class Parallel(torch.nn.Module):
    """Two layers, of which each rank has half: the first by columns, the second by rows."""

    def __init__(self):
        super().__init__()
        self.norm = torch.nn.LayerNorm(FEATURES)
        half = HIDDEN // dist.get_world_size()
        self.columns = drawn_by_rank(lambda: torch.nn.Linear(FEATURES, half))
        self.rows = drawn_by_rank(lambda: torch.nn.Linear(half, OUTPUTS, bias=False))

    def forward(self, inputs):
        return Summed.apply(self.rows(self.columns(Copied.apply(self.norm(inputs))).tanh()))


@job(
    not_recognised(
        "unknown_wrapper",
        0,
        drift={"columns.weight": 1, "columns.bias": 2, "rows.weight": 1},
        reductions=2,
    )
)
def shards_of_layers():
    """Tensor parallelism by hand: all ranks have the same data, and norm is a replica."""
    model = Parallel()
    proof.compare(model.named_parameters())
    optimizer = sgd(model.parameters())
    same = torch.Generator().manual_seed(3)
    for _ in range(STEPS):
        inputs = torch.randn(BATCH, FEATURES, generator=same)
        mse_loss(model(inputs), torch.randn(BATCH, OUTPUTS, generator=same)).backward()
        finish(optimizer)


@job(
    not_recognised(
        "unwrapped_averaged_by_hand",
        0,
        drift={"0.weight": 1, "0.bias": 2, "2.weight": 1, "2.bias": 2},
        reductions=0,
    )
)
def ensemble():
    """Each rank trains a member from random numbers of its own. Losses are averaged for the log."""
    member = drawn_by_rank(make_model)
    proof.compare(member.named_parameters())
    optimizer = sgd(member.parameters())
    for inputs, targets in batches(STEPS):
        loss = mse_loss(member(inputs), targets)
        loss.backward()
        dist.all_reduce(loss.detach().clone())
        finish(optimizer)


@job(once(1, also=("own_parameters",), drift={"head.weight": 1, "head.bias": 2}, reductions=1))
def head_of_each_rank():
    """A body that all ranks share, under DDP, and a head for each rank's own data."""
    body = DistributedDataParallel(make_model(HIDDEN))
    head = drawn_by_rank(lambda: torch.nn.Linear(HIDDEN, OUTPUTS))
    of_head = {f"head.{name}": each for name, each in head.named_parameters()}
    proof.compare({**of_head, **dict(body.module.named_parameters())})
    optimizer = sgd([*body.parameters(), *head.parameters()])
    for inputs, targets in batches(STEPS):
        mse_loss(head(body(inputs)), targets).backward()
        finish(optimizer)


if __name__ == "__main__":
    run()
