"""The job of no_sync.py, which starts its ranks itself: torch.multiprocessing forks them."""

import os
import threading

import no_sync
import torch.multiprocessing

RANKS = 2


def run_rank(rank):
    os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(RANKS)}
    no_sync.main()


if __name__ == "__main__":
    # The watcher comes with torch's first thread: here before the ranks are forked.
    thread = threading.Thread()
    thread.start()
    thread.join()
    torch.multiprocessing.start_processes(run_rank, nprocs=RANKS, start_method="fork")
