"""Lets one process be rank 0 of a world whose others are absent (GRADSYNC_PAPER_WORLD): NCCL of
paper answers for them, and what would wait for them elsewhere does not.
"""

import os
import sys

WORLD, REAL, GPUS = "GRADSYNC_PAPER_WORLD", "GRADSYNC_PAPER_REAL", "GRADSYNC_PAPER"


def is_worker():
    """Returns whether this is a worker: a launcher has the same variables, except its rank."""
    return WORLD in os.environ and "RANK" in os.environ and "WORLD_SIZE" in os.environ


def begin():
    """Call before the job reads its environment. Errors: SystemExit where it is one of several."""
    if not is_worker():
        return
    if os.environ["WORLD_SIZE"] != "1":
        sys.stderr.write(
            "gradsync: with --world the command starts one process, which is rank 0; this one "
            f"starts {os.environ['WORLD_SIZE']}\n"
        )
        sys.exit(1)  # which says nothing by itself this early
    world = os.environ[WORLD]
    gpus = os.environ[GPUS].partition("x")[0]
    node = min(int(gpus) if gpus.isdigit() else 1, int(world))
    os.environ.update(WORLD_SIZE=world, LOCAL_WORLD_SIZE=str(node))


def watch_rendezvous(module):
    """`module`: torch.distributed.rendezvous. Rank 0's store waits for the other ranks."""
    if not is_worker():
        return
    store = module.TCPStore

    def alone(*args, **kwargs):
        return store(*args, **kwargs | {"wait_for_workers": False})

    module.TCPStore = alone


def watch_groups(module):
    """`module`: torch.distributed.distributed_c10d. gloo would connect to the absent ranks: torch's
    own "fake" backend, which moves nothing, takes its place.
    """
    if not is_worker():
        return
    original = module._new_process_group_helper

    def new_group(size, rank, ranks, backend, *args, **kwargs):
        import torch.testing._internal.distributed.fake_pg  # noqa: F401 (registers it)

        name = str(backend) if backend else "undefined"
        name = "cpu:gloo,cuda:nccl" if name == "undefined" else name
        return original(size, rank, ranks, name.replace("gloo", "fake"), *args, **kwargs)

    module._new_process_group_helper = new_group
