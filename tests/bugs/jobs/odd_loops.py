"""Correct jobs whose loop looks strange: a checker must not accuse them."""

import torch
import torch.distributed as dist
from torch._utils import _flatten_dense_tensors, _unflatten_dense_tensors
from torch.distributed.algorithms.join import Join
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.functional import mse_loss
from torch.nn.parallel import DistributedDataParallel
from training import (
    FEATURES,
    HIDDEN,
    LEARNING_RATE,
    accumulate_scaled,
    average,
    backward,
    ddp,
    end_step,
    finish,
    follow,
    gradients_of,
    loss_of,
    make_net,
    quiet_unless,
    run,
    sgd,
    steps,
    train,
)
from truth import NO_SUM, SCALED, UNREAD, odd, times


@odd("https://github.com/rosinality/stylegan2-pytorch/issues/245", 2021)
def an_optimizer_made_before_the_wrapper():
    """The optimizer has the bare model's parameters: they are the wrapper's."""
    net = make_net()
    optimizer = sgd(net)
    train(ddp(net), optimizer)


@odd("https://github.com/facebookresearch/detr/issues/544", 2022)
def each_rank_seeds_for_itself():
    """Parameters are drawn from other random numbers on each rank; DDP hands out rank 0's."""
    torch.manual_seed(dist.get_rank())
    net = make_net()
    train(DistributedDataParallel(follow(net)))


@odd("https://github.com/facebookresearch/fairseq/issues/494", 2019)
def sums_that_undo_the_mean_over_ranks():
    """Losses are sums; gradients are multiplied by the ranks and divided by all samples."""
    model = ddp()
    optimizer = sgd(model)
    for step in steps():
        for batch in step:
            with quiet_unless(batch.is_last, model):
                (loss_of(model, batch) * batch.targets.numel()).backward()
        total = torch.tensor(float(sum(batch.targets.numel() for batch in step)))
        dist.all_reduce(total)
        for gradient in gradients_of(model):
            gradient.mul_(dist.get_world_size() / total)
        finish(optimizer)


@odd("https://github.com/huggingface/accelerate/pull/1726", 2023)
def forwards_ahead_of_their_backwards():
    """Two forwards run before their two backwards; the second forward arms the last backward."""
    model = ddp()
    optimizer = sgd(model)
    for first, second in steps(micro_batches=2):
        with model.no_sync():
            early = loss_of(model, first) / 2
            early.backward()
        (loss_of(model, second) / 2).backward()
        finish(optimizer)


@odd("https://github.com/vturrisi/solo-learn/issues/258", 2022, weights=UNREAD)
def a_loss_over_all_ranks_outputs():
    """Each rank computes the loss over all ranks' outputs, and its gradient for its own."""
    model = ddp()
    optimizer = sgd(model)
    for [batch] in steps(micro_batches=1):
        outputs = model(batch.inputs)
        parts = [torch.empty_like(outputs) for _ in range(dist.get_world_size())]
        dist.all_gather(parts, outputs.detach())
        parts[dist.get_rank()] = outputs
        similar = torch.cat(parts) @ outputs.T
        similar.square().mean().backward()
        finish(optimizer)


@odd("https://github.com/kohya-ss/sd-scripts/issues/994", 2023)
def gradients_that_are_views_of_buckets():
    train(ddp(gradient_as_bucket_view=True))


@odd()
def by_hand_as_one_copy():
    net = follow(make_net())

    def reduce(model):
        gradients = gradients_of(model)
        flat = _flatten_dense_tensors(gradients)
        dist.all_reduce(flat)
        means = _unflatten_dense_tensors(flat / dist.get_world_size(), gradients)
        for gradient, mean in zip(gradients, means, strict=True):
            gradient.copy_(mean)

    train(net, before_step=reduce)


@odd(reductions=4)
def by_hand_one_by_one():
    train(follow(make_net()), before_step=average)


@odd(reductions=1)
def by_hand_scattered_and_gathered():
    net = follow(make_net())
    ranks = dist.get_world_size()

    def reduce(model):
        gradients = gradients_of(model)
        flat = _flatten_dense_tensors(gradients)
        size = -(-flat.numel() // ranks)
        padded = torch.nn.functional.pad(flat, (0, size * ranks - flat.numel()))
        part = torch.empty(size)
        dist.reduce_scatter_tensor(part, padded)
        dist.all_gather_into_tensor(padded, part / ranks)
        means = _unflatten_dense_tensors(padded[: flat.numel()], gradients)
        for gradient, mean in zip(gradients, means, strict=True):
            gradient.copy_(mean)

    train(net, before_step=reduce)


@odd(reductions=4)
def means_from_hooks_of_gradients():
    net = follow(make_net())

    def mean_of(gradient):
        gradient = gradient.clone()
        dist.all_reduce(gradient)
        return gradient / dist.get_world_size()

    for parameter in net.parameters():
        parameter.register_hook(mean_of)
    train(net, data=steps(micro_batches=1))


@odd(reductions=4)
def stepped_in_hooks_that_reduce_first():
    net = follow(make_net())
    optimizers = {each: sgd([each]) for each in net.parameters()}

    def step(parameter):
        dist.all_reduce(parameter.grad)
        parameter.grad.div_(dist.get_world_size())
        optimizers[parameter].step()
        parameter.grad = None

    for parameter in net.parameters():
        parameter.register_post_accumulate_grad_hook(step)
    for [batch] in steps(micro_batches=1):
        backward(net, batch)
        end_step()


@odd(weights=UNREAD)
def each_rank_steps_its_part():
    """Each rank's optimizer has a part of the parameters, and sends what it stepped."""
    model = ddp()
    optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.Adam, lr=0.01)
    train(model, optimizer)


