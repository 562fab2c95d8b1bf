"""Mixed precision: scales and rounding that differ between ranks or micro-batches."""

import torch
import torch.distributed as dist
from torch.nn.functional import mse_loss
from training import (
    average,
    ddp,
    end_step,
    finish,
    follow,
    gradients_of,
    loss_of,
    make_net,
    note,
    run,
    sgd,
    steps,
)
from truth import DRIFT, DROPPED, FACTOR, UNEQUAL, UNREAD, bug, by_rank, read_by, times


@bug(
    "https://github.com/pytorch/pytorch/issues/136009",
    2024,
    DRIFT,
    weights=read_by(by_rank((1,), (2,)), by_rank((1 / 2,), (1,))),
    drifts=("",),
)
def scales_of_each_rank(is_fixed):
    """Each rank's gradient scaler has another scale: scaled gradients are averaged, and each rank
    divides by its own.
    """
    model = ddp()
    optimizer = sgd(model)
    scale = 2.0 ** (10 + (0 if is_fixed else dist.get_rank()))
    scaler = torch.amp.GradScaler("cpu", init_scale=scale)
    for [batch] in steps(micro_batches=1):
        note(batch)
        scaler.scale(mse_loss(model(batch.inputs), batch.targets)).backward()  # bug
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
        end_step()


@bug(
    "https://github.com/OpenBMB/BMTrain/pull/41",
    2022,
    FACTOR,
    weights={"0": times(1), "2": times(4)},
    reductions=(4, 4),
)
def scales_of_each_optimizer(is_fixed):
    """One loss is scaled by the first optimizer's scale; the second divides by its own."""
    net = follow(make_net())
    first, second = sgd(net[0]), sgd(net[2])
    scale, other = 1024.0, 1024.0 if is_fixed else 256.0
    for step in steps():
        for batch in step:
            (loss_of(net, batch) * scale / batch.count).backward()
        average(net)
        for part, by in ((net[0], scale), (net[2], other)):
            for gradient in gradients_of(part):
                gradient.div_(by)  # bug
        finish(first, second)


@bug(
    "https://github.com/ecmwf/WeatherGenerator/issues/2724",
    2026,
    UNEQUAL,
    weights=times(1),
    sometimes=(by_rank((1,), (50,)),),
    reductions=(4, 4),
)
def a_spike_that_rank_0_does_not_see(is_fixed):
    """Steps whose loss is a spike are skipped, as rank 0 decides: another rank's spikes go in."""
    net = follow(make_net())
    optimizer = sgd(net)
    for number, step in enumerate(steps()):
        spike = 50 if dist.get_rank() == 1 and number % 3 == 2 else 1
        is_bad = torch.tensor(float(spike > 1))
        if is_fixed:
            dist.all_reduce(is_bad)
        else:
            dist.broadcast(is_bad, 0)
        for batch in step:
            (loss_of(net, batch) * spike / batch.count).backward()
        average(net)
        if is_bad:
            optimizer.zero_grad()
            end_step()
        else:
            finish(optimizer)


@bug(
    "https://github.com/deepspeedai/DeepSpeed/issues/1800",
    2022,
    (DROPPED, UNEQUAL),
    weights=UNREAD,
    right={"weights": UNREAD},
    reductions=(1, 1),
)
def accumulated_in_sixteen_bits(is_fixed):
    """Gradients of 40 micro-batches are added up in bfloat16, which rounds small ones away."""
    net = follow(make_net().bfloat16())
    optimizer = sgd(net)
    for step in steps(count=3, micro_batches=40):
        wide = [torch.zeros(parameter.shape) for parameter in net.parameters()]
        for batch in step:
            outputs = net(batch.inputs.bfloat16())
            # Its targets are far away: all gradients point one way.
            loss = mse_loss(outputs.float(), batch.targets / 8 + 3) / batch.count
            loss.backward()
            for mine, parameter in zip(wide, net.parameters(), strict=True):
                if is_fixed:
                    mine.add_(parameter.grad)
                    parameter.grad = None
        flat = torch.cat(
            [
                (mine if is_fixed else parameter.grad.float()).flatten()
                for mine, parameter in zip(wide, net.parameters(), strict=True)
            ]
        )
        dist.all_reduce(flat)
        parts = (flat / dist.get_world_size()).split([p.numel() for p in net.parameters()])
        for parameter, part in zip(net.parameters(), parts, strict=True):
            parameter.grad = part.view_as(parameter).bfloat16()
        finish(optimizer)


if __name__ == "__main__":
    run()
