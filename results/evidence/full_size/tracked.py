#!/usr/bin/env python3
"""Prints what torch's FSDPMemTracker says that a rank of a job holds at most, as JSON.

    results/evidence/full_size/tracked.py '{"model": "gpt2_xl", "ranks": 8, "accumulation_steps": 1,
                                   "strategy": "no_sync", "dtypes": ["float32", "float32"]}'

All tensors are fake and so is the process group, which makes one process rank 0 of any number.
Tracked are the micro-batches of the second step, which find moments, as every later one's do, and
not the optimizer: DTensor asks what shapes its operation gives with tensors of whole parameters,
and the tracker takes these for the rank's. It refuses a second forward unless it is told to forget
what it noted of modules; that leaves its account and its peak alone.
"""

import json
import sys

import architectures
import torch
import torch.distributed as dist
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.distributed._tools.fsdp2_mem_tracker import FSDPMemTracker
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.testing._internal.distributed.fake_pg import FakeStore


def sharded(name, model, mesh, dtypes):
    """Returns the model, sharded as a user does it, except for the mesh that all calls share."""
    policy = MixedPrecisionPolicy(*(getattr(torch, dtype) for dtype in dtypes))
    for module in model.modules():
        if type(module).__name__ == architectures.UNITS[name]:
            fully_shard(module, mesh=mesh, mp_policy=policy)
    return fully_shard(model, mesh=mesh, mp_policy=policy)


def run_micro_batches(model, batch, loss_of, accumulation_steps, strategy, before_forward):
    for i in range(accumulation_steps):
        before_forward()
        is_last = i == accumulation_steps - 1
        model.set_requires_gradient_sync(is_last or strategy != "no_sync")
        loss = loss_of(model, batch) / accumulation_steps
        loss.backward()


def peak_of(cell):
    """Returns {category: bytes} at the peak, the sum as "Total"."""
    mesh = init_device_mesh("cpu", (cell["ranks"],))
    with FakeTensorMode(allow_non_fake_inputs=True):
        model, batch, loss_of = getattr(architectures, cell["model"])()
        model = sharded(cell["model"], model.train(), mesh, cell["dtypes"])
        optimizer = torch.optim.AdamW(model.parameters(), fused=True)
        job = model, batch, loss_of, cell["accumulation_steps"], cell["strategy"]
        run_micro_batches(*job, before_forward=lambda: None)
        optimizer.step()
        optimizer.zero_grad()
        tracker = FSDPMemTracker(model, optimizer)
        tracker.track_inputs((batch,))
        with tracker:
            run_micro_batches(*job, before_forward=tracker.reset_mod_stats)
        (snapshot,) = tracker.get_tracker_snapshot("peak").values()
    return {str(getattr(name, "value", name)): held for name, held in snapshot.items()}


def main():
    cells = [json.loads(argument) for argument in sys.argv[1:]]
    if len(cells) != 1:
        sys.exit(__doc__)
    (cell,) = cells
    dist.init_process_group("fake", rank=0, world_size=cell["ranks"], store=FakeStore())
    print(json.dumps(peak_of(cell)))


if __name__ == "__main__":
    main()
