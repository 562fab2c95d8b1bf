"""The file of an account: account-PID.jsonl, as harness/watch/read/account_file.h has it. It is
made with its first line, so that a process without a step leaves none.
"""

import json
import math
import os
import sys
import threading

from gradsync_watch_sketch import BUCKETS

SCHEMA = "gradsync.watch_account/1"
MOST_BYTES = 256 * 2**20


def listed(tensor):
    """As JSON: a number that is not finite is null."""
    return [float(f"{x:.9g}") if math.isfinite(x) else None for x in tensor.tolist()]


class AccountFile:
    def __init__(self, folder, every, share):
        self.folder, self.every, self.share = folder, every, share
        self.lock = threading.Lock()
        self.file, self.written, self.knows_rank = None, 0, False

    def anew(self):
        """Returns the file of the child of a fork."""
        return AccountFile(self.folder, self.every, self.share)

    def write(self, kind, **fields):
        with self.lock:
            if self.file is None:
                self.open()
            if not self.knows_rank:
                self.write_rank()
            self.put({"kind": kind, **fields})

    def open(self):
        path = os.path.join(self.folder, f"account-{os.getpid()}.jsonl")
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        self.file = os.open(path, flags, 0o600)
        start = {"schema": SCHEMA, "pid": os.getpid(), "buckets": BUCKETS}
        self.put({"kind": "start", **start, "every": self.every, "share": self.share})

    def write_rank(self):
        distributed = sys.modules.get("torch.distributed")
        if distributed and distributed.is_available() and distributed.is_initialized():
            self.knows_rank = True
            place = {"rank": distributed.get_rank(), "world_size": distributed.get_world_size()}
            self.put({"kind": "rank", **place})

    @property
    def is_full(self):
        return self.written > MOST_BYTES

    def put(self, line):
        data = json.dumps(line, separators=(",", ":"), allow_nan=False).encode() + b"\n"
        self.written += len(data)
        while data and not self.is_full:
            data = data[os.write(self.file, data) :]
