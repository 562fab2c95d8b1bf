"""The file in which the Python hook of gradsync watch keeps what it sees of one process: a line of
JSON for each event, in fields of harness/watch/read/event.h. Only the standard library is used.
"""

import contextlib
import ctypes
import json
import os
import sys
import threading

SCHEMA = "gradsync.watch_hook/1"
# Variables that give a process the size of its job where the job does not use torch's c10d: those
# of Open MPI, of MPICH and its kin, and of an srun step.
PEERS = ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS")
# Libraries by which the processes of such a job communicate.
TRANSPORTS = ("horovod", "mpi4py")
# Lines kept in memory until so many are there, or an optimizer steps. Larger: fewer system calls,
# and more is lost when the process is killed.
LINES_AT_ONCE = 64
# A job of 50 lines a step writes so much in some 7000 steps.
MOST_BYTES = 64 * 2**20


def look_for_torch():
    """Where the preloaded library is there and no thread's start has told it of torch yet."""
    with contextlib.suppress(AttributeError, OSError):
        ctypes.CDLL(None).gradsync_watch_look_for_torch()


class Writer:
    """The file of this process, opened by its first event."""

    def __init__(self, folder):
        self.folder = folder
        self.lock = threading.RLock()
        self.lines = []
        self.file = None
        self.written = 0
        self.is_on = True
        self.knows_rank = False
        self.forget_told()
        # As its process group says, which may be gone later; no store: it never had a group.
        self.rank, self.world_size, self.store = 0, 1, None

    def forget_told(self):
        """What is told once in a file: process groups, by name and role, and how many there were
        when they were last looked through; models by number.
        """
        self.group_count, self.groups, self.models = 0, set(), set()

    def write(self, kind, **fields):
        with self.lock:
            if not self.is_on:
                return
            if self.file is None:
                self.open()
            if not self.knows_rank:
                self.write_rank()
            self.add({"kind": kind, **fields})
            if kind == "optimizer_step" or len(self.lines) >= LINES_AT_ONCE:
                self.flush()

    def open(self):
        path = os.path.join(self.folder, f"hook-{os.getpid()}.jsonl")
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        self.file = os.open(path, flags, 0o600)
        if os.fstat(self.file).st_size == 0:
            version = ".".join(map(str, sys.version_info[:3]))
            self.add({"kind": "start", "schema": SCHEMA, "pid": os.getpid(), "python": version})
        look_for_torch()

    def write_rank(self):
        distributed = sys.modules.get("torch.distributed")
        if distributed and distributed.is_available() and distributed.is_initialized():
            self.knows_rank = True
            self.rank, self.world_size = distributed.get_rank(), distributed.get_world_size()
            with contextlib.suppress(Exception):
                self.store = distributed.distributed_c10d._get_default_store()
            self.add({"kind": "rank", "rank": self.rank, "world_size": self.world_size})

    def write_peers(self):
        """Writes that a process without a process group may still be one of several."""
        named = [f"{name}={os.environ[name]}" for name in PEERS if os.environ.get(name, "1") != "1"]
        named += [name for name in TRANSPORTS if name in sys.modules]
        with self.lock:
            if named and self.is_on and self.file is not None and not self.knows_rank:
                self.add({"kind": "peers", "detail": ", ".join(named)})

    def add(self, line):
        self.lines.append(json.dumps(line, separators=(",", ":"), allow_nan=False) + "\n")

    def flush(self):
        with self.lock:
            if self.file is None or not self.lines:
                return
            data = "".join(self.lines).encode()
            self.lines = []
            if self.written + len(data) > MOST_BYTES:
                self.is_on = False
                sentence = f"the Python hook stopped after {self.written} bytes"
                data = json.dumps({"kind": "full", "sentence": sentence}).encode() + b"\n"
            while data:
                count = os.write(self.file, data)
                self.written += count
                data = data[count:]

    def fault(self, sentence):
        with self.lock:
            if self.file is None:
                self.open()
            self.add({"kind": "fault", "sentence": sentence})
            self.flush()

    def stop(self, sentence):
        """Ends the hook: what it saw so far is kept, and why it ends."""
        with self.lock:
            if self.is_on:
                self.is_on = False
                self.fault(sentence)

    def forget(self):
        """In the child of a fork: the parent's lines are the parent's."""
        self.lock = threading.RLock()
        self.lines = []
        self.file = None
        self.written = 0
        self.knows_rank = False
        self.forget_told()
