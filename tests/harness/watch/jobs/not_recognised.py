"""Jobs that need the gradients of single micro-batches, or average otherwise than by DDP's
collectives: there is no verdict on excess, and nobody is accused.
"""

import itertools
import json
from contextlib import nullcontext

import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks.post_localSGD_hook import (
    PostLocalSGDState,
    post_localSGD_hook,
)
from torch.distributed.algorithms.model_averaging.averagers import PeriodicModelAverager
from torch.distributed.optim import PostLocalSGDOptimizer
from torch.nn.functional import l1_loss, mse_loss
from torch.nn.parallel import DistributedDataParallel
from torch.nn.utils import parameters_to_vector, vector_to_parameters
from training import (
    ACCUMULATION_STEPS,
    DEVICE,
    average,
    batches,
    finish,
    make_model,
    run,
    sgd,
    windows,
)
from truths import job, not_recognised

numbers = itertools.count()


@torch.no_grad()
def move(model, steps, sign):
    for parameter, step in zip(model.parameters(), steps, strict=True):
        parameter += sign * step


@job(not_recognised("gradients_cleared", 2, 2))
def sharpness():
    """Sharpness-aware minimization: two backwards of a step at different weights."""
    model = DistributedDataParallel(make_model())
    optimizer = sgd(model)
    for inputs, targets in batches(12):
        mse_loss(model(inputs), targets).backward()
        steps = [0.05 * parameter.grad for parameter in model.parameters()]
        move(model, steps, 1)
        optimizer.zero_grad()
        mse_loss(model(inputs), targets).backward()
        move(model, steps, -1)
        finish(optimizer)


@job(not_recognised("gradients_changed_by_hand", 2, 2))
def cleared_by_hand():
    """Two tasks whose gradients are combined by hand: each is needed alone, and synchronized."""
    model = DistributedDataParallel(make_model())
    optimizer = sgd(model)
    for inputs, targets in batches(12):
        mse_loss(model(inputs), targets).backward()
        kept = [parameter.grad for parameter in model.parameters()]
        for parameter in model.parameters():
            parameter.grad = None
        l1_loss(model(inputs), targets).backward()
        for parameter, gradient in zip(model.parameters(), kept, strict=True):
            parameter.grad += gradient * (gradient * parameter.grad > 0)
        finish(optimizer)


@job(not_recognised("gradients_read", 2, 2))
def fgm():
    """Adversarial training (FGM): a clean batch's gradient moves weights for a second backward."""
    model = DistributedDataParallel(make_model())
    optimizer = sgd(model)
    attacked = model.module[0].weight
    for inputs, targets in batches(12):
        mse_loss(model(inputs), targets).backward()
        attack = 0.05 * attacked.grad / attacked.grad.norm()
        attacked.data.add_(attack)
        mse_loss(model(inputs), targets).backward()
        attacked.data.sub_(attack)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        finish(optimizer)


@job(not_recognised("parameters_changed", 2, 2))
def perturbed():
    """Two backwards of a step at different weights, moved by noise alone."""
    model = DistributedDataParallel(make_model())
    optimizer = sgd(model)
    weight = model.module[0].weight
    generator = torch.Generator(DEVICE).manual_seed(7)
    for inputs, targets in batches(12):
        mse_loss(model(inputs), targets).backward()
        noise = 0.05 * torch.randn(weight.shape, generator=generator)
        weight.data.add_(noise)
        mse_loss(model(inputs), targets).backward()
        weight.data.sub_(noise)
        finish(optimizer)


def squared_norm(model):
    return sum(parameter.grad.pow(2).sum().item() for parameter in model.parameters())


@job(not_recognised("gradients_read", synchronized=4))
def noise_scale():
    """Gradient noise scale: the norm after one batch is compared with that after four."""
    model = DistributedDataParallel(make_model())
    optimizer = sgd(model)
    for window in windows():
        small = None
        for is_last, inputs, targets in window:
            (mse_loss(model(inputs), targets) / ACCUMULATION_STEPS).backward()
            if small is None:
                small = ACCUMULATION_STEPS**2 * squared_norm(model)
            if is_last:
                noise = small - squared_norm(model)
                assert noise == noise
        finish(optimizer)


