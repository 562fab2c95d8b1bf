"""Wrappers whose reduction is passed by, comes too early, or reaches no other rank: each rank steps
on a gradient of its own.
"""

import contextlib

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FullyShardedDataParallel, ShardingStrategy
from torch.nn.functional import mse_loss
from torch.nn.parallel import DistributedDataParallel
from torch.utils.checkpoint import checkpoint
from training import (
    MICRO_BATCHES,
    STEPS,
    backward,
    batches,
    finish,
    make_model,
    proof,
    quiet_unless,
    run,
    sgd,
    windows,
)
from truths import drifts, job, never, not_recognised, once, too_early

CPU = torch.device("cpu")


@job(
    never("wrappers_forward_never_ran", 0, drift={"0": 2, "2": 2}, reductions=0),
    fixed=once(1, reductions=1),
)
def forward_of_the_inner_module(is_fixed):
    """Reinforcement learning wraps the policy, and runs the forward of its loss on `.module`: DDP's
    hooks are never armed, and only rank 0's share of the data counts for what is saved.
    https://github.com/jingyaogong/minimind/issues/853, September 2026
    """
    model = DistributedDataParallel(make_model())  # to change
    proof.compare(model.module.named_parameters())
    policy = model if is_fixed else model.module
    optimizer = sgd(model.parameters())
    for inputs, targets in batches(STEPS):
        backward(policy, inputs, targets)
        finish(optimizer)


@job(
    never("steps_before_reduction", 1, synchronized=1, drift={"0": 2, "2": 2}, reductions=1),
    fixed=once(1, reductions=1),
)
def stepped_before_it_is_reduced(is_fixed):
    """To save memory each parameter is stepped in a hook as soon as its gradient is there, and the
    gradient is dropped: that is before DDP reduces, which sums zeros.
    https://github.com/kohya-ss/musubi-tuner/issues/679, October 2025
    """
    model = DistributedDataParallel(make_model())
    proof.compare(model.module.named_parameters())
    optimizers = {each: sgd([each]) for each in model.parameters()}

    def step(parameter):
        optimizers[parameter].step()  # to change
        parameter.grad = None

    if not is_fixed:
        for parameter in model.parameters():
            parameter.register_post_accumulate_grad_hook(step)
    for inputs, targets in batches(STEPS):
        backward(model, inputs, targets)
        if is_fixed:
            for parameter in model.parameters():
                step(parameter)
        proof.end_step()


@job(
    too_early("no_sync_around_all", drift={"0": 2, "2": 2}, reductions=1),
    fixed=once(4, reductions=1),
)
def quiet_in_all_but_the_first(is_fixed):
    """The index of a micro-batch, and not the one after, is held against the length of the window:
    the first one synchronizes and the last is in no_sync().
    https://github.com/modelscope/FunASR/pull/3472, August 2026
    """
    model = DistributedDataParallel(make_model())
    proof.compare(model.module.named_parameters())
    optimizer = sgd(model.parameters())
    for window in windows():
        for i, (_, inputs, targets) in enumerate(window):
            is_due = (i + is_fixed) % MICRO_BATCHES == 0
            with contextlib.nullcontext() if is_due else model.no_sync():  # to change
                backward(model, inputs, targets, MICRO_BATCHES)
        finish(optimizer)


@job(
    too_early("armed_early", micro_batches=3, drift={"0": 2, "2": 2}, reductions=1),
    fixed=once(3, reductions=1),
)
def three_forwards_then_three_backwards(is_fixed):
    """Three forwards run before the first of their backwards, and it alone reduces.
    https://github.com/pytorch/pytorch/issues/47260, November 2020
    """
    model = DistributedDataParallel(make_model())
    proof.compare(model.module.named_parameters())
    optimizer = sgd(model.parameters())
    for window in windows(micro_batches=3):
        if is_fixed:
            for is_last, inputs, targets in window:
                with quiet_unless(is_last, model):
                    backward(model, inputs, targets, len(window))
        else:
            outputs = [model(inputs) for _, inputs, _ in window]  # to change
            for output, (_, _, targets) in zip(outputs, window, strict=True):
                (mse_loss(output, targets) / len(window)).backward()
        finish(optimizer)


@job(
    drifts(
        "drifts_though_reduced",
        {"0": 10, "2": 10},
        synchronized=0,
        also=("some_steps_never",),
        reductions=0,
    ),
    fixed=once(1, reductions=1),
)
def moved_and_moved_back(is_fixed):
    """A wrapped model is moved from GPU to CPU for a while, and back: backward does not reduce any
    more. Here its type is changed and changed back, which makes autograd's nodes anew as well.
    https://github.com/pytorch/pytorch/issues/104336, June 2023
    """
    net = make_model()
    model = DistributedDataParallel(net)
    proof.compare(net.named_parameters())
    optimizer = sgd(net.parameters())
    for step, (inputs, targets) in enumerate(batches(STEPS)):
        if step == 8:
            model.double()
            model.float()
            if is_fixed:
                model = DistributedDataParallel(net)
        backward(model, inputs, targets)
        finish(optimizer)


class Recomputed(torch.nn.Module):
    """Its forward runs again within backward."""

    def __init__(self, is_reentrant):
        super().__init__()
        self.net, self.is_reentrant = make_model(), is_reentrant

    def forward(self, inputs):
        needing_gradient = inputs.clone().requires_grad_()
        return checkpoint(self.net, needing_gradient, use_reentrant=self.is_reentrant)


