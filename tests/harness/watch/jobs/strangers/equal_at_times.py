"""Correct jobs whose replicas differ by design, for some steps or in buffers that nobody shares, or
whose ranks do not all take the same steps.
"""

import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks.post_localSGD_hook import (
    PostLocalSGDState,
    post_localSGD_hook,
)
from torch.distributed.algorithms.join import Join
from torch.distributed.algorithms.model_averaging.averagers import PeriodicModelAverager
from torch.distributed.optim import PostLocalSGDOptimizer
from torch.nn.parallel import DistributedDataParallel
from training import (
    FEATURES,
    HIDDEN,
    STEPS,
    average,
    backward,
    batches,
    finish,
    gradients_of,
    make_model,
    proof,
    run,
    sgd,
)
from truths import job, not_recognised, once

PERIOD, OUTER_PERIOD = 5, 6
LOCAL_FROM = 4


@job(
    not_recognised(
        "unwrapped_averaged_by_hand",
        0,
        also=("averaged_at_times",),
        drift={"0": 2, "2": 2},
        reductions=0,
    )
)
def averaged_every_fifth_step():
    """Parameters are averaged by hand behind every fifth step."""
    model = make_model()
    proof.compare(model.named_parameters())
    optimizer = sgd(model.parameters())
    for step, (inputs, targets) in enumerate(batches(STEPS), 1):
        backward(model, inputs, targets)
        optimizer.step()
        optimizer.zero_grad()
        if step % PERIOD == 0:
            with torch.no_grad():
                average(model.parameters())
        proof.end_step()


@job(
    not_recognised(
        "some_averaged_by_hand",
        1,
        also=("averaged_at_times",),
        drift={"0": 7, "2": 7},
        reductions=1,
    )
)
def local_sgd_of_torch():
    """torch's own: DDP reduces in the first steps, and parameters are averaged in every fourth one
    of the others.
    """
    model = DistributedDataParallel(make_model())
    proof.compare(model.module.named_parameters())
    # A subgroup of one rank: without it there would be one for each host.
    groups = [dist.new_group([rank]) for rank in range(dist.get_world_size())]
    alone = groups[dist.get_rank()]
    state = PostLocalSGDState(process_group=None, subgroup=alone, start_localSGD_iter=LOCAL_FROM)
    model.register_comm_hook(state, post_localSGD_hook)
    averager = PeriodicModelAverager(period=4, warmup_steps=LOCAL_FROM)
    optimizer = PostLocalSGDOptimizer(sgd(model.parameters()), averager)
    for inputs, targets in batches(STEPS):
        backward(model, inputs, targets)
        finish(optimizer)


@job(
    not_recognised(
        "unwrapped_averaged_by_hand",
        1,
        also=("averaged_at_times",),
        drift={"0": 2, "2": 2},
        reductions=0,
    )
)
def outer_steps():
    """As DiLoCo does: inner steps of AdamW on each rank, and after six of them a step of an outer
    optimizer on the mean of what they changed.
    """
    model, outer = make_model(), make_model()
    outer.load_state_dict(model.state_dict())
    proof.compare(model.named_parameters())
    inner_optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    outer_optimizer = torch.optim.SGD(outer.parameters(), lr=0.7, momentum=0.9, nesterov=True)
    for step, (inputs, targets) in enumerate(batches(STEPS), 1):
        backward(model, inputs, targets)
        inner_optimizer.step()
        inner_optimizer.zero_grad()
        if step % OUTER_PERIOD == 0:
            pairs = list(zip(outer.parameters(), model.parameters(), strict=True))
            for of_outer, of_inner in pairs:
                of_outer.grad = of_outer.detach() - of_inner.detach()
            average(gradients_of(outer.parameters()))
            outer_optimizer.step()
            outer_optimizer.zero_grad()
            model.load_state_dict(outer.state_dict())
        proof.end_step()


@job(
    once(
        1,
        drift={"1.running_mean": 2, "1.running_var": 2},
        also=("buffers_differ",),
        reductions=1,
    )
)
def own_statistics_of_batches():
    """Batch normalization keeps statistics of each rank's own batches, and DDP is to leave them."""
    net = torch.nn.Sequential(
        torch.nn.Linear(FEATURES, HIDDEN), torch.nn.BatchNorm1d(HIDDEN), torch.nn.Linear(HIDDEN, 8)
    )
    model = DistributedDataParallel(net, broadcast_buffers=False)
    proof.compare({**dict(net.named_parameters()), **dict(net.named_buffers())})
    optimizer = sgd(net.parameters())
    for inputs, targets in batches(STEPS):
        backward(model, inputs, targets)
        finish(optimizer)


@job(once(1, reductions=1))
def one_rank_has_fewer_batches():
    """torch's Join: where a rank has no data left it takes part in what the others reduce."""
    model = DistributedDataParallel(make_model())
    proof.compare(model.module.named_parameters())
    optimizer = sgd(model.parameters())
    own = STEPS - 6 * dist.get_rank()
    with Join([model]):
        for inputs, targets in batches(own):
            backward(model, inputs, targets)
            finish(optimizer)


@job(once(1, reductions=1))
def other_parameters_on_rank_0_at_the_end():
    """Rank 0 alone evaluates when all is trained: with parameters that it kept on the way."""
    model = DistributedDataParallel(make_model())
    proof.compare(model.module.named_parameters())
    optimizer = sgd(model.parameters())
    kept = None
    for step, (inputs, targets) in enumerate(batches(STEPS)):
        backward(model, inputs, targets)
        finish(optimizer)
        if step == STEPS // 2:
            kept = {name: each.clone() for name, each in model.module.state_dict().items()}
    if dist.get_rank() == 0:
        model.module.load_state_dict(kept)
        with torch.no_grad():
            for inputs, _ in batches(4):
                model.module(inputs)
    dist.barrier()


@job(not_recognised("ranks_disagree", 0, reductions=0))
def only_rank_0_steps():
    """Gradients are summed on rank 0, which steps and hands out its parameters."""
    model = make_model()
    proof.compare(model.named_parameters())
    optimizer = sgd(model.parameters())
    for inputs, targets in batches(STEPS):
        backward(model, inputs, targets)
        for gradient in gradients_of(model.parameters()):
            dist.reduce(gradient, 0)
            gradient.div_(dist.get_world_size())
        if dist.get_rank() == 0:
            optimizer.step()
        optimizer.zero_grad()
        for parameter in model.parameters():
            dist.broadcast(parameter.data, 0)
        proof.end_step()


@job(once(1, reductions=1))
def each_rank_steps_its_part():
    """The state of the optimizer is divided by hand: behind its step ranks differ, until each has
    sent what it stepped.
    """
    model = DistributedDataParallel(make_model())
    proof.compare(model.module.named_parameters())
    parameters = list(model.parameters())
    optimizer = torch.optim.Adam(parameters[dist.get_rank() :: dist.get_world_size()], lr=0.01)
    for inputs, targets in batches(STEPS):
        backward(model, inputs, targets)
        optimizer.step()
        model.zero_grad()
        for i, parameter in enumerate(parameters):
            dist.broadcast(parameter.data, i % dist.get_world_size())
        proof.end_step()


if __name__ == "__main__":
    run()
