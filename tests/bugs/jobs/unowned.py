"""Parameters and buffers that ranks train, or keep, apart from each other."""

import copy

import torch
import torch.distributed as dist
from torch.distributed.fsdp import fully_shard
from torch.nn.functional import mse_loss
from torch.nn.parallel import DistributedDataParallel
from training import (
    FEATURES,
    HIDDEN,
    OUTPUTS,
    average,
    backward,
    ddp,
    end_step,
    finish,
    follow,
    make_net,
    quiet_unless,
    run,
    sgd,
    steps,
    train,
)
from truth import ALL, DRIFT, UNREAD, bug, own


class Adapted(torch.nn.Module):
    """A net with a low-rank update beside it."""

    def __init__(self, net):
        super().__init__()
        self.net = net
        self.down = torch.nn.Linear(FEATURES, 4, bias=False)
        self.up = torch.nn.Linear(4, OUTPUTS, bias=False)

    def forward(self, inputs):
        return self.net(inputs) + self.up(self.down(inputs))


@bug(
    "https://github.com/huggingface/transformers/pull/48873",
    2026,
    DRIFT,
    weights={"net": ALL, "down": own(2), "up": own(2)},
    reductions=(1, 3),
    drifts=("down", "up"),
)
def an_adapter_beside_a_sharded_net(is_fixed):
    """The net is sharded when the adapter is put beside it: the adapter is never averaged."""
    adapted = follow(Adapted(make_net()))
    fully_shard(adapted.net)  # bug
    if is_fixed:
        for parameter in (adapted.down.weight, adapted.up.weight):
            parameter.register_post_accumulate_grad_hook(average_one)
    optimizer = sgd(adapted)
    for [batch] in steps(micro_batches=1):
        backward(adapted, batch)
        finish(optimizer)


def average_one(parameter):
    dist.all_reduce(parameter.grad)
    parameter.grad.div_(dist.get_world_size())


@bug(
    "https://github.com/huggingface/transformers/pull/48792",
    2026,
    DRIFT,
    weights={"down": own(2), "up": own(2)},
    reductions=(0, 2),
    drifts=("down", "up"),
)
def an_adapter_of_each_ranks_own_random_numbers(is_fixed):
    """The net is frozen and sharded; adapters begin with each rank's own random numbers, too."""
    net = make_net().requires_grad_(False)
    torch.manual_seed(0 if is_fixed else dist.get_rank())
    adapted = follow(Adapted(net))
    optimizer = sgd([adapted.down.weight, adapted.up.weight])  # bug
    for [batch] in steps(micro_batches=1):
        backward(adapted, batch)
        for parameter in (adapted.down.weight, adapted.up.weight) if is_fixed else ():
            average_one(parameter)
        finish(optimizer)


@bug("https://github.com/bl0/moco/issues/4", 2020, DRIFT, reductions=(4, 4), drifts=("",))
def replicas_that_begin_apart(is_fixed):
    """Gradients are averaged; what replicas began with never was the same."""
    torch.manual_seed(0 if is_fixed else dist.get_rank())
    net = follow(make_net())
    train(net, before_step=average)


