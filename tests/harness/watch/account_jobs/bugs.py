"""Jobs on gloo whose gradients are wrong, each with what an account says of it, word for word. Most
public bugs are in tests/bugs/; those here beside them have words or shapes of their own.
"""

import math
import os

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel
from training import (
    MICRO_BATCHES,
    Experts,
    average,
    backward,
    batches,
    make_model,
    run,
    sgd,
    train_by_hand,
    train_ddp,
    train_experts,
    train_sharded,
)
from truths import Account, job, off


def gradients_of(model):
    return [p.grad for p in model.parameters() if p.grad is not None]


def unless(is_fixed, wrong):
    """Returns the function that does what is wrong; None: the job is to be right."""
    return None if is_fixed else wrong


# ---- dropped ---------------------------------------------------------------------------------


@job(off("dropped", "micro-batches 1 to 3 of 4 weigh 0: only the last counts"), fixed=Account())
def overwritten_by_the_last(is_fixed):
    """A buffer that is shared is copied, not added, into the gradient that is kept: all but the
    last micro-batch are lost. https://github.com/ServiceNow/Fast-LLM/issues/550
    """
    train_ddp(between=unless(is_fixed, lambda model: model.zero_grad()))


# ---- amplified -------------------------------------------------------------------------------


@job(off("unequal", "micro-batches weigh 8 4 2 1"), fixed=Account())
def doubled_in_every_micro_batch(is_fixed):
    """A buffer is added to itself before each micro-batch: 2^N.
    https://github.com/NVIDIA/Megatron-LM/issues/6660
    """
    train_ddp(between=unless(is_fixed, lambda model: [g.mul_(2) for g in gradients_of(model)]))


@job(off("unequal", "micro-batches weigh 8 4 2 1"), fixed=Account())
def reduced_again_and_again(is_fixed):
    """The accumulated gradient, and not what was added to it, is summed over ranks behind every
    micro-batch. https://github.com/deepspeedai/Megatron-DeepSpeed/pull/42
    """
    again = unless(is_fixed, lambda model: average(model, factor=1))
    train_by_hand(make_model(), average if is_fixed else lambda model: None, again)


# ---- factors ---------------------------------------------------------------------------------


@job(off("groups_differ", "expert.weight, expert.bias weigh 2 x the rest"), fixed=Account())
def experts_of_one_shard(is_fixed):
    """Experts are wrapped by fully_shard over a mesh of one rank, where the factor that divides
    their gradients was passed over. https://github.com/pytorch/pytorch/pull/167178
    """
    model = Experts()
    mesh = init_device_mesh("cpu", (dist.get_world_size(), 1), mesh_dim_names=("all", "one"))
    fully_shard(model.expert, mesh=mesh["one"])
    fully_shard(model.dense, mesh=mesh["all"])

    def divide(model):
        for gradient in gradients_of(model.expert):
            gradient.to_local().div_(dist.get_world_size())

    train_sharded(model, before_step=divide if is_fixed else None)


@job(
    off("groups_differ", "expert.weight, expert.bias weigh 2 x the rest"), ranks=4, fixed=Account()
)
def experts_divided_by_their_own_group(is_fixed):
    """Two ranks share an expert and average it over each other, not over all four.
    https://github.com/deepspeedai/DeepSpeed/pull/5259
    """
    train_experts(1 / 4 if is_fixed else 1 / 2, expert_ranks=2)


@job(off("zero", "the gradient that the optimizer reads is 0 in 0.bias"), fixed=Account())
def a_small_parameter_reads_zero(is_fixed):
    """One small parameter's gradient is 0 while the rest is right.
    https://github.com/pytorch/pytorch/issues/144045
    """
    train_ddp(before_step=unless(is_fixed, lambda model: model.module[0].bias.grad.zero_()))


# ---- groups and ranks ------------------------------------------------------------------------


