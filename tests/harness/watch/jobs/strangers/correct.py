"""Correct jobs whose replicas are equal behind every step, by other ways than DDP's usual one."""

import contextlib
import itertools

import torch
import torch.distributed as dist
from torch._utils import _flatten_dense_tensors, _unflatten_dense_tensors
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.functional import mse_loss
from torch.nn.parallel import DistributedDataParallel
from training import (
    FEATURES,
    MICRO_BATCHES,
    OUTPUTS,
    STEPS,
    average,
    backward,
    batches,
    finish,
    gradients_of,
    make_model,
    proof,
    quiet_unless,
    run,
    sgd,
    windows,
)
from truths import job, once


def train_by_hand(reduce):
    """Trains a model that nothing wraps: `reduce` gets its gradients in the last micro-batch."""
    model = make_model()
    proof.compare(model.named_parameters())
    optimizer = sgd(model.parameters())
    for window in windows():
        for is_last, inputs, targets in window:
            backward(model, inputs, targets, MICRO_BATCHES)
            if is_last:
                reduce(gradients_of(model.parameters()))
        finish(optimizer)


@job(once(reductions=4))
def by_hand_one_by_one():
    train_by_hand(average)


@job(once(reductions=1))
def by_hand_as_one_copy():
    def reduce(gradients):
        flat = _flatten_dense_tensors(gradients)
        dist.all_reduce(flat)
        flat /= dist.get_world_size()
        for gradient, mean in zip(
            gradients, _unflatten_dense_tensors(flat, gradients), strict=True
        ):
            gradient.copy_(mean)

    train_by_hand(reduce)


@job(once(reductions=1))
def by_hand_joined():
    """The same with torch.cat, and gradients that are set anew."""

    def reduce(gradients):
        flat = torch.cat([each.reshape(-1) for each in gradients])
        dist.all_reduce(flat)
        parts = (flat / dist.get_world_size()).split([each.numel() for each in gradients])
        for gradient, mean in zip(gradients, parts, strict=True):
            gradient.data = mean.view_as(gradient)

    train_by_hand(reduce)


@job(once(reductions=1))
def by_hand_scattered_and_gathered():
    """Each rank sums its part of the gradients, and gets the other's."""

    def reduce(gradients):
        flat = _flatten_dense_tensors(gradients)
        size = -(-flat.numel() // dist.get_world_size())
        padded = torch.nn.functional.pad(flat, (0, size * dist.get_world_size() - flat.numel()))
        part = torch.empty(size)
        dist.reduce_scatter_tensor(part, padded)
        dist.all_gather_into_tensor(padded, part / dist.get_world_size())
        means = _unflatten_dense_tensors(padded[: flat.numel()], gradients)
        for gradient, mean in zip(gradients, means, strict=True):
            gradient.copy_(mean)

    train_by_hand(reduce)


@job(once(1, reductions=4))
def by_hand_in_hooks_of_gradients():
    """Each parameter's hook hands on the mean in place of this rank's gradient."""

    def mean_of(gradient):
        gradient = gradient.clone()
        dist.all_reduce(gradient)
        return gradient / dist.get_world_size()

    model = make_model()
    proof.compare(model.named_parameters())
    for parameter in model.parameters():
        parameter.register_hook(mean_of)
    optimizer = sgd(model.parameters())
    for inputs, targets in batches(STEPS):
        backward(model, inputs, targets)
        finish(optimizer)


@job(once(1, reductions=4))
def stepped_in_hooks_that_reduce_first():
    """Each parameter is averaged and stepped as soon as its gradient is there."""
    model = make_model()
    proof.compare(model.named_parameters())
    optimizers = {each: sgd([each]) for each in model.parameters()}

    def step(parameter):
        average([parameter.grad])
        optimizers[parameter].step()
        parameter.grad = None

    for parameter in model.parameters():
        parameter.register_post_accumulate_grad_hook(step)
    for inputs, targets in batches(STEPS):
        backward(model, inputs, targets)
        proof.end_step()


@job(once(4, reductions=1))
def zero_redundancy():
    """Each rank has a part of the optimizer's state, and sends what it stepped."""
    model = DistributedDataParallel(make_model())
    proof.compare(model.module.named_parameters())
    optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.Adam, lr=0.01)
    for window in windows():
        for is_last, inputs, targets in window:
            with quiet_unless(is_last, model):
                backward(model, inputs, targets, MICRO_BATCHES)
        finish(optimizer)


