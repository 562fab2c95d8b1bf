"""Starts a training script as a job of several ranks on this host, sooner than torchrun does.

usage: start_ranks.py COUNT SCRIPT [ARGUMENTS]      MASTER_PORT in the environment
"""

import os
import subprocess
import sys


def start(rank, count, words):
    places = {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(count)}
    environment = os.environ | places | {"MASTER_ADDR": "127.0.0.1", "OMP_NUM_THREADS": "1"}
    return subprocess.Popen([sys.executable, *words], env=environment)


if __name__ == "__main__":
    count = int(sys.argv[1])
    ranks = [start(rank, count, sys.argv[2:]) for rank in range(count)]
    sys.exit(max(rank.wait() for rank in ranks))
