"""Ranks of a test: processes that are started, waited for and ended together.

    folder/task.json, call.pickle   what they do (rank.py)
    folder/rank0.json               what the first one has to say, whole once it is there
    folder/rank0.out, rank0.err     what it printed

A rank that has said its last word waits until all have, so that none leaves a peer in the middle of
a collective; then its pipe is closed. Every wait has a deadline, and nothing outlives run(): each
rank leads a process group of its own, which is killed at the end, and dies with this process.
"""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

POLL_S = 0.02
LEAVE_S = 5  # what the others have once a rank has failed: to fail as well, or to be stopped
DUMP_S = 0.5  # to write where they are, before they are killed
ASK_FOR_DUMP = signal.SIGUSR1
# Imports the same modules as the starting process would, each under its own name.
BEGIN = """
import json, pathlib, sys
sys.path[:] = json.loads(pathlib.Path(sys.argv[1], "task.json").read_text())["sys_path"]
from gradsync.testing import {module}
{module}.main(sys.argv[1:])
"""


@dataclass
class Rank:
    """What became of one."""

    number: int
    said: dict | None = None  # its last word; None: it had none
    end: str | None = None  # how it ended without: a sentence
    out: str = ""
    err: str = ""

    @property
    def has_failed(self):
        return self.end is not None or (self.said or {}).get("failure") is not None


@dataclass
class Outcome:
    ranks: list = field(default_factory=list)
    first: int | None = None  # the one that failed first; None: none did

    @property
    def failed(self):
        """Those that failed, the first cause first."""
        failed = [rank for rank in self.ranks if rank.has_failed]
        return sorted(failed, key=lambda rank: (rank.number != self.first, rank.number))


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def python(module, folder, *arguments):
    """Returns the command for a module of this folder with `folder`, our pid and `arguments`."""
    begin = BEGIN.format(module=module)
    return [sys.executable, "-c", begin, *map(str, (folder, os.getpid(), *arguments))]


def environment(number, size):
    """Returns the environment of a rank, as torchrun sets it; without GPUs."""
    return {
        "OMP_NUM_THREADS": "1",
        "MASTER_ADDR": "127.0.0.1",
        **os.environ,
        "CUDA_VISIBLE_DEVICES": "",
        "RANK": str(number),
        "LOCAL_RANK": str(number),
        "WORLD_SIZE": str(size),
        "LOCAL_WORLD_SIZE": str(size),
    }


class Crew:
    def __init__(self, folder, size, more_environment=None, in_child=None):
        """`in_child`: called in each new process before it is a rank."""
        self.folder = Path(folder)
        self.ranks = [Rank(number) for number in range(size)]
        self.first = None
        self.processes = []
        # What a killed rank leaves goes with the folder.
        more = {"MASTER_PORT": str(free_port()), "TMPDIR": str(folder), **(more_environment or {})}
        try:
            for rank in self.ranks:
                self.start(rank, environment(rank.number, size) | more, in_child)
        except BaseException:
            self.end()
            raise

    def start(self, rank, variables, in_child):
        with (
            open(self.file(rank, "out"), "wb") as out,
            open(self.file(rank, "err"), "wb") as err,
        ):
            self.processes.append(
                subprocess.Popen(
                    python("rank", self.folder),
                    stdin=subprocess.PIPE,
                    stdout=out,
                    stderr=err,
                    env=variables,
                    preexec_fn=in_child,
                    start_new_session=True,
                )
            )

    def file(self, rank, kind):
        return self.folder / f"rank{rank.number}.{kind}"

    def let_go(self):
        """Tells ranks that wait for their network that it is there."""
        for process in self.processes:
            with contextlib.suppress(BrokenPipeError):
                process.stdin.write(b"\n")
                process.stdin.flush()

    def run(self, timeout_s):
        """Returns the Outcome, when all ranks are gone."""
        try:
            self.wait(timeout_s)
            self.release()
        finally:
            self.end()
        for rank in self.ranks:
            rank.out = self.file(rank, "out").read_text(errors="replace")
            rank.err = self.file(rank, "err").read_text(errors="replace")
        return Outcome(self.ranks, self.first)

    def wait(self, timeout_s):
        until = time.monotonic() + timeout_s
        why_late = f"did not end within {timeout_s:g} s"
        while unfinished := [rank for rank in self.ranks if not self.is_finished(rank)]:
            if self.first is None and (failed := [r for r in self.ranks if r.has_failed]):
                # Who died made the others fail, not the other way round.
                self.first = min(failed, key=lambda rank: rank.end is None).number
                until = min(until, time.monotonic() + LEAVE_S)
                why_late = f"was still running {LEAVE_S} s after rank {self.first} had failed"
            if time.monotonic() > until:
                return self.give_up(unfinished, why_late)
            time.sleep(POLL_S)
        if self.first is None and (failed := [r for r in self.ranks if r.has_failed]):
            self.first = min(failed, key=lambda rank: rank.end is None).number

    def is_finished(self, rank):
        if rank.said is not None or rank.end is not None:
            return True
        status = self.processes[rank.number].poll()  # before the file: it may write and end
        with contextlib.suppress(FileNotFoundError):
            rank.said = json.loads(self.file(rank, "json").read_text())
            return True
        if status is not None:
            rank.end = ended_by(status)
        return status is not None

    def give_up(self, unfinished, why):
        for rank in unfinished:
            rank.end = why
            self.signal(rank, ASK_FOR_DUMP)
        if self.first is None:
            self.first = unfinished[0].number
        time.sleep(DUMP_S)

    def release(self):
        until = time.monotonic() + LEAVE_S
        for rank, process in zip(self.ranks, self.processes, strict=True):
            with contextlib.suppress(BrokenPipeError):
                process.stdin.close()
            if rank.end is None:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(max(0, until - time.monotonic()))

    def end(self):
        """Kills what is left, children of ranks included."""
        for rank, process in zip(self.ranks, self.processes, strict=False):
            self.signal(rank, signal.SIGKILL)
            process.wait()
            with contextlib.suppress(BrokenPipeError):
                process.stdin.close()

    def signal(self, rank, number):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.processes[rank.number].pid, number)


def ended_by(status):
    if status < 0:
        with contextlib.suppress(ValueError):
            return f"was killed by {signal.Signals(-status).name}"
    return f"ended with exit status {status} before the test did"