@job(once(1, reductions=1))
def unfrozen_and_wrapped_again():
    """The backbone is unfrozen in the ninth step, and the model is wrapped anew."""
    net = make_model()
    net[0].requires_grad_(False)
    model = DistributedDataParallel(net)
    proof.compare(net.named_parameters())
    optimizer = sgd(net[2].parameters())
    for step, (inputs, targets) in enumerate(batches(STEPS)):
        if step == 8:
            net[0].requires_grad_(True)
            model = DistributedDataParallel(net)
            optimizer.add_param_group({"params": list(net[0].parameters())})
        backward(model, inputs, targets)
        finish(optimizer)


@job(once(1, reductions=1, said={"skipped some": True}))
def scaler_that_skips():
    """A gradient scaler skips steps where its scale has grown too large, the same on all ranks."""
    model = DistributedDataParallel(make_model())
    proof.compare(model.module.named_parameters())
    optimizer = sgd(model.parameters(), 1e-4)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**118, growth_interval=3)
    scales = []
    for inputs, targets in batches(STEPS):
        scaler.scale(mse_loss(model(inputs), 1000 * targets)).backward()
        scaler.step(optimizer)
        scaler.update()
        scales.append(scaler.get_scale())
        optimizer.zero_grad()
        proof.end_step()
    is_smaller = [b < a for a, b in itertools.pairwise(scales)]
    proof.say(**{"skipped some": any(is_smaller)})


class TwoHeads(torch.nn.Module):
    """A body, and two heads of which one is used at a time."""

    def __init__(self):
        super().__init__()
        self.body = torch.nn.Linear(FEATURES, FEATURES)
        self.heads = torch.nn.ModuleList(torch.nn.Linear(FEATURES, OUTPUTS) for _ in range(2))
        self.used = 0

    def forward(self, inputs):
        return self.heads[self.used](self.body(inputs).tanh())


@job(once(2, names_line=True, also=("unused_parameters",), reductions=1))
def unused_in_the_last_micro_batch():
    """A head is used in no_sync() alone, and DDP reduces it in the next backward all the same. It
    did not in https://github.com/pytorch/pytorch/issues/69031, November 2021; in 2.11 it does.
    """
    net = TwoHeads()
    model = DistributedDataParallel(net, find_unused_parameters=True)  # to change
    proof.compare(net.named_parameters())
    optimizer = sgd(net.parameters())
    for window in windows(micro_batches=2):
        for i, (is_last, inputs, targets) in enumerate(window):
            net.used = i
            with contextlib.nullcontext() if is_last else model.no_sync():
                backward(model, inputs, targets, len(window))
        finish(optimizer)


@job(once(1, reductions=2))
def two_models_and_two_optimizers():
    """A generator and a critic, each under DDP, whose optimizers take turns."""
    generator = DistributedDataParallel(make_model(FEATURES))
    critic = DistributedDataParallel(make_model(1))
    for prefix, model in (("generator", generator), ("critic", critic)):
        named = model.module.named_parameters()
        proof.compare({f"{prefix}.{name}": each for name, each in named})
    of_generator, of_critic = sgd(generator.parameters()), sgd(critic.parameters())
    for inputs, real in batches(STEPS, FEATURES):
        made = generator(inputs).detach()
        (critic(made) - critic(real)).square().mean().backward()
        of_critic.step()
        of_critic.zero_grad()
        critic.requires_grad_(False)
        (-critic.module(generator(inputs)).mean()).backward()
        critic.requires_grad_(True)
        finish(of_generator)


if __name__ == "__main__":
    run()