@job(
    Account(
        "separate",
        "ranks 0 and 1 against ranks 2 and 3 read different gradients of 2.weight, 2.bias",
        "ranks have other parameters before step 2",
    ),
    ranks=4,
    fixed=Account(),
)
def one_layer_over_another_group(is_fixed):
    """One kind of parameters is averaged over a smaller group than the rest.
    NVIDIA/Megatron-LM#1622, as it is told of; it was not read.
    """
    halves = [dist.new_group(ranks) for ranks in ([0, 1], [2, 3])]

    def reduce(model):
        average(model[0])
        average(model[2], None if is_fixed else halves[dist.get_rank() // 2])

    train_by_hand(make_model(), reduce)


# ---- others, as they are met -----------------------------------------------------------------


@job(off("dropped", "micro-batch 1 of 4 weighs 0"), fixed=Account())
def cleared_after_the_first(is_fixed):
    """Gradients are cleared once too often, behind the first micro-batch."""
    seen = []

    def between(model):
        seen.append(1)
        if len(seen) % (MICRO_BATCHES - 1) == 1:
            model.zero_grad()

    train_ddp(between=unless(is_fixed, between))


@job(off("dropped", "micro-batch 4 of 4 weighs 0"), fixed=Account())
def stepped_without_the_last(is_fixed):
    """What is reduced is a copy made before the last micro-batch, which is lost."""
    model = make_model()
    optimizer = sgd(model)
    for step in batches():
        for inputs, targets in step:
            kept = [g.clone() for g in gradients_of(model)]
            backward(model, inputs, targets)
        for gradient, before in zip(gradients_of(model), kept, strict=True):
            gradient.copy_(gradient if is_fixed else before)
        average(model)
        optimizer.step()
        optimizer.zero_grad()


@job(off("groups_differ", "expert.weight, expert.bias weigh 0.5 x the rest"), fixed=Account())
def experts_divided_twice(is_fixed):
    """An expert's gradient is divided by the ranks once more."""
    train_experts(1 / dist.get_world_size() ** (1 if is_fixed else 2))


@job(
    Account(also="all weigh 2 x what the loss says: summed over 2 ranks, not averaged"),
    fixed=Account(),
)
def summed_not_averaged(is_fixed):
    """Gradients are summed over ranks whose losses are means."""
    train_by_hand(make_model(), lambda model: average(model, factor=None if is_fixed else 1))


@job(
    Account(
        "separate",
        "ranks 0 and 1 against ranks 2 and 3 read different gradients, "
        "each of their own micro-batches alone",
        "ranks have other parameters before step 2",
    ),
    ranks=4,
    fixed=Account(),
)
def averaged_over_half_of_the_ranks(is_fixed):
    """The group is that of the shards, not that of all who have other data."""
    halves = [dist.new_group(ranks) for ranks in ([0, 1], [2, 3])]
    group = None if is_fixed else halves[dist.get_rank() // 2]
    train_by_hand(make_model(), lambda model: average(model, group))


@job(off("rank_lost", "rank 1 counts for nothing"), fixed=Account())
def a_rank_sends_zeros(is_fixed):
    """One rank takes part with zeros, as where its hook ran before its gradient was there."""
    model = DistributedDataParallel(make_model())

    def zeros_from_rank_1(state, bucket):
        if dist.get_rank() == 1 and not is_fixed:
            bucket.buffer().zero_()
        return allreduce(state, bucket)

    from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import (
        allreduce_hook as allreduce,
    )

    model.register_comm_hook(dist.group.WORLD, zeros_from_rank_1)
    train_ddp(model)


@job(
    off("not_a_sum", "not a sum of these gradients", "in 1 of 3 steps all 8 weigh the same"),
    fixed=Account(),
)
def a_step_late(is_fixed):
    """The optimizer reads the gradient of the step before."""
    kept = []

    def swap(model):
        average(model)
        fresh = [g.clone() for g in gradients_of(model)]
        for gradient, old in zip(gradients_of(model), kept or fresh, strict=True):
            gradient.copy_(old)
        kept[:] = fresh

    train_by_hand(make_model(), average if is_fixed else swap)


@job(Account("not_a_sum", "not a sum of these gradients"), fixed=Account())
def decayed_in_the_gradient(is_fixed):
    """Weight decay is added to the gradient."""

    def decay(model):
        for parameter in model.parameters():
            parameter.grad.add_(parameter.detach(), alpha=0.1)

    train_ddp(before_step=unless(is_fixed, decay))


# ---- weights that are known ------------------------------------------------------------------


@job(None)
def one_of_eight_counts_2_percent_more():
    """The third micro-batch of eight weighs 1.02."""
    before = []

    def add_of_the_third(model):
        before.append([gradient.clone() for gradient in gradients_of(model)])
        if len(before) == 3:
            for gradient, earlier in zip(gradients_of(model), before[1], strict=True):
                gradient.add_(gradient - earlier, alpha=0.02)
        if len(before) == 7:
            before.clear()

    train_ddp(between=add_of_the_third, micro_batches=8)


@job(None)
def known_weights():
    """Micro-batch i of M weighs 1.1^(M - 1 - i), under DDP; under fully_shard where SHARDED is set.
    M is in MICRO_BATCHES. Under DDP the norm is logged, by a clipping that changes nothing.
    """

    def log_norm(model):
        torch.nn.utils.clip_grad_norm_(model.parameters(), math.inf)

    def grow(model, i=1, count=0):
        for gradient in gradients_of(model) if i else ():
            (gradient.to_local() if hasattr(gradient, "to_local") else gradient).mul_(1.1)

    micro_batches = int(os.environ["MICRO_BATCHES"])
    # Numbers enough for 8 ranks x 16 micro-batches.
    model = torch.nn.Sequential(make_model(), torch.nn.ReLU(), make_model())
    if os.environ.get("SHARDED"):
        train_sharded(fully_shard(model), before_backward=grow, micro_batches=micro_batches)
    else:
        model = DistributedDataParallel(model)
        train_ddp(model, between=grow, before_step=log_norm, micro_batches=micro_batches)


if __name__ == "__main__":
    run()
