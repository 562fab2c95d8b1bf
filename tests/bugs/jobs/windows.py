"""Windows of accumulation that do not end where the data does, and optimizers that step within."""

import torch
import torch.distributed as dist
from torch.nn.functional import mse_loss
from training import (
    average,
    backward,
    ddp,
    end_step,
    finish,
    follow,
    loss_of,
    make_net,
    proof,
    quiet_unless,
    run,
    sgd,
    steps,
)
from truth import (
    DRIFT,
    DROPPED,
    FACTOR,
    NO_SUM,
    NOT_A_SUM,
    TOO_OFTEN,
    UNEQUAL,
    UNREAD,
    bug,
    each,
    own,
    times,
)


@bug(
    "https://github.com/meta-pytorch/torchtune/pull/2745",
    2025,
    (NOT_A_SUM, UNEQUAL),
    weights=times(1),
    sometimes=(NO_SUM,),
)
def a_rest_that_goes_into_the_next_epoch(is_fixed):
    """An epoch's last two micro-batches make no step, and stay in the gradient of the next one's
    first: six count where four are meant, two of them a step old.
    """
    model = ddp()
    optimizer = sgd(model)
    for step in steps(12, micro_batches=[4, 4, 2]):
        for batch in step:
            with quiet_unless(batch.is_last and (len(step) == 4 or is_fixed), model):
                backward(model, batch, batch.count if is_fixed else 4)  # bug
        if len(step) == 4 or is_fixed:
            finish(optimizer)
        else:
            end_step()


@bug(
    "https://github.com/rasbt/LLMs-from-scratch/pull/300",
    2024,
    FACTOR,
    weights=times(1),
    sometimes=(times(1 / 4), times(3 / 4)),
)
def windows_that_begin_with_a_step(is_fixed):
    """A step is due where the number of the batch is a multiple of the window: at the first one,
    which is divided by a whole window's length, and not at the last.
    """
    model = ddp()
    optimizer = sgd(model)
    lengths = [4] if is_fixed else [1, 4, 3]
    for step in steps(9, micro_batches=lengths):
        for batch in step:
            with quiet_unless(batch.is_last, model):
                backward(model, batch, 4)  # bug
        finish(optimizer)


@bug(
    "https://github.com/Lightning-AI/pytorch-lightning/issues/19987",
    2024,
    FACTOR,
    weights=times(1),
    sometimes=(times(1 / 2),),
)
def a_short_window_divided_by_a_long_one(is_fixed):
    """At the end of an epoch a window is shorter, and is divided by the length of a whole one."""
    model = ddp()
    optimizer = sgd(model)
    for step in steps(9, micro_batches=[4, 4, 2]):
        for batch in step:
            with quiet_unless(batch.is_last, model):
                backward(model, batch, batch.count if is_fixed else 4)
        finish(optimizer)


@bug(
    "https://github.com/huggingface/transformers/issues/14309",
    2021,
    DROPPED,
    weights=times(1),
    sometimes=(each(0, 0, 0, 1, 1, 1, 1),),
)
def a_rest_of_three_is_cleared(is_fixed):
    """A step is due at whole windows, and at the end of data that is shorter than one: a rest at
    the end of longer data makes none.
    """
    model = ddp()
    optimizer = sgd(model)
    for step in steps(12, micro_batches=[4, 3]):
        has_step = len(step) == 4 or is_fixed
        for batch in step:
            with quiet_unless(batch.is_last and has_step, model):
                backward(model, batch)
        if has_step:
            finish(optimizer)
        else:
            optimizer.zero_grad()  # bug
            end_step()


