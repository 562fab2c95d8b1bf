"""Starts one launch, of gradsync or of a peer, and returns its blocks in one form:

{"blocks": [{"strategy": ..., "round": ..., "step_s": [slowest rank, per step],
             "rank_recompute_s": [[what ran again, per step], one per rank]}, ...],
 "collectives": {strategy: {operation: {"count": ..., "bytes": ...}}}}     of a step
"""

import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from network import die_with_parent, private_network, read_topology

HERE = Path(__file__).resolve().parent
PACKAGE = HERE.parents[1] / "harness" / "python"
# layers, hidden, heads, intermediate: as in models/suite.cpp
BERT = {
    "bert_tiny": (2, 128, 2, 512),
    "bert_mini": (4, 256, 4, 1024),
    "bert_base": (12, 768, 12, 3072),
}
# Has glibc keep what was freed (mallopt(3)). Else whether a step of FSDP gives its buffers back to
# the kernel, and faults them in again, depends on what happens to lie above them in the heap.
KEPT_MEMORY = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(2**34)}


class LaunchError(Exception):
    """A launch that gave no result; the message ends with what it printed."""


@dataclass(frozen=True)
class Work:
    """What both sides do."""

    topology: str  # a file
    model: str
    wrapper: str
    reshard_after_forward: bool  # fsdp only
    strategies: tuple
    accumulation_steps: int
    micro_batch_size: int
    sequence_length: int
    steps: int
    warmup_steps: int
    rounds: int
    seed: int
    timeout_s: int  # of a collective
    launch_timeout_s: int


def recompute_s(rank):
    """Returns, for each step of a rank of a trial, how long units ran again."""
    return rank["phase_s"].get("recompute", [0.0] * len(rank["step_s"]))


def run_ours(work, program, launch, other_cells, watch=()):
    """One `gradsync run` of one launch; `launch` changes the seed, and so the order of blocks.
    `other_cells` are fields of the plan's cells that differ from the work, `watch` is what the
    command is given to, as its last words."""
    plan = {
        "schema": "gradsync.plan/1",
        "name": "peers",
        "cells": {
            "topology": [work.topology],
            "model": [work.model],
            "wrapper": [work.wrapper],
            "reshard_after_forward": [work.reshard_after_forward],
            "strategy": list(work.strategies),
            "accumulation_steps": [work.accumulation_steps],
            "micro_batch_size": [work.micro_batch_size],
            "sequence_length": [work.sequence_length],
        }
        | other_cells,
        "steps": work.steps,
        "warmup_steps": work.warmup_steps,
        "rounds": work.rounds,
        "launches": 1,
        "seed": work.seed + launch,
        "timeout_s": work.timeout_s,
    }
    with tempfile.TemporaryDirectory(prefix="gradsync_peers_") as folder:
        file, out = Path(folder) / "peers.json", Path(folder) / "run"
        file.write_text(json.dumps(plan))
        command = [*watch, program, "run", file, "--out", out, "--quiet"]
        _call(command, work, os.environ | {"GRADSYNC_PYTHON": "false"})  # no plots
        trials = [json.loads(line) for line in (out / "trials.jsonl").read_text().splitlines()]
    return {
        "blocks": [
            {
                "cell": trial["cell"],
                "strategy": trial["cell"]["strategy"],
                "round": trial["round"],
                "step_s": trial["step_s"],
                "rank_step_s": [rank["step_s"] for rank in trial["ranks"]],
                "rank_recompute_s": [recompute_s(rank) for rank in trial["ranks"]],
            }
            for trial in trials
        ],
        "collectives": {trial["cell"]["strategy"]: trial["ledger"]["per_step"] for trial in trials},
    }


def run_peer(
    work,
    peer,
    attention,
    launch,
    watch=(),
    checkpointing=False,
    recording=None,
    program=None,
    **more,
):
    """One launch of `peer` by the running interpreter, in a network of its own. `watch`: as
    run_ours. `checkpointing`: layers keep no activations and run again. `recording` (recording.py)
    names a way to record: each block runs twice, once recorded and once not, which the block's
    "recorded" says, in a process that keeps its memory; `program`: gradsync, where that needs it;
    `more`: what else it is made with."""
    specification = {
        "peer": peer,
        "bert": BERT[work.model],
        "attention": attention,
        "topology": work.topology,
        "wrapper": work.wrapper,
        "reshard_after_forward": work.reshard_after_forward,
        "strategies": work.strategies,
        "accumulation_steps": work.accumulation_steps,
        "micro_batch_size": work.micro_batch_size,
        "sequence_length": work.sequence_length,
        "steps": work.steps,
        "warmup_steps": work.warmup_steps,
        "rounds": work.rounds,
        "seed": work.seed,
        "launch": launch,
        "checkpointing": checkpointing,
        "recording": recording,
        "recording_options": more,
        "timeout_s": work.timeout_s,
        "launch_timeout_s": work.launch_timeout_s,
        "parent": None if watch else os.getpid(),
    }
    start = [sys.executable, HERE / "launch.py", json.dumps(specification)]
    environment = {
        "TORCH_CPP_LOG_LEVEL": "ERROR",  # no warning that addresses have no names
        "PATH": os.environ.get("PATH", "") + ":/usr/sbin:/sbin",  # ip and tc
    }
    if recording:
        environment |= KEPT_MEMORY
    if program:
        environment |= {"GRADSYNC_PROGRAM": str(program), "PYTHONPATH": str(PACKAGE)}
    command = [*watch, *private_network(), *start]
    return json.loads(_call(command, work, os.environ | environment))


def world_size(work):
    return read_topology(work.topology).world_size


def turns(count, sides):
    """Yields (launch, side), forth in even launches, back in odd ones. Prints each on stderr."""
    for launch in range(count):
        for side in sides if launch % 2 == 0 else reversed(sides):
            print(f"launch {launch + 1}/{count} | {side}", file=sys.stderr)
            yield launch, side


def _call(command, work, environment):
    """Returns what it printed. It ends with us. Errors: LaunchError with its last line."""
    parent = os.getpid()
    try:
        done = subprocess.run(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=work.launch_timeout_s,
            preexec_fn=lambda: die_with_parent(parent),
        )
    except subprocess.TimeoutExpired as error:
        name = Path(command[0]).name
        raise LaunchError(f"{name} took longer than {work.launch_timeout_s} s") from error
    if done.returncode != 0:
        said = [line for line in (done.stderr or done.stdout).splitlines() if line.strip()]
        last = said[-1] if said else "it printed nothing"
        raise LaunchError(f"{command[0]} ended with status {done.returncode}: {last}")
    return done.stdout
