"""Jobs whose gradients are right, and whose steps wait or send for nothing."""

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from training import (
    ddp,
    finish,
    follow,
    gradients_of,
    loss_of,
    make_net,
    quiet_unless,
    run,
    sgd,
    steps,
)
from truth import WASTE, bug

LONG = 40  # steps enough to say what they wait for


def deep_net(layers=12):
    parts = [make_net(16, 16) for _ in range(layers)]
    return torch.nn.Sequential(*parts, make_net())


def train(model, behind=None, in_each=None, count=LONG, micro_batches=4):
    optimizer = sgd(model)
    for step in steps(count, micro_batches):
        for batch in step:
            with quiet_unless(batch.is_last, model):
                loss = loss_of(model, batch)
                (loss / batch.count).backward()
            if in_each:
                in_each(loss.detach())
        finish(optimizer)
        if behind:
            behind(loss.detach(), step[0].step)


@bug("https://github.com/modelscope/ms-swift/pull/9966", 2026, WASTE)
def a_logged_loss_is_reduced_in_each_micro_batch(is_fixed):
    """The loss that is logged every tenth step is all-reduced in every micro-batch."""

    def reduce(loss):
        dist.all_reduce(loss.clone())  # bug

    def behind(loss, number):
        if is_fixed and number % 10 == 9:
            reduce(loss)

    train(ddp(), behind, None if is_fixed else reduce)


@bug("https://github.com/vllm-project/speculators/pull/1119", 2026, WASTE, right={"reductions": 2})
def each_metric_by_itself(is_fixed):
    """Twelve metrics are reduced by a collective each; stacked they are one."""

    def behind(loss, number):
        metrics = [loss * i for i in range(12)]
        if is_fixed:
            dist.all_reduce(torch.stack(metrics))
            return
        for metric in metrics:
            dist.all_reduce(metric)  # bug

    train(ddp(), behind)


@bug("https://github.com/allenai/OLMo/pull/279", 2023, WASTE)
def metrics_are_gathered_as_objects(is_fixed):
    """Every rank gathers every rank's metrics in each step, to be logged by one of them."""

    def behind(loss, number):
        if is_fixed:
            if number % 10 == 9:
                dist.reduce(loss.clone(), 0)
            return
        found = [None] * dist.get_world_size()
        dist.all_gather_object(found, {"loss": loss.item()})  # bug

    train(ddp(), behind)


@bug("https://github.com/sb-ai-lab/RePlay/pull/100", 2026, WASTE)
def two_metrics_in_each_step(is_fixed):
    """Loss and learning rate are averaged over ranks in each step, for a mean over the epoch."""

    def behind(loss, number):
        if not is_fixed:
            dist.all_reduce(loss.clone())  # bug
            dist.all_reduce(torch.tensor(0.1))

    train(ddp(), behind)


@bug(
    "https://github.com/deepspeedai/DeepSpeed/issues/7804",
    2026,
    WASTE,
    reductions=(52, 2),
    right={"reductions": None},
)
def reduced_one_by_one_behind_backward(is_fixed):
    """Reductions do not begin before backward has ended: here one for each parameter."""
    net = deep_net()
    if is_fixed:
        train(ddp(net, bucket_cap_mb=0.02), count=12, micro_batches=1)
        return
    follow(net)
    optimizer = sgd(net)
    for [batch] in steps(12, micro_batches=1):
        (loss_of(net, batch) / batch.count).backward()
        for gradient in gradients_of(net):
            dist.all_reduce(gradient)  # bug
            gradient.div_(dist.get_world_size())
        finish(optimizer)


@bug(
    "https://github.com/speechbrain/speechbrain/issues/1162",
    2021,
    WASTE,
    reductions=(13, 1),
)
def a_wrapper_for_each_module(is_fixed):
    """Each module of a model has a DDP of its own: as many reductions, each of them small."""
    net = follow(deep_net())
    if is_fixed:
        model = DistributedDataParallel(net)
    else:
        model = torch.nn.Sequential(*(DistributedDataParallel(part) for part in net))  # bug
    optimizer = sgd(model)
    for [batch] in steps(12, micro_batches=1):
        (loss_of(model, batch) / batch.count).backward()
        finish(optimizer)


if __name__ == "__main__":
    run()
