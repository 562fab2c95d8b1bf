"""Jobs without a wrapper that is known: they reduce gradients by themselves, and are judged by the
bytes of what they reduce behind which backward.
"""

import torch
import torch.distributed as dist
from torch.nn.functional import mse_loss
from training import (
    DEVICE,
    average,
    batches,
    finish,
    make_model,
    make_slow_model,
    run,
    sgd,
    windows,
)
from truths import job, never, not_recognised, once, too_early, too_often


def make_equal(model=None):
    """A model of which all ranks have rank 0's parameters."""
    model = model or make_model()
    for parameter in model.parameters():
        dist.broadcast(parameter.data, 0)
    return model


def gradients_of(model):
    return [parameter.grad for parameter in model.parameters()]


@job(once())
def by_hand():
    """Gradients are averaged by hand behind the last backward of a step."""
    model = make_model()
    optimizer = sgd(model)
    for window in windows():
        for _, inputs, targets in window:
            mse_loss(model(inputs), targets).backward()
        average(parameter.grad for parameter in model.parameters())
        finish(optimizer)


@job(once(1))
def overlapped_by_hand():
    """Each gradient is reduced as soon as it is there, while backward goes on."""
    model = make_slow_model()
    works = []

    def reduce(parameter):
        works.append(dist.all_reduce(parameter.grad, async_op=True))

    for parameter in model.parameters():
        parameter.register_post_accumulate_grad_hook(reduce)
    optimizer = sgd(model)
    for inputs, targets in batches(8):
        mse_loss(model(inputs), targets).backward()
        while works:
            works.pop().wait()
        for parameter in model.parameters():
            parameter.grad /= dist.get_world_size()
        finish(optimizer)


@job(too_often("reduced_behind_each"), fixed=once())
def by_hand_each(is_fixed):
    """Averages what has added up behind every backward, not behind the last one alone."""
    model = make_equal()
    optimizer = sgd(model)
    for window in windows():
        for is_last, inputs, targets in window:
            mse_loss(model(inputs), targets).backward()
            if is_last or not is_fixed:
                for gradient in gradients_of(model):
                    dist.all_reduce(gradient, op=dist.ReduceOp.AVG)  # to change
        finish(optimizer)


@job(too_often("reduced_behind_each"), fixed=once())
def hooks_each(is_fixed):
    """Hooks reduce each gradient while backward runs, in every micro-batch."""
    model = make_equal()
    works, is_due = [], True

    def reduce(parameter):
        if is_due:
            works.append(dist.all_reduce(parameter.grad, async_op=True))

    for parameter in model.parameters():
        parameter.register_post_accumulate_grad_hook(reduce)
    optimizer = sgd(model)
    for window in windows():
        for is_last, inputs, targets in window:
            is_due = is_last or not is_fixed
            mse_loss(model(inputs), targets).backward()  # to change
            while works:
                works.pop().wait()
        finish(optimizer)


@job(not_recognised("gradients_read", synchronized=4))
def noise_by_hand():
    """Averages behind every backward, and compares the norm after one with that after all."""
    model = make_equal()
    optimizer = sgd(model)
    for window in windows():
        norms = []
        for _, inputs, targets in window:
            mse_loss(model(inputs), targets).backward()
            average(gradients_of(model))
            norms.append(sum(parameter.grad.norm() for parameter in model.parameters()))
        assert norms[0] != norms[-1]
        finish(optimizer)


@job(too_early("reduced_too_early", also=("replicas_drift",) * 2), fixed=once())
def reduced_first(is_fixed):
    """Averages behind the first micro-batch: what the others add stays each rank's own."""
    model = make_equal()
    optimizer = sgd(model)
    for window in windows():
        for number, (is_last, inputs, targets) in enumerate(window):
            mse_loss(model(inputs), targets).backward()  # to change
            if is_last if is_fixed else number == 0:
                average(gradients_of(model))
        finish(optimizer)


@job(never("nothing_reduced", also=("replicas_drift",)), fixed=once())
def forgotten(is_fixed):
    """All ranks are given the same parameters, and none the gradients of the others."""
    model = make_equal()
    optimizer = sgd(model)
    for window in windows():
        for _, inputs, targets in window:
            mse_loss(model(inputs), targets).backward()  # to change
        if is_fixed:
            average(gradients_of(model))
        finish(optimizer)


def make_wide():
    """One whose gradients are more than a few bytes."""
    return torch.nn.Sequential(torch.nn.Linear(12, 400), torch.nn.Linear(400, 1))


