"""Jobs whose gradient is right and that synchronize more often than a step needs."""

import contextlib

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard
from torch.nn.functional import mse_loss
from torch.nn.parallel import DistributedDataParallel
from training import (
    backward,
    ddp,
    finish,
    follow,
    gradients_of,
    loss_of,
    make_net,
    note,
    proof,
    quiet_unless,
    run,
    sgd,
    steps,
    train,
)
from truth import BY_CHOICE, TOO_OFTEN, TWICE, bug


@bug("https://github.com/karpathy/nanochat/pull/33", 2025, TOO_OFTEN, reductions=(4, 1))
def nothing_is_quiet(is_fixed):
    """A loop that accumulates never asks DDP to wait."""
    model = ddp()
    optimizer = sgd(model)
    for step in steps():
        for batch in step:
            with quiet_unless(batch.is_last or not is_fixed, model):
                note(batch)
                (mse_loss(model(batch.inputs), batch.targets) / batch.count).backward()  # bug
        finish(optimizer)


@bug("https://github.com/KellerJordan/modded-nanogpt/pull/31", 2024, TOO_OFTEN, reductions=(4, 1))
def forward_outside_of_no_sync(is_fixed):
    """Only backward stands within no_sync(); DDP looks at it in forward."""
    model = ddp()
    optimizer = sgd(model)
    for step in steps():
        for batch in step:
            with quiet_unless(batch.is_last, model) if is_fixed else contextlib.nullcontext():
                loss = loss_of(model, batch)
            with quiet_unless(batch.is_last, model):  # bug
                (loss / batch.count).backward()
        finish(optimizer)


@bug(
    "https://github.com/facebookresearch/ClassyVision/pull/706", 2021, TOO_OFTEN, reductions=(4, 1)
)
def no_sync_around_the_optimizers_backward(is_fixed):
    """An optimizer wrapper enters no_sync() for its own backward; the task ran forward before."""
    model = ddp()
    optimizer = sgd(model)

    def backward_of_optimizer(loss, is_due):
        with quiet_unless(is_due, model):  # bug
            loss.backward()

    for step in steps():
        for batch in step:
            with contextlib.nullcontext() if not is_fixed else quiet_unless(batch.is_last, model):
                loss = loss_of(model, batch) / batch.count
            backward_of_optimizer(loss, batch.is_last)
        finish(optimizer)


@bug("https://github.com/lucidrains/alphafold3-pytorch/pull/23", 2024, TOO_OFTEN, reductions=(4, 1))
def backward_outside_of_no_sync_of_fabric(is_fixed):
    """The wrapper's own no_backward_sync() is never entered: its model is called by a helper."""
    model = ddp()
    optimizer = sgd(model)

    @contextlib.contextmanager
    def no_backward_sync(enabled):
        with model.no_sync() if enabled and is_fixed else contextlib.nullcontext():
            yield

    for step in steps():
        for batch in step:
            with no_backward_sync(enabled=not batch.is_last):
                note(batch)
                (mse_loss(model(batch.inputs), batch.targets) / batch.count).backward()  # bug
        finish(optimizer)


@bug(
    "https://github.com/NVIDIA/cosmos-framework/issues/161",
    2026,
    TOO_OFTEN,
    reductions=(8, 5),
    ranks=4,
)
def context_that_knows_ddp_alone(is_fixed):
    """A context that defers synchronization does nothing for fully_shard: replicas are all-reduced
    in each micro-batch. The fix defers the all-reduce between replicas.
    """
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("replicate", "shard"))
    model = fully_shard(follow(make_net()), mesh=mesh)

    def sync_grad(is_due):
        if isinstance(model, DistributedDataParallel):
            model.require_backward_grad_sync = is_due
        elif is_fixed:
            model.set_requires_all_reduce(is_due)

    optimizer = sgd(model)
    for step in steps():
        for batch in step:
            sync_grad(batch.is_last)
            note(batch)
            (mse_loss(model(batch.inputs), batch.targets) / batch.count).backward()  # bug
        finish(optimizer)


@bug("https://github.com/mlfoundations/open_lm/issues/48", 2023, BY_CHOICE, reductions=(4, 1))
def fsdp_without_no_sync(is_fixed):
    """FSDP reduces in every backward: more traffic, for less memory."""
    net = follow(make_net())
    model = FullyShardedDataParallel(net, device_id=torch.device("cpu"), use_orig_params=True)
    proof.wrapper = model
    optimizer = sgd(model)
    for step in steps():
        for batch in step:
            with quiet_unless(batch.is_last or not is_fixed, model):
                note(batch)
                (mse_loss(model(batch.inputs), batch.targets) / batch.count).backward()  # bug
        finish(optimizer)


@bug("https://github.com/verl-project/verl/pull/7095", 2026, BY_CHOICE, reductions=(4, 1))
def reduce_scatter_in_each_micro_batch(is_fixed):
    """The engine never calls set_requires_gradient_sync(False)."""
    model = fully_shard(follow(make_net()))
    optimizer = sgd(model)
    for step in steps():
        for batch in step:
            if is_fixed:
                model.set_requires_gradient_sync(batch.is_last)
            note(batch)
            (mse_loss(model(batch.inputs), batch.targets) / batch.count).backward()  # bug
        finish(optimizer)


@bug("https://github.com/horovod/horovod/pull/546", 2018, TOO_OFTEN, reductions=(16, 4))
def hooks_that_reduce_every_backward(is_fixed):
    """Each parameter's hook reduces its gradient as soon as it is there, whatever is accumulated.
    The fix: as many backwards as a step has pass before it does.
    """
    net = follow(make_net())
    passes = {}

    def reduce(parameter):
        passes[parameter] = passes.get(parameter, 0) + 1
        if not is_fixed or passes[parameter] % 4 == 0:
            dist.all_reduce(parameter.grad)  # bug
            parameter.grad.div_(dist.get_world_size())

    for parameter in net.parameters():
        parameter.register_post_accumulate_grad_hook(reduce)
    train(net)


@bug("https://github.com/NVIDIA/apex/issues/1175", 2021, TOO_OFTEN, reductions=(4, 1))
def wrapper_without_a_no_sync(is_fixed):
    """A wrapper of one's own flattens and averages gradients behind every backward, and has no way
    to be told to wait.
    """
    net = follow(make_net())

    def reduce():
        flat = torch.cat([gradient.flatten() for gradient in gradients_of(net)])
        dist.all_reduce(flat)  # bug
        flat.div_(dist.get_world_size())
        for gradient, part in zip(gradients_of(net), flat.split(sizes), strict=True):
            gradient.copy_(part.view_as(gradient))

    sizes = [parameter.numel() for parameter in net.parameters()]
    train(net, after=lambda batch: reduce() if batch.is_last or not is_fixed else None)


@bug("https://github.com/pytorch/examples/issues/659", 2019, TWICE, reductions=(5, 1))
def average_gradients_of_the_tutorial_behind_ddp(is_fixed):
    """The tutorial's average_gradients() is called although DDP has averaged."""
    model = ddp()
    optimizer = sgd(model)
    for step in steps(micro_batches=1):
        for batch in step:
            backward(model, batch)
        if not is_fixed:
            for parameter in model.parameters():
                dist.all_reduce(parameter.grad)  # bug
                parameter.grad /= dist.get_world_size()
        finish(optimizer)


if __name__ == "__main__":
    run()
