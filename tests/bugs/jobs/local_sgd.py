"""Ranks that train apart for a while, and average what they have: not all of it, or not in time."""

import copy

import torch
import torch.distributed as dist
from training import average, backward, end_step, follow, make_net, run, sgd, steps
from truth import DRIFT, FACTOR, UNREAD, bug

PERIOD = 4


def average_parameters(parameters):
    with torch.no_grad():
        for parameter in parameters:
            dist.all_reduce(parameter)
            parameter.div_(dist.get_world_size())


def train_apart(net, behind_step):
    """Each rank steps by itself, and `behind_step` gets the number of the step, from 1."""
    optimizer = sgd(net)
    for number, [batch] in enumerate(steps(count=16, micro_batches=1), 1):
        backward(net, batch)
        optimizer.step()
        optimizer.zero_grad()
        behind_step(number)
        end_step()


@bug(
    "https://github.com/pytorch/pytorch/pull/74737",
    2022,
    DRIFT,
    weights=UNREAD,
    reductions=(0, 0),
    drifts=("0", "2"),
    right={"weights": UNREAD, "drifts": ("",)},
)
def an_averager_that_counts_groups_as_steps(is_fixed):
    """The averager counts its calls, and is called once for each group of parameters: with two
    groups one of them is averaged at each due call, and the other never.
    """
    net = follow(make_net())
    calls = [0]

    def behind_step(number):
        groups = [list(net[0].parameters()), list(net[2].parameters())]
        for group in groups if not is_fixed else [list(net.parameters())]:
            calls[0] += 1
            if calls[0] % PERIOD == 0:
                average_parameters(group)  # bug

    train_apart(net, behind_step)


@bug(
    "https://github.com/pytorch/pytorch/issues/76282",
    2022,
    DRIFT,
    weights=UNREAD,
    reductions=(0, 0),
    drifts=("",),
    right={"weights": UNREAD, "drifts": ("",)},
)
def a_skipped_step_skips_the_average(is_fixed):
    """A scaler skips the optimizer's step, and with it the average that was due in that step."""
    net = follow(make_net())

    def behind_step(number):
        is_skipped = number % PERIOD == 0  # gradients are not finite just there
        if number % PERIOD == 0 and (is_fixed or not is_skipped):
            average_parameters(net.parameters())  # bug

    train_apart(net, behind_step)


@bug(
    "https://github.com/meta-pytorch/torchft/pull/233",
    2025,
    FACTOR,
    weights=UNREAD,
    reductions=(0, 0),
    drifts=("",),
    right={"weights": UNREAD, "drifts": ("",)},
)
def an_outer_gradient_with_the_wrong_sign(is_fixed):
    """DiLoCo's outer gradient is what was before less what is now; turned round, each outer step
    leads away from what ranks learned.
    """
    net = follow(make_net())
    outer = copy.deepcopy(net)
    outer_optimizer = torch.optim.SGD(outer.parameters(), lr=0.7, momentum=0.9, nesterov=True)

    def behind_step(number):
        if number % PERIOD:
            return
        for before, now in zip(outer.parameters(), net.parameters(), strict=True):
            change = before.detach() - now.detach()
            before.grad = change if is_fixed else -change  # bug
        average(outer)
        outer_optimizer.step()
        outer_optimizer.zero_grad()
        net.load_state_dict(outer.state_dict())

    train_apart(net, behind_step)


if __name__ == "__main__":
    run()