@job(not_recognised("repeats_closure", 3, 3))
def lbfgs():
    """An optimizer that runs forward and backward as often as it likes."""
    model = DistributedDataParallel(make_model())
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=3)
    for inputs, targets in batches(4):

        def closure(inputs=inputs, targets=targets):
            optimizer.zero_grad()
            loss = mse_loss(model(inputs), targets)
            loss.backward()
            return loss

        optimizer.step(closure)


@job(not_recognised("repeats_closure", 12, 3))
def lbfgs_accumulating():
    """The same, whose closure accumulates four micro-batches: the last alone synchronizes."""
    model = DistributedDataParallel(make_model())
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=3)
    for window in windows():

        def closure(window=window):
            optimizer.zero_grad()
            total = torch.zeros(())
            for is_last, inputs, targets in window:
                with nullcontext() if is_last else model.no_sync():
                    loss = mse_loss(model(inputs), targets) / len(window)
                    loss.backward()
                total += loss.detach()
            return total

        optimizer.step(closure)


# ---- averaged by hand ------------------------------------------------------------------------


def train_apart(average_after):
    """Ranks train apart under no_sync. `average_after(model, number)` each step, from 1."""
    model = DistributedDataParallel(make_model())
    optimizer = sgd(model)
    for number, window in enumerate(windows(), 1):
        with model.no_sync():
            for _, inputs, targets in window:
                mse_loss(model(inputs), targets).backward()
        finish(optimizer)
        average_after(model, number)
    return model


@job(not_recognised("averaged_by_hand", also=("averaged_at_times",)))
def local_sgd():
    """Ranks average their parameters now and then."""

    def average_after(model, number):
        if number % 3 == 0:
            average(parameter.data for parameter in model.parameters())

    train_apart(average_after)


@job(not_recognised("averaged_by_hand", also=("replicas_drift",)))
def local_sgd_at_the_end():
    """Ranks average their parameters when all is done."""
    model = train_apart(lambda model, number: None)
    average(parameter.data for parameter in model.parameters())


@job(not_recognised("averaged_by_hand", also=("averaged_at_times",)))
def local_sgd_gathered():
    """Ranks average what they gather of each other's parameters."""

    def average_after(model, number):
        if number % 3 == 0:
            parameters = list(model.parameters())
            own = parameters_to_vector(parameters).detach()
            all_ranks = [torch.empty_like(own) for _ in range(dist.get_world_size())]
            dist.all_gather(all_ranks, own)
            vector_to_parameters(torch.stack(all_ranks).mean(0), parameters)

    train_apart(average_after)


@job(not_recognised("some_averaged_by_hand", 1, also=("averaged_at_times",)))
def post_local_sgd():
    """Local SGD as torch has it: a communication hook that reduces nothing after the first steps,
    and an optimizer that averages parameters now and then.
    """
    model = DistributedDataParallel(make_model())
    alone = dist.new_subgroups(group_size=1)[0]
    state = PostLocalSGDState(process_group=None, subgroup=alone, start_localSGD_iter=2)
    model.register_comm_hook(state, post_localSGD_hook)
    averager = PeriodicModelAverager(period=3, warmup_steps=2)
    optimizer = PostLocalSGDOptimizer(sgd(model), averager)
    for inputs, targets in batches(12):
        mse_loss(model(inputs), targets).backward()
        finish(optimizer)


def through_the_store(store, bucket):
    number, rank, ranks = next(numbers), dist.get_rank(), dist.get_world_size()
    store.set(f"{number}/{rank}", json.dumps(bucket.buffer().tolist()))
    parts = [torch.tensor(json.loads(store.get(f"{number}/{other}"))) for other in range(ranks)]
    mean = torch.futures.Future()
    mean.set_result(sum(parts) / ranks)
    return mean


@job(not_recognised("comm_hook", 1))
def comm_hook():
    """DDP with a communication hook that averages through something else than a collective."""
    model = DistributedDataParallel(make_model())
    store = dist.PrefixStore("gradients", dist.distributed_c10d._get_default_store())
    model.register_comm_hook(store, through_the_store)
    optimizer = sgd(model)
    for inputs, targets in batches(12):
        mse_loss(model(inputs), targets).backward()
        finish(optimizer)


if __name__ == "__main__":
    run()
