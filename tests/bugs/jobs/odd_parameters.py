"""Correct jobs some of whose parameters look as if ranks should keep them alike: a checker must not
accuse them.
"""

import torch
import torch.distributed as dist
from parallel import Gather
from torch.nn.functional import mse_loss
from torch.nn.parallel import DistributedDataParallel
from training import (
    FEATURES,
    HIDDEN,
    OUTPUTS,
    end_step,
    finish,
    follow,
    gradients_of,
    make_net,
    run,
    sgd,
    steps,
)
from truth import UNREAD, odd


def frozen(*shape):
    return torch.nn.Parameter(torch.zeros(*shape), requires_grad=False)


def train_wrapped(net, behind_step=None):
    follow(net)
    model = DistributedDataParallel(net)
    optimizer = sgd(each for each in net.parameters() if each.requires_grad)
    for number, [batch] in enumerate(steps(12, micro_batches=1), 1):
        mse_loss(model(batch.inputs), batch.targets).backward()
        optimizer.step()
        optimizer.zero_grad()
        if behind_step:
            behind_step(number)
        end_step()


@odd(weights=UNREAD, drifts=("queue",))
def a_queue_of_each_ranks_own():
    """Earlier samples of this rank, as a parameter that is not trained."""

    class Queued(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.net, self.queue, self.place = make_net(), frozen(64, OUTPUTS), 0

        def forward(self, inputs):
            outputs = self.net(inputs)
            similar = outputs @ self.queue.clone().T
            self.queue[self.place : self.place + len(inputs)] = outputs.detach()
            self.place = (self.place + len(inputs)) % len(self.queue)
            return outputs + 0.01 * similar.mean()

    train_wrapped(Queued())


@odd(weights=UNREAD, drifts=("mean",))
def a_mean_in_a_frozen_parameter():
    """Statistics of each rank's own inputs, which a batch norm would have in buffers."""

    class Centred(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.net, self.mean = make_net(), frozen(FEATURES)

        def forward(self, inputs):
            self.mean.lerp_(inputs.mean(0), 0.1)
            return self.net(inputs - self.mean.clone())

    train_wrapped(Centred())


@odd(weights=UNREAD)
def a_teacher_in_the_wrapper():
    """Its moving average is that of replicas, and so equal on all ranks."""

    class Taught(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.net, self.teacher = make_net(), make_net().requires_grad_(False)

        def forward(self, inputs):
            with torch.no_grad():
                pairs = zip(self.teacher.parameters(), self.net.parameters(), strict=True)
                for mine, now in pairs:
                    mine.lerp_(now, 0.1)
            return self.net(inputs) - 0.1 * self.teacher(inputs)

    train_wrapped(Taught())


@odd(weights=UNREAD, drifts=("codes",))
def codes_that_are_averaged_at_times():
    """Each rank moves its codes by itself, and every fourth step they are averaged."""

    class Coded(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.net, self.codes = make_net(), frozen(FEATURES, FEATURES)

        def forward(self, inputs):
            self.codes.add_(inputs.T @ inputs, alpha=0.001)
            return self.net(inputs - inputs @ self.codes.clone() / 10)

    net = Coded()

    def behind_step(number):
        if number % 4 == 0:
            dist.all_reduce(net.codes)
            net.codes.div_(dist.get_world_size())

    train_wrapped(net, behind_step)


@odd(weights=UNREAD, reductions=0, drifts=("",))
def heads_that_begin_alike():
    """Ranks average the body they share every second step. Each keeps a head for its own data."""
    body = follow(make_net(FEATURES, OUTPUTS), "body")
    head = follow(torch.nn.Linear(OUTPUTS, 64), "head")
    optimizer = sgd([*body.parameters(), *head.parameters()])
    for number, [batch] in enumerate(steps(16, micro_batches=1, outputs=64), 1):
        mse_loss(head(body(batch.inputs)), batch.targets).backward()
        optimizer.step()
        optimizer.zero_grad()
        if number % 2 == 0:
            with torch.no_grad():
                for parameter in body.parameters():
                    dist.all_reduce(parameter)
                    parameter.div_(dist.get_world_size())
        end_step()


@odd(weights=UNREAD, drifts=("expert",))
def experts_marked_as_each_ranks_own():
    """Each rank's expert begins as all others do, and is marked as DeepSpeed and Megatron-LM do."""
    body = follow(make_net(FEATURES, HIDDEN), "body")
    expert = follow(torch.nn.Linear(HIDDEN, OUTPUTS), "expert")
    for parameter in expert.parameters():
        parameter.allreduce = False
    model = DistributedDataParallel(body)
    optimizer = sgd([*body.parameters(), *expert.parameters()])
    for [batch] in steps(micro_batches=1):
        mse_loss(expert(model(batch.inputs)), batch.targets).backward()
        finish(optimizer)


class Normed(torch.nn.Module):
    """A norm, and columns of a layer that each rank has for itself."""

    def __init__(self, columns=OUTPUTS):
        super().__init__()
        self.norm = torch.nn.LayerNorm(FEATURES)
        torch.manual_seed(1 + dist.get_rank())
        self.columns = torch.nn.Linear(FEATURES, columns)


@odd(weights=UNREAD, reductions=0, drifts=("",))
def marked_norms_of_two_stages():
    """Each stage of a pipeline has a norm of its own, marked as sequence parallelism needs it."""
    stage, is_first = follow(Normed(FEATURES)), dist.get_rank() == 0
    for parameter in stage.norm.parameters():
        parameter.sequence_parallel = True
    optimizer = sgd(stage)
    for [batch] in steps(micro_batches=1):
        if is_first:
            hidden = stage.columns(stage.norm(batch.inputs))
            dist.send(hidden.detach(), 1)
            upstream = torch.empty_like(hidden)
            dist.recv(upstream, 1)
            hidden.backward(upstream)
        else:
            hidden = torch.empty(len(batch.inputs), FEATURES)
            dist.recv(hidden, 0)
            hidden.requires_grad_()
            mse_loss(stage.columns(stage.norm(hidden)), torch.ones(1)).backward()
            dist.send(hidden.grad, 0)
        finish(optimizer)


@odd(weights=UNREAD, ranks=4, reductions=2, drifts=("",))
def marked_norms_of_two_models():
    """Two pairs of ranks train a model each. Within a pair a norm sees parts of a sequence."""
    pairs = [dist.new_group(pair) for pair in ([0, 1], [2, 3])]
    group = pairs[dist.get_rank() // 2]
    net = follow(Normed())
    for parameter in net.norm.parameters():
        parameter.sequence_parallel = True
    optimizer = sgd(net)
    for [batch] in steps(micro_batches=1):
        mse_loss(net.columns(net.norm(batch.inputs)), batch.targets).backward()
        for gradient in gradients_of(net.norm):
            dist.all_reduce(gradient, group=group)
        finish(optimizer)


@odd(weights=UNREAD, reductions=2, drifts=("expert",))
def hooks_on_all_but_the_experts():
    """Hooks reduce what ranks share. Each rank's expert has a norm as well, without one."""
    net = follow(torch.nn.ModuleDict({"dense": Normed(FEATURES), "expert": Normed()}))
    dist.broadcast(net["dense"].columns.weight.data, 0)
    dist.broadcast(net["dense"].columns.bias.data, 0)

    def reduce(parameter):
        dist.all_reduce(parameter.grad)
        parameter.grad.div_(dist.get_world_size())

    for parameter in net["dense"].norm.parameters():
        parameter.register_post_accumulate_grad_hook(reduce)
    net["dense"].columns.requires_grad_(False)
    of_experts, of_dense = sgd(net["expert"]), sgd(net["dense"].norm)
    for [batch] in steps(micro_batches=1):
        hidden = Gather.apply(net["dense"].columns(net["dense"].norm(batch.inputs)))
        routed = net["expert"].columns(net["expert"].norm(hidden))
        mse_loss(routed, torch.ones(1)).backward()
        finish(of_experts, of_dense)


if __name__ == "__main__":
    run()
