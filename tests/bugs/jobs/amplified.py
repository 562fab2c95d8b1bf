"""Jobs in which what was accumulated is scaled or added once more on the way to the step."""

import torch
import torch.distributed as dist
from torch.nn.functional import mse_loss
from training import (
    average,
    backward,
    ddp,
    end_step,
    follow,
    gradients_of,
    make_net,
    proof,
    run,
    sgd,
    steps,
    train,
)
from truth import NO_SUM, NOT_A_SUM, UNEQUAL, UNREAD, bug, each


@bug("https://github.com/NVIDIA/Megatron-LM/issues/6660", 2026, UNEQUAL, weights=each(8, 4, 2, 1))
def doubled_in_every_micro_batch(is_fixed):
    """A buffer is added to itself before each micro-batch."""
    model = ddp()

    def double(batch):
        for gradient in gradients_of(model) if batch.index and not is_fixed else ():
            gradient.mul_(2)  # bug

    train(model, before=double)


@bug(
    "https://github.com/pytorch/torchtitan/issues/1733",
    2025,
    UNEQUAL,
    weights=each(1 / 8, 1 / 4, 1 / 2, 1),
    reductions=(4, 4),
)
def scaled_behind_every_call_of_the_schedule(is_fixed):
    """A pipeline's schedule divides all gradients by its two micro-batches at each call, and is
    called four times before a step.
    """
    net = follow(make_net())

    def scale(batch):
        for gradient in gradients_of(net) if not (is_fixed or batch.is_last) else ():
            gradient.div_(2)  # bug

    train(net, after=scale, before_step=average)


@bug(
    "https://github.com/NVIDIA/Megatron-LM/pull/3023",
    2026,
    UNEQUAL,
    weights=each(1 / 8, 1 / 4, 1 / 2, 1),
)
def accumulated_gradient_divided_again(is_fixed):
    """What was accumulated is divided by the ranks before each micro-batch."""
    model = ddp()

    def divide(batch):
        for gradient in gradients_of(model) if batch.index and not is_fixed else ():
            gradient.div_(dist.get_world_size())  # bug

    train(model, before=divide)


@bug(
    "https://github.com/ajbrock/BigGAN-PyTorch/issues/25",
    2019,
    (NOT_A_SUM, UNEQUAL),
    weights=NO_SUM,
    sometimes=(each(1),),
    reductions=(4, 4),
)
def not_cleared_between_critic_steps(is_fixed):
    """The critic steps twice, and is cleared before the first step alone."""
    net = follow(make_net())
    optimizer = sgd(net)
    for number, step in enumerate(steps(micro_batches=1)):
        if number % 2 == 0 or is_fixed:
            optimizer.zero_grad()  # bug
        backward(net, step[0])
        average(net)
        optimizer.step()
        end_step()


class Pair(torch.nn.Module):
    """A generator and a critic."""

    def __init__(self):
        super().__init__()
        self.generator, self.critic = make_net(8, 8), make_net(8, 1)


def train_pair(clears_critic):
    """Both step in turns. The generator's loss reaches the critic's parameters."""
    pair = follow(Pair())
    of_generator, of_critic = sgd(pair.generator), sgd(pair.critic)
    for step in steps(micro_batches=1):
        noise, real = step[0].inputs[:, :8], step[0].targets
        share = 1 / dist.get_world_size()
        meant = lambda p, z=noise, x=real: losses(p, z, x)  # noqa: E731
        note(pair, meant, share)
        for number, loss in enumerate(losses(pair, noise, real)):
            loss.backward()
            part = pair.critic if number == 0 else pair.generator
            average(part)
            optimizer = of_critic if number == 0 else of_generator
            optimizer.step()
            optimizer.zero_grad()
            if clears_critic:
                pair.critic.zero_grad()
        end_step()


def losses(pair, noise, real):
    """Yields the critic's loss, and the generator's."""
    made = pair.generator(noise)
    yield (pair.critic(made.detach()) - pair.critic(real)).mean()
    yield mse_loss(-pair.critic(pair.generator(noise)), torch.ones(len(noise), 1))


def note(pair, meant, share):
    """Notes the critic's loss: the generator's needs the critic as it is behind its step."""
    proof.contribute(lambda twin: share * next(meant(twin)))


@bug(
    "https://github.com/Lightning-AI/pytorch-lightning/issues/591",
    2019,
    (NOT_A_SUM, UNEQUAL),
    weights={"critic": NO_SUM, "generator": UNREAD},
    sometimes=({"critic": each(1), "generator": UNREAD},),
    reductions=(7, 7),
    right={"weights": {"critic": each(1), "generator": UNREAD}},
)
def generators_loss_is_left_in_the_critic(is_fixed):
    """Each optimizer clears its own parameters; what the generator's loss left in the critic's
    is added to the critic's next gradient, and averaged with it.
    """
    train_pair(clears_critic=is_fixed)


if __name__ == "__main__":
    run()
