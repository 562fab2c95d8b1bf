"""Ranks that mpirun starts and that average past torch.distributed, here through files."""

import json
import os
import tempfile
import time
from pathlib import Path

import torch
from torch.nn.functional import mse_loss
from training import finish, make_model, sgd
from truths import job, not_recognised

RANK = int(os.environ["OMPI_COMM_WORLD_RANK"])
RANKS = int(os.environ["OMPI_COMM_WORLD_SIZE"])
# Ranks of one mpirun have one parent.
PLACE = Path(tempfile.gettempdir()) / f"gradsync_by_mpi_{os.getppid()}"


def average(number, model):
    def file_of(rank):
        return PLACE / f"{number}_{rank}.json"

    mine = [parameter.grad.tolist() for parameter in model.parameters()]
    written = file_of(RANK).with_suffix(".part")
    written.write_text(json.dumps(mine))
    written.rename(file_of(RANK))
    while not all(file_of(rank).exists() for rank in range(RANKS)):
        time.sleep(0.001)
    all_ranks = [json.loads(file_of(rank).read_text()) for rank in range(RANKS)]
    for parameter, *gradients in zip(model.parameters(), *all_ranks, strict=True):
        parameter.grad = sum(map(torch.tensor, gradients)) / RANKS


@job(not_recognised("processes_without_group", 0, why="OMPI_COMM_WORLD_SIZE=2"))
def by_mpi():
    torch.set_num_threads(1)
    torch.manual_seed(0)
    PLACE.mkdir(exist_ok=True)
    model = make_model()
    optimizer = sgd(model)
    generator = torch.Generator().manual_seed(1 + RANK)
    for number in range(6):
        inputs = torch.randn(8, 12, generator=generator)
        mse_loss(model(inputs), inputs.mean(1, keepdim=True)).backward()
        average(number, model)
        finish(optimizer)
    # Written without a newline of its own: mpirun mixes what ranks print.
    print(json.dumps({"rank": RANK, "collectives": {}}) + "\n", end="", flush=True)


if __name__ == "__main__":
    by_mpi()
