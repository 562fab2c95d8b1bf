"""gradsync equal: whether the gradient depends on how the samples are split.

It runs the jobs for which that is the question (`pair` in their truth), each with three splits.
Where the loss depends on a micro-batch as a whole, there are two splits, over ranks alone.
"""

import os
import subprocess

import launch
from checkers.gradsync import PROGRAM, PYTHON, how_to_launch
from truth import OF_RANKS, SPLIT

MICRO_BATCHES, SIZE = 4, 8


def check(job, is_fixed):
    if not job.pair:
        return "passed over", ""
    launcher, server = how_to_launch()
    kept = {n: v for n, v in os.environ.items() if not n.startswith(("LD_PRELOAD", "BUGS_"))}
    place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(launch.free_port())}
    count = 1 if job.pair == OF_RANKS else MICRO_BATCHES
    split = ("--ranks", "2", "--micro-batches", count, "--micro-batch-size", SIZE)
    words = (PYTHON, launcher, "{ranks}", job.script, *job.words(is_fixed))
    done = subprocess.run(
        [str(word) for word in (PROGRAM, "equal", *split, "--", *words)],
        env=kept | place | {"OMP_NUM_THREADS": "1"} | server,
        capture_output=True,
        text=True,
        timeout=600,
    )
    said = " ".join(done.stdout.split("\n\n")[-1].split())
    if done.returncode not in (0, 1):
        return "failed", (done.stdout + done.stderr)[-600:]
    if is_fixed:
        return ("accused" if done.returncode else "quiet"), said
    if done.returncode == 0 or SPLIT not in job.findings:
        return "silent", said
    return "named", said