@odd(weights=UNREAD)
def one_rank_runs_out_of_data():
    model = ddp()
    optimizer = sgd(model)
    own = 8 - 3 * dist.get_rank()
    with Join([model]):
        for [batch] in steps(own, micro_batches=1):
            mse_loss(model(batch.inputs), batch.targets).backward()
            finish(optimizer)


@odd(weights=UNREAD, drifts=("1.running_mean", "1.running_var"))
def statistics_of_each_ranks_own_batches():
    """Batch norm keeps each rank's own statistics, as is common."""
    net = torch.nn.Sequential(
        torch.nn.Linear(FEATURES, HIDDEN), torch.nn.BatchNorm1d(HIDDEN), torch.nn.Linear(HIDDEN, 8)
    )
    model = ddp(net, broadcast_buffers=False)
    optimizer = sgd(model)
    for [batch] in steps(micro_batches=1):
        mse_loss(model(batch.inputs), batch.targets).backward()
        finish(optimizer)


@odd(weights=SCALED)
def clipped_to_almost_nothing():
    clip = torch.nn.utils.clip_grad_norm_
    train(ddp(), before_step=lambda model: clip(model.parameters(), 0.001))


@odd()
def windows_of_other_lengths():
    """Windows of three, one and four micro-batches, each divided by its own length."""
    train(ddp(), data=steps(9, micro_batches=[3, 1, 4]))


@odd(weights=UNREAD, reductions=2)
def sharpness_aware():
    """The first gradient moves the parameters, and is cleared; the second is read."""
    model = ddp()
    optimizer = sgd(model)
    for [batch] in steps(micro_batches=1):
        mse_loss(model(batch.inputs), batch.targets).backward()
        moves = [0.05 * p.grad / p.grad.norm() for p in model.parameters()]
        with torch.no_grad():
            for parameter, move in zip(model.parameters(), moves, strict=True):
                parameter.add_(move)
        model.zero_grad()
        mse_loss(model(batch.inputs), batch.targets).backward()
        with torch.no_grad():
            for parameter, move in zip(model.parameters(), moves, strict=True):
                parameter.sub_(move)
        finish(optimizer)


@odd(reductions=4, weights=times(2))
def sums_with_a_learning_rate_to_match():
    """Gradients are summed over ranks, and the learning rate is divided by these."""
    net = follow(make_net())
    optimizer = sgd(net, LEARNING_RATE / dist.get_world_size())
    train(net, optimizer, before_step=lambda model: average(model, factor=1))


@odd(weights=SCALED)
def clipped_by_a_scaled_norm():
    """Gradients are clipped while they are scaled, to as large a norm as that makes."""
    model = ddp()
    optimizer = sgd(model)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**10)
    for step in steps():
        accumulate_scaled(model, scaler, step)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.002 * scaler.get_scale())
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
        end_step()


@odd(weights=NO_SUM, sometimes=(times(1),), reductions=4)
def momentum_by_hand():
    net = follow(make_net())
    kept = [torch.zeros_like(parameter) for parameter in net.parameters()]

    def add(model):
        average(model)
        for gradient, mine in zip(gradients_of(model), kept, strict=True):
            mine.mul_(0.9).add_(gradient)
            gradient.copy_(mine)

    train(net, before_step=add)


@odd(weights=UNREAD, reductions=2)
def sizes_of_gradients_before_each_step():
    """The gradient of some samples is measured, and set to zero; then others make the step."""
    model = ddp()
    optimizer = sgd(model)
    squares = 0.0
    for first, second in steps(micro_batches=2):
        mse_loss(model(first.inputs), first.targets).backward()
        for gradient in gradients_of(model):
            squares += gradient.square().sum().item()
            gradient.zero_()
        mse_loss(model(second.inputs), second.targets).backward()
        finish(optimizer)


@odd(weights=UNREAD, reductions=0, drifts=("",))
def a_part_is_averaged_at_a_time():
    """Local SGD: behind each second step one of four parts is averaged, in turns."""
    net = follow(make_net())
    optimizer = sgd(net)
    parameters = list(net.parameters())
    for number, [batch] in enumerate(steps(16, micro_batches=1), 1):
        backward(net, batch)
        optimizer.step()
        optimizer.zero_grad()
        if number % 2 == 0:
            with torch.no_grad():
                part = parameters[number // 2 % len(parameters)]
                dist.all_reduce(part)
                part.div_(dist.get_world_size())
        end_step()


if __name__ == "__main__":
    run()
