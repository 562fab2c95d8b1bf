"""Pipelines: one stage by itself, whose micro-batches come as 1F1B has them, F F B F B F B B, and
torch's own. What the stage would be sent by others is made up: who reduces when is the same.
"""

from contextlib import nullcontext

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleInterleaved1F1B
from torch.nn.functional import mse_loss
from torch.nn.parallel import DistributedDataParallel
from training import (
    ACCUMULATION_STEPS,
    DEVICE,
    FEATURES,
    STEPS,
    batches,
    finish,
    make_model,
    run,
    sgd,
    windows,
)
from truths import job, never, not_recognised, once, too_early

WARM_UP = 1  # forwards before the first that a backward follows
STAGES = 2
LAST = ACCUMULATION_STEPS - 1


def train(forward, is_fixed):
    """Runs `forward(model, number, inputs)` of micro-batches, numbered from 0, and their backwards
    in the order of 1F1B; fixed, these as torch.distributed.pipelining has them: the reducer is
    armed before the last one, and the others are under no_sync.
    """

    def backward(model, number, loss):
        if is_fixed and number == LAST:
            model.reducer.prepare_for_backward([])
        with model.no_sync() if is_fixed and number != LAST else nullcontext():
            loss.backward()

    model = DistributedDataParallel(make_model())
    optimizer = sgd(model)
    for window in windows():
        losses = []
        for number, (_, inputs, targets) in enumerate(window):
            losses.append(mse_loss(forward(model, number, inputs), targets))
            if number >= WARM_UP:
                backward(model, number - WARM_UP, losses[number - WARM_UP])
        for number in range(len(window) - WARM_UP, len(window)):
            backward(model, number, losses[number])
        finish(optimizer)


@job(too_early("armed_early", synchronized=3), fixed=once())
def one_f_one_b(is_fixed):
    """1F1B without no_sync: each backward takes what the forward before it has armed, so that
    nothing is left for the last one; fixed, with every forward under it.
    """

    def forward(model, number, inputs):
        with model.no_sync() if is_fixed else nullcontext():
            return model(inputs)  # to change

    train(forward, is_fixed)


@job(too_early("armed_early"), fixed=once())
def one_f_one_b_last_forward(is_fixed):
    """no_sync around all micro-batches but the last, as without a pipeline: its forward arms the
    backward that comes next, which is the one before.
    """

    def forward(model, number, inputs):
        with nullcontext() if number == LAST and not is_fixed else model.no_sync():
            return model(inputs)  # to change

    train(forward, is_fixed)


@job(never("no_sync_around_forward"), fixed=once())
def one_f_one_b_never(is_fixed):
    """Every forward is under no_sync, and nothing arms the last backward."""

    def forward(model, number, inputs):
        with model.no_sync():  # to change
            return model(inputs)

    train(forward, is_fixed)


# ---- torch's ---------------------------------------------------------------------------------


def under_ddp(model, mesh):
    return DistributedDataParallel(model, process_group=mesh.get_group())


def make_stage(number, stages, mesh, wrap):
    torch.manual_seed(number)
    model = torch.nn.Linear(FEATURES, FEATURES if number < stages - 1 else 1)
    model = wrap(model, mesh["dp"])
    device = torch.device(DEVICE)
    return PipelineStage(model, number, stages, device, group=mesh["pp"].get_group())


def train_stages(stages_of_each, schedule, wrap=under_ddp):
    """`stages_of_each` rank; `schedule` is made of them, `wrap` a model over a mesh."""
    mesh = init_device_mesh(DEVICE, (2, STAGES), mesh_dim_names=("dp", "pp"))
    place, count = mesh["pp"].get_local_rank(), STAGES * stages_of_each
    stages = [make_stage(place + STAGES * i, count, mesh, wrap) for i in range(stages_of_each)]
    pipeline = schedule(stages, ACCUMULATION_STEPS, mse_loss)
    parameters = [p for stage in stages for p in stage.submod.parameters()]
    optimizer = torch.optim.SGD(parameters, lr=0.01)
    for inputs, targets in batches(STEPS):
        is_last = place == STAGES - 1
        inputs = (inputs,) if place == 0 else ()
        pipeline.step(*inputs, target=targets if is_last else None)
        finish(optimizer)
    dist.barrier()


def of_one_stage(stages, micro_batches, loss_of):
    return Schedule1F1B(stages[0], micro_batches, loss_of)


@job(once(), ranks=4, torch="2.8")
def pipelining():
    """Two stages under 1F1B, each replicated over two ranks by DDP."""
    train_stages(1, of_one_stage)


@job(not_recognised("averaged_by_hand"), ranks=4, torch="2.11")
def pipelining_fsdp():
    """Stages that are sharded: the pipeline reduces by itself, behind all backwards."""
    from torch.distributed.fsdp import fully_shard

    train_stages(1, of_one_stage, lambda model, mesh: fully_shard(model, mesh=mesh))


@job(not_recognised("models_take_turns", synchronized=1), ranks=4, torch="2.8")
def pipelining_interleaved():
    """Ranks have two stages each, which take turns."""
    train_stages(2, ScheduleInterleaved1F1B)


if __name__ == "__main__":
    run()
