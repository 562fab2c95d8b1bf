"""Runs a training script under torch.profiler, from when it has a process group until it gives it
up, and writes the trace of its rank.

usage: profiled_rank.py PLACE HOW SCRIPT [ARGUMENT]...      started once per rank

PLACE.RANK.json is the trace. HOW says with words what else it is to hold: "shapes", "stack", and
what the GPU ran: "cuda"; "plain" has none.
"""

import os
import runpy
import sys

import torch
import torch.distributed as dist
from torch.profiler import ProfilerActivity, profile


def main():
    place, how, script, *arguments = sys.argv[1:]
    profiler = profile(
        activities=[ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if "cuda" in how else [])],
        record_shapes="shapes" in how,
        with_stack="stack" in how,
    )
    init, destroy = dist.init_process_group, dist.destroy_process_group

    def init_process_group(*args, **kwargs):
        init(*args, **kwargs)
        profiler.start()

    def destroy_process_group(*args, **kwargs):
        profiler.stop()
        rank = dist.get_rank()
        profiler.export_chrome_trace(f"{place}.{rank}.json")
        destroy(*args, **kwargs)

    dist.init_process_group = init_process_group
    dist.destroy_process_group = destroy_process_group
    torch.distributed.init_process_group = init_process_group
    sys.argv = [script, *arguments]
    sys.path[0] = os.path.dirname(script)
    runpy.run_path(script, run_name="__main__")


if __name__ == "__main__":
    main()
