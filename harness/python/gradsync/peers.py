"""Puts together what the ranks of a job recorded, through the store of their
process group.

Rank 0 reads what the ranks of its host wrote, has it judged and sends the result to the others. No
rank waits for long: a rank that does not answer is left out, and the result says so.
"""

import contextlib
import json
import os
import socket
from datetime import timedelta
from pathlib import Path

FOLDER_S = 60  # until a rank must have ended its watching, too
ANSWER_S = FOLDER_S + 60  # until rank 0 must have judged


def this_host():
    """The same for processes that see each other's files."""
    boot = Path("/proc/sys/kernel/random/boot_id")
    return [socket.gethostname(), boot.read_text().strip() if boot.exists() else ""]


class Peers:
    """`number`: of this watching, the same on all ranks: the how manieth of its process."""

    def __init__(self, store, rank, world_size, number):
        self.store = store
        self.rank = rank
        self.world_size = world_size
        self.prefix = f"gradsync/watching/{number}"

    def put(self, name, value):
        self.store.set(f"{self.prefix}/{name}", json.dumps(value))

    def get(self, name, timeout_s):
        """Errors: whatever the store raises if no rank put it in time."""
        key = f"{self.prefix}/{name}"
        self.store.wait([key], timedelta(seconds=timeout_s))
        return json.loads(self.store.get(key))

    def tell_folder(self, folder):
        self.put(f"folder{self.rank}", {"host": this_host(), "folder": str(folder)})

    def gather(self, folder):
        """Links the files of all ranks of this host into `folder`.

        Returns sentences: who is missing.
        """
        unseen, elsewhere = [], 0
        for rank in range(self.world_size):
            if rank == self.rank:
                continue
            try:
                told = self.get(f"folder{rank}", FOLDER_S)
            except Exception:
                unseen.append(f"rank {rank} did not end its watching within {FOLDER_S} s")
                continue
            if told["host"] != this_host():
                elsewhere += 1
                continue
            for file in Path(told["folder"]).iterdir():
                with contextlib.suppress(FileExistsError):
                    os.symlink(file, Path(folder) / file.name)
        if elsewhere:
            unseen.append(f"{elsewhere} ranks are on other hosts, and were not read")
        return unseen

    def tell_outcome(self, outcome):
        """Returns when the others have it, or do not come for it."""
        self.put("outcome", outcome)
        for rank in range(1, self.world_size):
            with contextlib.suppress(Exception):
                self.get(f"read{rank}", FOLDER_S)

    def outcome(self):
        outcome = self.get("outcome", ANSWER_S)
        self.put(f"read{self.rank}", True)
        return outcome
