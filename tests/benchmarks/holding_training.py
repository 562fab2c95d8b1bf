"""A job that holds the tensors of its arguments: for tests of peaks of memory.

usage: holding_training.py [--window N] [--batch N] [--more BYTES] [--by-chance] [--on-a-thread]
                           [--own-allocator] [--steps N]

    --window N       micro-batches of a step, loaded together, as trainers do that count what is in
                     them first; all but the last under no_sync
    --batch N        rows of a micro-batch
    --more BYTES     a tensor that is held to the end, in addition
    --by-chance      one of another size in every process, in addition
    --on-a-thread    trains on a thread
    --own-allocator  puts its own allocator before what stands there: torch's

GRADSYNC_JOB_DEVICE=cuda has it train on GPUs, over NCCL.
"""

import argparse
import contextlib
import ctypes
import os
import random
import threading
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.functional import mse_loss
from torch.nn.parallel import DistributedDataParallel

WIDTH = 64
DEVICE = os.environ.get("GRADSYNC_JOB_DEVICE", "cpu")


def read_arguments():
    parser = argparse.ArgumentParser()
    for name, default in (("window", 2), ("batch", 8), ("more", 0), ("steps", 6)):
        parser.add_argument(f"--{name}", type=int, default=default)
    for name in ("by-chance", "on-a-thread", "own-allocator"):
        parser.add_argument(f"--{name}", action="store_true")
    return parser.parse_args()


def use_own_allocator():
    c10 = ctypes.CDLL(Path(torch.__file__).parent / "lib" / "libc10.so")
    torchs = c10._ZN3c1022GetDefaultCPUAllocatorEv
    torchs.restype = ctypes.c_void_p
    c10._ZN3c1015SetCPUAllocatorEPNS_9AllocatorEh(ctypes.c_void_p(torchs()), ctypes.c_uint8(0))


def train(told):
    torch.manual_seed(1)
    layers = [torch.nn.Linear(WIDTH, WIDTH), torch.nn.ReLU(), torch.nn.Linear(WIDTH, WIDTH)]
    model = DistributedDataParallel(torch.nn.Sequential(*layers).to(DEVICE))
    optimizer = torch.optim.Adam(model.parameters())
    for _ in range(told.steps):
        window = [torch.randn(told.batch, WIDTH, device=DEVICE) for _ in range(told.window)]
        for i, inputs in enumerate(window):
            is_last = i + 1 == told.window
            with contextlib.nullcontext() if is_last else model.no_sync():
                mse_loss(model(inputs), inputs).backward()
        optimizer.step()
        optimizer.zero_grad()


def main():
    told = read_arguments()
    if told.own_allocator:
        use_own_allocator()
    if DEVICE == "cuda":
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    held = [torch.empty(told.more, dtype=torch.uint8, device=DEVICE)]
    if told.by_chance:
        held.append(torch.empty(random.SystemRandom().randrange(1 << 30) >> 6, dtype=torch.uint8))
    torch.set_num_threads(1)
    dist.init_process_group("gloo" if DEVICE == "cpu" else "nccl")
    if told.on_a_thread:
        thread = threading.Thread(target=train, args=[told])
        thread.start()
        thread.join()
    else:
        train(told)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