@job(drifts("drifts_though_reduced", {"net": 2}, reductions=1), fixed=once(1, reductions=1))
def two_tasks_recomputed(is_fixed):
    """The losses of several tasks are summed, and activations are computed again in backward:
    parameters differ between GPUs. The first task's own backward, within the outer one, completes
    DDP's bucket. https://github.com/pytorch/pytorch/issues/121594, March 2024
    """
    net = Recomputed(is_reentrant=not is_fixed)
    model = DistributedDataParallel(net)
    proof.compare(net.named_parameters())
    optimizer = sgd(net.parameters())
    for window in windows(micro_batches=2):
        loss = sum(mse_loss(model(inputs), targets) for _, inputs, targets in window)
        loss.backward()
        finish(optimizer)


@job(
    drifts("left_behind", {"0": 2, "2": 2}, reductions=1),
    fixed=not_recognised("gradients_cleared", 2, 2, reductions=2),
)
def two_backwards_of_one_forward(is_fixed):
    """PCGrad needs each task's gradient alone: one forward, and a backward for each with
    retain_graph. That is nothing for DDP, it was said, which is armed by a forward.
    https://github.com/WeiChengTseng/Pytorch-PCGrad/issues/5, March 2021
    """
    model = DistributedDataParallel(make_model())
    proof.compare(model.module.named_parameters())
    parameters = list(model.parameters())
    optimizer = sgd(parameters)
    for inputs, targets in batches(STEPS):
        outputs = model(inputs)
        mse_loss(outputs, targets).backward(retain_graph=True)
        of_first = [each.grad.clone() for each in parameters]
        optimizer.zero_grad()
        if is_fixed:
            outputs = model(inputs)
        outputs.abs().mean().backward()
        for parameter, first in zip(parameters, of_first, strict=True):
            parameter.grad += first
        finish(optimizer)


@job(
    not_recognised(
        "reduces_alone",
        1,
        also=("replicas_drift",),
        drift={"0": 2, "2": 2},
        reductions=1,
        fails_by_account=True,
    ),
    fixed=once(1, reductions=1),
)
def group_of_one_rank(is_fixed):
    """Where sequences are divided over all ranks, the group that DDP gets has one rank left: its
    all-reduce does nothing, and each rank keeps what its part of the sequence gave.
    https://github.com/ByteDance-Seed/VeOmni/issues/1059, August 2026
    """
    alone = [dist.new_group([rank]) for rank in range(dist.get_world_size())][dist.get_rank()]
    net = make_model()
    model = DistributedDataParallel(net, process_group=None if is_fixed else alone)  # to change
    proof.compare(net.named_parameters())
    optimizer = sgd(net.parameters())
    for inputs, targets in batches(STEPS):
        backward(model, inputs, targets)
        finish(optimizer)


@job(drifts("group_of_one", {"flat": 2}, 2, reductions=1), fixed=once(2, reductions=1))
def shards_of_one_rank(is_fixed):
    """A size of 1 for FSDP1 on several GPUs: hybrid sharding turns to no sharding, and reduces in a
    group of one rank. https://github.com/verl-project/verl/issues/7493, August 2026
    """
    if is_fixed:
        how = {"sharding_strategy": ShardingStrategy.NO_SHARD}
    else:
        mesh = init_device_mesh("cpu", (dist.get_world_size(), 1), mesh_dim_names=("ddp", "fsdp"))
        how = {"sharding_strategy": ShardingStrategy.HYBRID_SHARD, "device_mesh": mesh}
    model = FullyShardedDataParallel(make_model(), device_id=CPU, **how)  # to change
    proof.compare({"flat": next(model.parameters())})
    optimizer = sgd(model.parameters())
    for window in windows(micro_batches=2):
        for is_last, inputs, targets in window:
            with quiet_unless(is_last, model):
                backward(model, inputs, targets, len(window))
        finish(optimizer)


@job(drifts("drifts_though_reduced", {"0": 7, "2": 7}, reductions=1), fixed=once(1, reductions=1))
def one_rank_skips_a_step(is_fixed):
    """Batches whose loss is above a limit take no step. Losses are each worker's own: where they
    were raised at random, as a test, each worker skipped another number of batches.
    https://github.com/facebookresearch/metaseq/pull/521, November 2022
    """
    model = DistributedDataParallel(make_model())
    proof.compare(model.module.named_parameters())
    optimizer = sgd(model.parameters())
    for step, (inputs, targets) in enumerate(batches(STEPS)):
        if step % 6 == 5 and dist.get_rank() == 1:
            targets = 100 * targets
        loss = mse_loss(model(inputs), targets)
        loss.backward()
        is_spike = (loss.detach() > 100).float()
        if is_fixed:
            dist.all_reduce(is_spike, op=dist.ReduceOp.MAX)
        if not is_spike:
            optimizer.step()
        optimizer.zero_grad()
        proof.end_step()


class Many(torch.nn.Module):
    """A thousand small parameters."""

    def __init__(self):
        super().__init__()
        self.rows = torch.nn.ParameterList(torch.randn(4) for _ in range(1000))

    def forward(self, inputs):
        return inputs[:, :4] @ torch.stack(list(self.rows)).sum(0, keepdim=True).T


@job(drifts("drifts_though_reduced", {"rows.599": 4}, reductions=1), fixed=once(1, reductions=1))
def one_bit_of_one_rank(is_fixed):
    """One bit of one of a thousand parameters is turned on one rank, as a fault of its memory
    would.
    """
    net = Many()
    model = DistributedDataParallel(net)
    proof.compare(net.named_parameters())
    optimizer = sgd(net.parameters(), 1e-6)
    for step, (inputs, targets) in enumerate(batches(8, 1), 1):
        backward(model, inputs, targets)
        optimizer.step()
        optimizer.zero_grad()
        if step == 3 and dist.get_rank() == 1 and not is_fixed:
            with torch.no_grad():
                net.rows[599].view(torch.int32)[0] ^= 1
        proof.end_step()


if __name__ == "__main__":
    run()
