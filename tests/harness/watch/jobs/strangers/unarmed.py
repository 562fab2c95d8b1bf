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
from truths import Proven, drifting, job

CPU = torch.device("cpu")


@job(
    drifting(
        {"0": 2, "2": 2},
        "never synchronized: forward was called on model.module",
        reductions=0,
    ),
    fixed=Proven("once per step"),
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
    drifting(
        {"0": 2, "2": 2},
        "differ between ranks from step 2 on: stepped in hooks before DDP reduces",
    ),
    fixed=Proven("once per step"),
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
        optimizers[parameter].step()
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
    drifting(
        {"0": 2, "2": 2},
        "synchronized in micro-batch 1 of 4: the others stay on their rank",
        weights="rank 0: 1/2 in micro-batch 1, 1 in its own 2 to 4, 0 in the other rank's",
    ),
    fixed=Proven("once per step"),
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
    drifting(
        {"0": 2, "2": 2},
        "reduced in the first of 3 backwards: the others stay on their rank",
        weights="rank 0: 1/2 in micro-batch 1, 1 in its own 2 and 3, 0 in the other rank's",
    ),
    fixed=Proven("once per step"),
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
    drifting(
        {"0": 10, "2": 10},
        "not synchronized from step 9 on: the model was moved, and DDP's hooks are on what it was",
        reductions=0,
    ),
    fixed=Proven("once per step"),
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


@job(
    drifting(
        {"net": 2},
        "differ between ranks from step 2 on: reduced before the second task's gradient was there",
        weights="rank 0: 1/2 in the task that is recomputed first, 1 in its own other one",
    ),
    fixed=Proven("once per step"),
)
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
    drifting(
        {"0": 2, "2": 2},
        "reduced in the first of 2 backwards behind one forward: the second stays on its rank",
        weights="rank 0: 1/2 in the first task, 1 in its own second one, 0 in the other rank's",
    ),
    fixed=Proven(
        "2 x per step, by need: each task's gradient is read alone", reductions=2, enough=2
    ),
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
    drifting(
        {"0": 2, "2": 2},
        "never synchronized: DDP reduces in a group of one rank",
        weights="rank 0: 1 in its own, 0 in the other rank's",
    ),
    fixed=Proven("once per step"),
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


@job(
    drifting(
        {"flat": 2},
        "never synchronized: shards of one rank, whose replicas are not reduced",
        weights="rank 0: 1/2 in its own, 0 in the other rank's",
    ),
    fixed=Proven("once per step"),
)
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


@job(
    drifting(
        {"0": 7, "2": 7},
        "differ between ranks from step 7 on: rank 1 takes no step there, rank 0 does",
    ),
    fixed=Proven("once per step"),
)
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


@job(
    drifting({"rows.599": 4}, "`rows.599` differs between ranks from step 4 on"),
    fixed=Proven("once per step"),
)
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