def shards_of(gradients):
    """All of them in one, padded to equal parts."""
    flat = torch.cat([gradient.flatten() for gradient in gradients])
    padded = torch.nn.functional.pad(flat, (0, -flat.numel() % dist.get_world_size()))
    return padded, torch.empty(padded.numel() // dist.get_world_size())


@job(too_often("gradients_not_kept", kind="every_micro_batch", fails=False))
def zero_2():
    """Each rank keeps its share of the gradients alone, as ZeRO 2 does: no accusation."""
    model = make_equal(make_wide())
    parameters = list(model.parameters())
    own = None
    for window in windows():
        for _, inputs, targets in window:
            mse_loss(model(inputs), targets).backward()  # to change
            padded, part = shards_of(gradients_of(model))
            dist.reduce_scatter_tensor(part, padded)
            own = part if own is None else own + part
            for parameter in parameters:
                parameter.grad = None
        shares = torch.empty(own.numel() * dist.get_world_size())
        dist.all_gather_into_tensor(shares, own)
        optimizer = torch.optim.SGD(parameters, lr=0.01)
        for parameter in parameters:
            parameter.grad, shares = (
                shares[: parameter.numel()].view_as(parameter).clone(),
                shares[parameter.numel() :],
            )
        finish(optimizer)
        own = None


@job(once())
def zero_1():
    """Gradients add up, and are reduced once, each rank's share of them."""
    model = make_equal(make_wide())
    parameters = list(model.parameters())
    optimizer = sgd(model)
    for window in windows():
        for _, inputs, targets in window:
            mse_loss(model(inputs), targets).backward()
        padded, part = shards_of(gradients_of(model))
        dist.reduce_scatter_tensor(part, padded)
        dist.all_gather_into_tensor(padded, part)
        for parameter in parameters:
            parameter.grad.copy_(padded[: parameter.numel()].view_as(parameter))
            padded = padded[parameter.numel() :]
        finish(optimizer)


@job(once())
def in_half():
    """Gradients travel in bfloat16, and a loss is logged between."""
    model = make_equal()
    optimizer = sgd(model)
    for window in windows():
        for _, inputs, targets in window:
            loss = mse_loss(model(inputs), targets)
            loss.backward()
            dist.all_reduce(loss.detach())
        for gradient in gradients_of(model):
            small = gradient.bfloat16()
            dist.all_reduce(small)
            gradient.copy_(small / dist.get_world_size())
        finish(optimizer)


@job(once(1))
def heads_by_hand():
    """Each loss reaches a head of its own, and all gradients are reduced behind the second."""
    body, heads = make_model(), [torch.nn.Linear(1, 300), torch.nn.Linear(1, 1)]
    parts = make_equal(torch.nn.ModuleList([body, *heads]))
    optimizer = sgd(parts)
    for inputs, targets in batches(12):
        features = body(inputs)
        mse_loss(heads[0](features).mean(1, keepdim=True), targets).backward(retain_graph=True)
        mse_loss(heads[1](features), targets).backward()
        average(gradients_of(parts))
        finish(optimizer)


@job(once(1))
def adversaries():
    """Two models in turn, of which each is reduced before its own optimizer steps: the second one's
    backward runs through the first.
    """
    maker = make_equal()
    judge = make_equal(torch.nn.Sequential(torch.nn.Linear(1, 40), torch.nn.Linear(40, 1)))
    optimizers = sgd(maker), sgd(judge)
    for inputs, targets in batches(12):
        loss = judge(maker(inputs).detach()).mean() - judge(targets).mean()
        loss.backward()
        average(gradients_of(judge))
        finish(optimizers[1])
        judge(maker(inputs)).mean().backward()
        average(gradients_of(maker))
        finish(optimizers[0])
        optimizers[1].zero_grad()


class SummedForward(torch.autograd.Function):
    @staticmethod
    def forward(ctx, tensor):
        tensor = tensor.clone()
        dist.all_reduce(tensor)
        return tensor

    @staticmethod
    def backward(ctx, gradient):
        return gradient


class SummedBackward(torch.autograd.Function):
    @staticmethod
    def forward(ctx, tensor):
        return tensor.clone()

    @staticmethod
    def backward(ctx, gradient):
        gradient = gradient.clone()
        dist.all_reduce(gradient)
        return gradient


@job(not_recognised("unknown_wrapper", 0))
def tensor_parallel():
    """Layers are parted between ranks: activations are summed, and never a gradient."""
    torch.manual_seed(1 + dist.get_rank())
    first, second = torch.nn.Linear(12, 10), torch.nn.Linear(10, 48)
    optimizer = sgd(torch.nn.ModuleList([first, second]))
    generator = torch.Generator(DEVICE).manual_seed(1)
    for _ in range(6):
        for _ in range(4):
            inputs = torch.randn(24, 12, generator=generator)
            hidden = first(SummedBackward.apply(inputs.requires_grad_())).relu()
            SummedForward.apply(second(hidden)).square().mean().backward()
        finish(optimizer)


@job(not_recognised("unwrapped_averaged_by_hand", also=("averaged_at_times",)))
def local_sgd_by_hand():
    """All ranks begin with the same parameters, and average them every third step."""
    model = make_equal()
    optimizer = sgd(model)
    for number, window in enumerate(windows(), 1):
        for _, inputs, targets in window:
            mse_loss(model(inputs), targets).backward()
        finish(optimizer)
        if number % 3 == 0:
            average(parameter.data for parameter in model.parameters())


@job(not_recognised("train_apart", 0, also=("replicas_drift",)))
def apart():
    """Ranks that train apart, from a seed that they share."""
    model = make_model()
    optimizer = sgd(model)
    dist.barrier()
    for window in windows():
        for _, inputs, targets in window:
            mse_loss(model(inputs), targets).backward()
        finish(optimizer)


if __name__ == "__main__":
    run()
