"""A pipeline of torch's: two stages under 1F1B, each replicated over two ranks by DDP."""

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.pipelining import PipelineStage, Schedule1F1B
from torch.nn.functional import mse_loss
from torch.nn.parallel import DistributedDataParallel
from training import ACCUMULATION_STEPS, FEATURES, STEPS, batches, counted

STAGES = 2


def under_ddp(model, mesh):
    return DistributedDataParallel(model, process_group=mesh.get_group())


def make_stage(number, stages, mesh, wrap):
    torch.manual_seed(number)
    model = torch.nn.Linear(FEATURES, FEATURES if number < stages - 1 else 1)
    model = wrap(model, mesh["dp"])
    device = torch.device("cpu")
    return PipelineStage(model, number, stages, device, group=mesh["pp"].get_group())


def train(stages_of_each, schedule, wrap=under_ddp):
    """`stages_of_each` rank; `schedule` is made of them, `wrap` a model over a mesh."""
    mesh = init_device_mesh("cpu", (2, STAGES), mesh_dim_names=("dp", "pp"))
    place, count = mesh["pp"].get_local_rank(), STAGES * stages_of_each
    stages = [make_stage(place + STAGES * i, count, mesh, wrap) for i in range(stages_of_each)]
    pipeline = schedule(stages, ACCUMULATION_STEPS, mse_loss)
    parameters = [p for stage in stages for p in stage.submod.parameters()]
    optimizer = torch.optim.SGD(parameters, lr=0.01)
    for inputs, targets in batches(STEPS):
        is_last = place == STAGES - 1
        inputs = (inputs,) if place == 0 else ()
        pipeline.step(*inputs, target=targets if is_last else None)
        optimizer.step()
        optimizer.zero_grad()
    dist.barrier()


def one_f_one_b(stages, micro_batches, loss_of):
    return Schedule1F1B(stages[0], micro_batches, loss_of)


@counted
def main():
    train(1, one_f_one_b)


if __name__ == "__main__":
    main()
