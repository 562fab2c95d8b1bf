"""Jobs of several models, or of one that runs forward or backward for more than its loss."""

from contextlib import nullcontext

import torch
from torch.nn.functional import binary_cross_entropy_with_logits, mse_loss, softplus
from torch.nn.parallel import DistributedDataParallel
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
from training import FEATURES, batches, finish, make_model, run, sgd, windows
from truths import job, once, too_often


@job(once(micro_batches=1))
def two_models():
    """Two models of one size train side by side, each synchronized once per step."""
    first = DistributedDataParallel(make_model())
    second = DistributedDataParallel(make_model())
    optimizers = [sgd(first), sgd(second)]
    for inputs, targets in batches(12):
        mse_loss(first(inputs), targets).backward()
        mse_loss(second(inputs), targets).backward()
        for optimizer in optimizers:
            finish(optimizer)


@job(too_often(micro_batches=1, count=1), fixed=once(micro_batches=1))
def critic(is_fixed):
    """A critic with an optimizer of its own that synchronizes in every micro-batch, beside a model
    that does once per step.
    """
    critic = DistributedDataParallel(make_model())
    model = DistributedDataParallel(make_model())
    of_critic, of_model = sgd(critic), sgd(model)
    for window in windows():
        for is_last, inputs, targets in window:
            with critic.no_sync() if is_fixed and not is_last else nullcontext():
                mse_loss(critic(inputs), targets).backward()  # to change
        finish(of_critic)
        mse_loss(model(inputs), targets).backward()
        finish(of_model)


def loss_of_critic(generator, critic, inputs, targets):
    with torch.no_grad():
        made = inputs + generator(inputs)
    return mse_loss(critic(made), targets) - mse_loss(critic(inputs), targets)


def loss_of_generator(generator, inputs, targets):
    return mse_loss(inputs.mean(1, keepdim=True) + generator(inputs), targets)


@job(once(micro_batches=1))
def adversarial():
    """A generator and its critic, whose optimizers take turns; the critic sees two batches."""
    generator = DistributedDataParallel(make_model())
    critic = DistributedDataParallel(make_model())
    of_generator, of_critic = sgd(generator), sgd(critic)
    for inputs, targets in batches(12):
        loss_of_critic(generator, critic, inputs, targets).backward()
        finish(of_critic)
        loss_of_generator(generator, inputs, targets).backward()
        finish(of_generator)


@job(once())
def adversarial_accumulating():
    """The same with four micro-batches each, of which the last alone synchronizes."""
    generator = DistributedDataParallel(make_model())
    critic = DistributedDataParallel(make_model())
    of_generator, of_critic = sgd(generator), sgd(critic)
    for window in windows():
        for is_last, *batch in window:
            with nullcontext() if is_last else critic.no_sync():
                loss_of_critic(generator, critic, *batch).backward()
        finish(of_critic)
        for is_last, *batch in window:
            with nullcontext() if is_last else generator.no_sync():
                loss_of_generator(generator, *batch).backward()
        finish(of_generator)


@job(
    once(micro_batches=1, cause="no_no_sync", names_line=True),
    fixed=once(micro_batches=1),
)
def adversarial_apart(is_fixed):
    """A generator and its critic as tutorials have them: the critic's losses on what is real and
    what is made run backward one after the other, and the generator's runs through the critic. Each
    synchronizes the critic: twice in its own steps, once in the generator's.
    """
    generator = DistributedDataParallel(torch.nn.Linear(FEATURES, FEATURES))
    critic = DistributedDataParallel(make_model())
    of_generator, of_critic = sgd(generator), sgd(critic)
    for inputs, _ in batches(12):
        of_critic.zero_grad()
        with critic.no_sync() if is_fixed else nullcontext():
            outputs = critic(inputs)  # to change
            loss = binary_cross_entropy_with_logits(outputs, torch.ones_like(outputs))
            loss.backward()
        made = generator(torch.randn_like(inputs))
        softplus(critic(made.detach())).mean().backward()
        of_critic.step()
        of_generator.zero_grad()
        softplus(-critic(made)).mean().backward()
        of_generator.step()


def penalty(critic, inputs):
    inputs = inputs.clone().requires_grad_()
    [gradient] = torch.autograd.grad(critic(inputs).sum(), inputs, create_graph=True)
    return (gradient.norm(dim=1) - 1).square().mean()


@job(once())
def gradient_penalty():
    """A critic whose loss has the norm of its gradient by its inputs in it: autograd runs within
    the forward, and its graph is run backward again. The last micro-batch alone synchronizes.
    """
    critic = DistributedDataParallel(make_model())
    optimizer = sgd(critic)
    for window in windows():
        for is_last, inputs, targets in window:
            with nullcontext() if is_last else critic.no_sync():
                loss = mse_loss(critic(inputs), targets) + penalty(critic, inputs)
                loss.backward()
        finish(optimizer)


@job(too_often(), fixed=once())
def ema(is_fixed):
    """A mean of the parameters over steps is kept, and a copy of the model with them is asked
    before each micro-batch. Each synchronizes.
    """
    model = DistributedDataParallel(make_model())
    averaged = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.9))
    optimizer = sgd(model)
    for window in windows():
        for is_last, inputs, targets in window:
            with torch.no_grad():
                wanted = averaged(inputs)
            with model.no_sync() if is_fixed and not is_last else nullcontext():
                outputs = model(inputs)  # to change
                (mse_loss(outputs, targets) + mse_loss(outputs, wanted)).backward()
        finish(optimizer)
        averaged.update_parameters(model)


if __name__ == "__main__":
    run()
