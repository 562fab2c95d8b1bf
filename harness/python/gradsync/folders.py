"""Temporary folders, all of which are removed: the next process removes those of a killed one.

The process that makes a folder locks it, as long as that process or a fork of it lives. Only the
standard library is used.
"""

import contextlib
import fcntl
import os
import shutil
import tempfile
from pathlib import Path

# A younger folder may have been made and not yet locked.
YOUNG_S = 60


class OwnFolder:
    """A new folder in the place for temporary ones, named PREFIX and letters."""

    def __init__(self, prefix):
        self.path = Path(tempfile.mkdtemp(prefix=prefix))
        self.lock = locked(self.path)
        remove_abandoned(self.path, prefix)

    def remove(self):
        """With all that is in it; a second time nothing happens."""
        shutil.rmtree(self.path, ignore_errors=True)
        if self.lock is not None:
            os.close(self.lock)
            self.lock = None


def locked(path):
    """Returns a descriptor that keeps the folder locked; None where somebody else has it, or where
    it cannot be locked.
    """
    try:
        lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(lock)
        return None
    return lock


def remove_abandoned(own, prefix):
    """Removes what this user's killed processes left beside the new folder `own`."""
    made = own.lstat()
    for path in own.parent.glob(f"{prefix}*"):
        with contextlib.suppress(OSError):
            other = path.lstat()
            is_old = made.st_mtime - other.st_mtime > YOUNG_S
            if other.st_uid != made.st_uid or not is_old:
                continue
            lock = locked(path)
            if lock is not None:
                shutil.rmtree(path, ignore_errors=True)
                os.close(lock)