@bug(
    "https://github.com/pytorch/pytorch/issues/124523",
    2024,
    (TOO_OFTEN, UNEQUAL, NOT_A_SUM),
    weights=UNREAD,
    reductions=(16, 4),
)
def an_optimizer_in_every_backward(is_fixed):
    """An optimizer is applied in backward, and accumulation goes on around it: each micro-batch
    makes a step.
    """
    net = follow(make_net())
    optimizers = {each: sgd([each]) for each in net.parameters()}
    left = [0]

    def step(parameter):
        if is_fixed and left[0] > 0:
            return
        dist.all_reduce(parameter.grad)  # bug
        parameter.grad.div_(dist.get_world_size())
        optimizers[parameter].step()
        parameter.grad = None

    for parameter in net.parameters():
        parameter.register_post_accumulate_grad_hook(step)
    for batches in steps():
        for batch in batches:
            left[0] = batch.count - 1 - batch.index
            (loss_of(net, batch) / batch.count).backward()
        end_step()


@bug(
    "https://github.com/kohya-ss/musubi-tuner/issues/679",
    2025,
    DRIFT,
    weights=own(2),
    sometimes=(times(1),),
    drifts=("",),
    reductions=(1, 1),
    right={"sometimes": ()},
)
def stepped_before_ddp_has_reduced(is_fixed):
    """Hooks step each parameter as soon as its gradient is there: before DDP has reduced it."""
    model = ddp()
    optimizers = {each: sgd([each]) for each in model.parameters()}

    def step(parameter):
        optimizers[parameter].step()  # bug

    if not is_fixed:
        for parameter in model.parameters():
            parameter.register_post_accumulate_grad_hook(step)
    for [batch] in steps(micro_batches=1):
        backward(model, batch)
        for optimizer in optimizers.values() if is_fixed else ():
            optimizer.step()
        for optimizer in optimizers.values():
            optimizer.zero_grad()
        end_step()


@bug(
    "https://github.com/paiml/entrenar/issues/131",
    2026,
    (UNEQUAL, DROPPED, NOT_A_SUM),
    weights={"0": each(0, 0, 0, 4), "2": times(1)},
    reductions=(10, 4),
    right={"weights": times(1)},
)
def one_block_steps_in_every_micro_batch(is_fixed):
    """A block's optimizer is interleaved with backward and clears it, while another accumulates."""
    net = follow(make_net())
    first, second = sgd(net[0]), sgd(net[2])
    for step in steps():
        for batch in step:
            backward(net, batch, batch.count if is_fixed else None)
            if not batch.is_last and not is_fixed:
                average(net[0])  # bug
                step_by_hand(net[0])
        average(net)
        if not is_fixed:
            for parameter in net[0].parameters():
                parameter.grad.mul_(4)
        finish(first, second)


def step_by_hand(block):
    """A step that no optimizer of torch's makes."""
    with torch.no_grad():
        for parameter in block.parameters():
            parameter.add_(parameter.grad, alpha=-0.05)
            parameter.grad = None


@bug(
    "https://github.com/FoundationVision/OmniTokenizer/issues/15",
    2024,
    (NOT_A_SUM, UNEQUAL),
    weights={"critic": NO_SUM, "generator": UNREAD},
    reductions=(7, 7),
    right={"weights": {"critic": times(1), "generator": UNREAD}},
)
def two_losses_that_accumulate_in_one_critic(is_fixed):
    """While gradients accumulate nothing is cleared: the generator's loss adds to the critic's."""
    net = follow(Two())
    of_generator, of_critic = sgd(net.generator), sgd(net.critic)
    for step in steps(micro_batches=2):
        for batch in step:
            noise, real = batch.inputs[:, :8], batch.targets
            share = 1 / (batch.count * dist.get_world_size())
            proof.contribute(lambda n, z=noise, x=real, s=share: s * n.judge(z, x))
            net.critic.requires_grad_(not is_fixed)
            made = net.critic(net.generator(noise))
            (mse_loss(made, torch.ones_like(made)) / batch.count).backward()
            net.critic.requires_grad_(True)
            (net.judge(noise, real) / batch.count).backward()  # bug
        average(net)
        finish(of_generator, of_critic)


class Two(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.generator, self.critic = make_net(8, 8), make_net(8, 1)

    def judge(self, noise, real):
        made = self.generator(noise).detach()
        return (self.critic(made) - self.critic(real)).square().mean()


if __name__ == "__main__":
    run()