@bug(
    "https://github.com/iCog-Labs-Dev/PC-Transformers/pull/135",
    2026,
    DRIFT,
    weights=UNREAD,
    reductions=(1, 2),
    drifts=("local",),
    right={"weights": UNREAD},
)
def weights_changed_within_forward(is_fixed):
    """A layer learns by a rule of its own, within forward, from this rank's inputs."""

    class Predicting(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.net = make_net()
            self.local = torch.nn.Parameter(torch.zeros(FEATURES, FEATURES), requires_grad=False)

        def forward(self, inputs):
            errors = inputs - inputs @ self.local
            self.local.add_(inputs.T @ errors, alpha=0.001)  # bug
            if is_fixed:
                dist.all_reduce(self.local)
                self.local.div_(dist.get_world_size())
            return self.net(errors.detach())

    net = follow(Predicting())
    model = DistributedDataParallel(net)
    optimizer = sgd(net.net)
    for [batch] in steps(micro_batches=1):
        mse_loss(model(batch.inputs), batch.targets).backward()
        finish(optimizer)


@bug(
    "https://github.com/pytorch/pytorch/issues/111138",
    2023,
    DRIFT,
    weights=UNREAD,
    drifts=("center",),
    right={"weights": UNREAD},
)
def buffers_that_begin_apart(is_fixed):
    """With broadcast_buffers=False DDP leaves buffers as each rank's random numbers made them."""
    torch.manual_seed(0 if is_fixed else dist.get_rank())
    net = make_net()
    net.register_buffer("center", torch.randn(OUTPUTS))
    model = ddp(net, broadcast_buffers=False)  # bug
    optimizer = sgd(model)
    for [batch] in steps(micro_batches=1):
        mse_loss(model(batch.inputs) - net.center, batch.targets).backward()
        finish(optimizer)


@bug(
    "https://github.com/lucidrains/ema-pytorch/issues/9",
    2023,
    DRIFT,
    weights=UNREAD,
    drifts=("",),
)
def averaged_weights_put_back_on_one_rank(is_fixed):
    """Rank 0 keeps a moving average, and now and then trains on from it."""
    model = ddp()
    optimizer = sgd(model)
    kept = copy.deepcopy(model.module)
    for number, [batch] in enumerate(steps(micro_batches=1)):
        backward(model, batch)
        optimizer.step()
        optimizer.zero_grad()
        for mine, now in zip(kept.parameters(), model.module.parameters(), strict=True):
            mine.data.lerp_(now.data, 0.1)
        if number == 3 and (dist.get_rank() == 0 or is_fixed):
            model.module.load_state_dict(kept.state_dict())  # bug
        end_step()


class Stage(torch.nn.Module):
    """A half of a net whose first and last layers share a matrix; each rank has a copy of it."""

    def __init__(self):
        super().__init__()
        self.tied = torch.nn.Parameter(torch.randn(FEATURES, HIDDEN) / 10)


@bug(
    "https://github.com/uw-syfi/piper/issues/13",
    2026,
    DRIFT,
    weights=UNREAD,
    reductions=(0, 1),
    drifts=("tied",),
    right={"weights": UNREAD},
)
def a_tied_embedding_of_two_stages(is_fixed):
    """The first and the last stage of a pipeline have a copy of one matrix, whose gradients are to
    be summed over the two.
    """
    stage = follow(Stage())
    optimizer = sgd(stage)  # bug
    for step in steps():
        for batch in step:
            inputs = same_on_all_ranks(batch.inputs)
            targets = same_on_all_ranks(batch.targets)
            if dist.get_rank() == 0:
                hidden = (inputs @ stage.tied).tanh()
                dist.send(hidden.detach(), 1)
                upstream = torch.empty_like(hidden)
                dist.recv(upstream, 1)
                hidden.backward(upstream)
            else:
                hidden = torch.empty(len(inputs), HIDDEN)
                dist.recv(hidden, 0)
                hidden.requires_grad_()
                outputs = (hidden @ stage.tied.T)[:, :OUTPUTS]
                (mse_loss(outputs, targets) / batch.count).backward()
                dist.send(hidden.grad, 0)
        if is_fixed:
            dist.all_reduce(stage.tied.grad)
        finish(optimizer)


def same_on_all_ranks(tensor):
    tensor = tensor.clone()
    dist.broadcast(tensor, 0)
    return tensor


@bug(
    "https://github.com/huggingface/diffusers/issues/4046",
    2023,
    DRIFT,
    weights=UNREAD,
    drifts=("critic",),
    reductions=(1, 2),
    right={"weights": UNREAD},
)
def only_the_generator_is_prepared(is_fixed):
    """The generator is wrapped and accumulates; the critic beside it is neither."""
    generator, critic = follow(make_net(), "generator"), follow(make_net(OUTPUTS, 1), "critic")
    wrapped = DistributedDataParallel(generator)
    judge = DistributedDataParallel(critic) if is_fixed else critic
    of_generator, of_critic = sgd(wrapped), sgd(critic)  # bug
    for step in steps():
        for batch in step:
            with quiet_unless(batch.is_last, judge) if is_fixed else wrapped.no_sync():
                made = generator(batch.inputs).detach()
                ((judge(made) - judge(batch.targets)).mean() / batch.count).backward()
        of_critic.step()
        of_critic.zero_grad()
        for batch in step:
            with quiet_unless(batch.is_last, wrapped):
                critic.requires_grad_(False)
                (-critic(wrapped(batch.inputs)).mean() / batch.count).backward()
                critic.requires_grad_(True)
        finish(of_generator)


if __name__ == "__main__":
    run()
