"""Stands for torchrun where many training scripts are run: imports torch once, and forks the ranks.

usage: forked_ranks.py RANKS SCRIPT [ARGUMENT]...      MASTER_PORT in the environment

Each rank finds its place in the environment as torchrun gives it, and runs the script as Python
would, to the end of the interpreter. A rank that fails ends the others, and the exit status is 1.

Nothing runs before the fork but imports: threads would not come along, and torch refuses autograd
in a process whose parent has used it.
"""

import gc
import importlib
import os
import runpy
import signal
import sys
from pathlib import Path

os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
os.environ.setdefault("OMP_NUM_THREADS", "1")  # as torchrun does; else an import starts threads
gc.disable()
for module in ("torch", "torch._dynamo", "torch.distributed.fsdp"):
    importlib.import_module(module)
gc.freeze()  # else each rank would go through all that was imported, and copy it
gc.enable()


def run_rank(rank, ranks, script, arguments):
    os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(ranks)}
    sys.argv = [script, *arguments]
    sys.path[0] = str(Path(script).parent)
    runpy.run_path(script, run_name="__main__")


def end_well(ranks):
    """Returns whether all of these processes do. What is left after a failure is ended."""
    running = set(ranks)
    while running:
        pid, status = os.wait()
        running.discard(pid)
        if status != 0:
            for other in running:
                os.kill(other, signal.SIGTERM)
            for other in running:
                os.waitpid(other, 0)
            return False
    return True


def main():
    count, script, *arguments = int(sys.argv[1]), *sys.argv[2:]
    assert len(os.listdir("/proc/self/task")) == 1, "a thread would not come along"
    ranks = []
    for rank in range(count):
        child = os.fork()
        if child == 0:
            return run_rank(rank, count, script, arguments)
        ranks.append(child)
    # Nothing of its own is left to do, and to take all modules apart takes long.
    os._exit(0 if end_well(ranks) else 1)


if __name__ == "__main__":
    main()
