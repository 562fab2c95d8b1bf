"""Tensor and sequence parallelism: replicas inside of a model whose gradients are parts."""

import torch
import torch.distributed as dist
from torch.nn.functional import mse_loss
from training import (
    FEATURES,
    OUTPUTS,
    end_step,
    follow,
    gradients_of,
    proof,
    run,
    sgd,
    steps,
)
from truth import ALL, DRIFT, FACTOR, UNREAD, bug, own, times


class Gather(torch.autograd.Function):
    """All ranks' rows. Backward sums what ranks have of this rank's rows, by no reduction."""

    @staticmethod
    def forward(context, rows):
        return torch.cat(all_of(rows))

    @staticmethod
    def backward(context, gradient):
        ranks, rank = dist.get_world_size(), dist.get_rank()
        return sum(each.chunk(ranks)[rank] for each in all_of(gradient))


def all_of(tensor):
    parts = [torch.empty_like(tensor) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, tensor.contiguous())
    return parts


class Block(torch.nn.Module):
    """A norm over this rank's part of a sequence, and its columns of a layer over the whole."""

    def __init__(self, **more):
        super().__init__()
        self.norm = torch.nn.LayerNorm(FEATURES)
        torch.manual_seed(1 + dist.get_rank())
        self.columns = torch.nn.Linear(FEATURES, OUTPUTS // dist.get_world_size())
        for name, module in more.items():
            self.add_module(name, module)

    def forward(self, part):
        return self.columns(Gather.apply(self.norm(part)))


def train(model, replicas, reduce):
    """All ranks have the same sequence. A rank's loss is of its own columns. `replicas` names the
    modules of which each rank has a whole copy, and sees a part of the sequence.
    """
    optimizer = sgd(model)
    rank, ranks = dist.get_rank(), dist.get_world_size()
    for step in steps():
        for batch in step:
            rows = torch.cat(all_of(batch.inputs))
            wanted = torch.cat(all_of(batch.targets)).chunk(ranks, 1)[rank]
            before = [copy_of(each.grad) for each in replicas.parameters()]
            outputs = model(rows.chunk(ranks)[rank])
            (mse_loss(outputs, wanted) / (batch.count * ranks)).backward()
            # A rank's part of the gradient: what its backward gave, before anything is reduced.
            proof.note(
                {
                    name: each.grad - (0 if old is None else old)
                    for (name, each), old in zip(named_in(model, replicas), before, strict=True)
                }
            )
        reduce(model)
        optimizer.step()
        optimizer.zero_grad()
        end_step()


def copy_of(gradient):
    return None if gradient is None else gradient.clone()


def named_in(model, replicas):
    mine = {id(each) for each in replicas.parameters()}
    return [(name, each) for name, each in model.named_parameters() if id(each) in mine]


def summed(module, factor=1.0):
    for gradient in gradients_of(module):
        dist.all_reduce(gradient)
        gradient.mul_(factor)


@bug(
    "https://github.com/NVIDIA/Megatron-LM/issues/1446",
    2025,
    DRIFT,
    weights={"norm": own(1), "columns": UNREAD},
    reductions=(0, 2),
    drifts=("norm", "columns"),
    right={"weights": {"norm": ALL, "columns": UNREAD}, "drifts": ("columns",)},
)
def a_norm_over_parts_of_a_sequence(is_fixed):
    """With sequence parallelism a norm's gradient is a part on each rank, and is never summed."""
    model = follow(Block())
    train(model, model.norm, lambda model: summed(model.norm) if is_fixed else None)


@bug(
    "https://github.com/NVIDIA-NeMo/Speech/pull/7184",
    2023,
    DRIFT,
    weights={"norm": own(1), "columns": UNREAD},
    reductions=(0, 2),
    drifts=("norm", "columns"),
    right={"weights": {"norm": ALL, "columns": UNREAD}, "drifts": ("columns",)},
)
def norms_marked_by_another_name(is_fixed):
    """Parameters to sum are found by an attribute, which another library calls otherwise."""
    model = follow(Block())
    for parameter in model.norm.parameters():
        parameter.sequence_parallel_enabled = True

    def reduce(model):
        name = "sequence_parallel_enabled" if is_fixed else "sequence_parallel"
        for parameter in model.parameters():
            if getattr(parameter, name, False):
                dist.all_reduce(parameter.grad)

    train(model, model.norm, reduce)


@bug(
    "https://github.com/EleutherAI/gpt-neox/pull/1257",
    2024,
    DRIFT,
    weights={"norm": own(1), "columns": UNREAD},
    reductions=(0, 2),
    drifts=("norm", "columns"),
    right={"weights": {"norm": ALL, "columns": UNREAD}, "drifts": ("columns",)},
)
def hooks_that_never_fire(is_fixed):
    """Hooks that should reduce norms' gradients are on copies of the parameters."""
    model = follow(Block())

    def reduce(parameter):
        if parameter.grad is not None and model.is_last:
            dist.all_reduce(parameter.grad)

    model.is_last, calls = False, [0]

    def count(*_):
        calls[0] += 1
        model.is_last = calls[0] % 4 == 0

    model.register_forward_hook(count)
    for parameter in model.norm.parameters():
        hooked = parameter if is_fixed else torch.nn.Parameter(parameter.detach().clone())
        hooked.register_post_accumulate_grad_hook(reduce)
    train_with_hooks(model)


def train_with_hooks(model):
    """As train() does, where hooks reduce: a rank's own part is computed apart."""
    optimizer = sgd(model)
    rank, ranks = dist.get_rank(), dist.get_world_size()
    for step in steps():
        for batch in step:
            rows = torch.cat(all_of(batch.inputs))
            wanted = torch.cat(all_of(batch.targets)).chunk(ranks, 1)[rank]
            outputs = model(rows.chunk(ranks)[rank])
            loss = mse_loss(outputs, wanted) / (batch.count * ranks)
            norm = list(model.norm.parameters())
            if proof.folder:
                parts = torch.autograd.grad(loss, norm, retain_graph=True)
                proof.note(dict(zip(("norm.weight", "norm.bias"), parts, strict=True)))
            loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        end_step()


@bug(
    "https://github.com/modelscope/mcore-bridge/pull/173",
    2026,
    DRIFT,
    weights={"norm": ALL, "down": own(1), "columns": UNREAD},
    reductions=(2, 3),
    drifts=("down", "columns"),
    right={"weights": {"norm": ALL, "down": ALL, "columns": UNREAD}, "drifts": ("columns",)},
)
def a_replicated_factor_of_an_adapter(is_fixed):
    """One factor of a low-rank update is a replica that sees parts of the sequence, as norms do,
    and is not marked as they are.
    """

    class WithAdapter(Block):
        def forward(self, part):
            part = self.norm(part)
            return self.columns(Gather.apply(part + self.down(part)))

    torch.manual_seed(0)
    model = follow(WithAdapter(down=torch.nn.Linear(FEATURES, FEATURES, bias=False)))
    dist.broadcast(model.down.weight.data, 0)
    replicas = torch.nn.ModuleList([model.norm, model.down])

    def reduce(model):
        summed(model.norm)
        if is_fixed:
            summed(model.down)

    train(model, replicas, reduce)


@bug(
    "https://github.com/areal-project/AReaL/issues/313",
    2025,
    FACTOR,
    weights={"norm": times(1 / 2), "columns": UNREAD},
    reductions=(2, 2),
    drifts=("columns",),
    right={"weights": {"norm": ALL, "columns": UNREAD}, "drifts": ("columns",)},
)
def parts_that_are_averaged(is_fixed):
    """Replicas' gradients are averaged over the ranks that share a sequence; they are parts."""
    model = follow(Block())
    factor = 1.0 if is_fixed else 1 / dist.get_world_size()
    train(model, model.norm, lambda model: summed(model.norm, factor))


@bug(
    "https://github.com/facebookresearch/fairchem/pull/1067",
    2025,
    FACTOR,
    weights={"norm": times(1 / 2), "columns": UNREAD},
    reductions=(2, 2),
    drifts=("columns",),
    right={"weights": {"norm": ALL, "columns": UNREAD}, "drifts": ("columns",)},
)
def a_gather_that_divides_in_backward(is_fixed):
    """Ranks share a graph's parts; the mean over all ranks counts each loss as often as they are,
    and backward of the gather does not make up for it.
    """

    class Divided(Block):
        def forward(self, part):
            whole = Gather.apply(self.norm(part))
            if not is_fixed:
                whole = (whole + whole.detach()) / 2  # the same forward, half of it backward
            return self.columns(whole)

    model = follow(Divided())
    train_parts(model)


def train_parts(model):
    """As train(), noting what backward of the right graph gives."""
    optimizer = sgd(model)
    rank, ranks = dist.get_rank(), dist.get_world_size()
    for step in steps():
        for batch in step:
            rows = torch.cat(all_of(batch.inputs))
            wanted = torch.cat(all_of(batch.targets)).chunk(ranks, 1)[rank]
            part = rows.chunk(ranks)[rank]
            if proof.folder:
                right = mse_loss(Block.forward(model, part), wanted) / (batch.count * ranks)
                parts = torch.autograd.grad(right, list(model.norm.parameters()))
                proof.note(dict(zip(("norm.weight", "norm.bias"), parts, strict=True)))
            (mse_loss(model(part), wanted) / (batch.count * ranks)).backward()
        summed(model.norm)
        optimizer.step()
        optimizer.zero_grad()
        end_step()


if __name__ == "__main__":
    run()
