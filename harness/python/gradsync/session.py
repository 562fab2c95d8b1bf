"""Watching a part of a process from within."""

import atexit
import contextlib
import ctypes
import importlib
import itertools
import logging
import os
import sys
from pathlib import Path

from gradsync import program
from gradsync.folders import OwnFolder
from gradsync.outcome import Watched
from gradsync.peers import Peers

# Without it a folder is none of a watched job's.
REACHED = "reached"
log = logging.getLogger("gradsync")
numbers = itertools.count()
NCCL_UNSEEN = "NCCL's own calls are not seen from within the process, only what c10d asked of it"


class Library:
    """The watcher's library in this process: it has torch call it back."""

    def __init__(self, path):
        self.native = ctypes.CDLL(path)
        self.native.gradsync_watch_open.argtypes = [ctypes.c_char_p, ctypes.c_char_p]
        self.native.gradsync_watch_open.restype = ctypes.c_bool

    def open(self, folder, torch_version):
        if not self.native.gradsync_watch_open(os.fsencode(folder), torch_version.encode()):
            raise program.Unwatchable("torch refused to be watched")

    def close(self):
        self.native.gradsync_watch_close()


class Environment:
    """Makes processes that are started meanwhile watched, as under `gradsync watch`."""

    def __init__(self, paths, folder, account):
        self.changes = {
            "GRADSYNC_WATCH_ACCOUNT": account,
            "GRADSYNC_WATCH_DIR": str(folder),
            "GRADSYNC_WATCH_LIBRARY": paths["watcher"],
            "GRADSYNC_WATCH_TORCH": paths["torch"],
            "GRADSYNC_WATCH_TORCH_VERSION": paths["version"],
            "LD_PRELOAD": self.before("LD_PRELOAD", paths["loader"]),
            "PYTHONPATH": self.before("PYTHONPATH", paths["hook"]),
        }
        self.kept = {}

    @staticmethod
    def before(name, first):
        rest = os.environ.get(name)
        return f"{first}:{rest}" if rest else first

    def set(self):
        self.kept = {name: os.environ.get(name) for name in self.changes}
        os.environ |= self.changes

    def restore(self):
        for name, value in self.kept.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


class Session:
    """One watching of this process."""

    running = None  # the one that has begun and not ended

    def __init__(self, account=""):
        if os.environ.get("GRADSYNC_WATCH_DIR"):
            raise program.Unwatchable("it is being watched already, from outside or around this")
        import_torch()
        paths = program.prepared()
        self.number = next(numbers)
        self.pid = os.getpid()
        self.own_folder = OwnFolder("gradsync_watching_")
        self.folder = str(self.own_folder.path)
        Path(self.folder, REACHED).touch()
        try:
            self.library = Library(paths["watcher"])
            self.hook = hook_of(paths["hook"])
            self.environment = Environment(paths, self.folder, account)
            self.library.open(self.folder, paths["version"])
        except BaseException:
            self.own_folder.remove()
            raise
        atexit.register(self.remove)  # for a watching that is never ended
        self.hook.begin(self.folder, account)
        self.environment.set()
        Session.running = self

    def end(self):
        """Nothing is recorded from here on."""
        Session.running = None
        self.environment.restore()
        self.place = self.hook.end()
        self.library.close()

    @property
    def rank(self):
        """The rank of this process; 0 without a group."""
        return self.hook.recording.writer.rank

    def look(self):
        """Returns what this process did so far, as JSON; {} if that is not known."""
        try:
            return program.seen(self.folder)
        except program.Unwatchable as error:
            log.warning("no report while the training runs: %s", error)
            return {}

    def drop(self):
        """Ends it without a word."""
        with contextlib.suppress(Exception):
            self.end()
        self.remove()

    def judge(self, watched):
        store, rank, world_size = self.place
        if store is None or world_size < 2:
            return watched.fill(*program.judged(self.folder), self.unseen())
        peers = Peers(store, rank, world_size, self.number)
        peers.tell_folder(self.folder)
        if rank != 0:
            return watched.fill(*self.told_by_rank_0(peers))
        unseen = peers.gather(self.folder)
        outcome = (*program.judged(self.folder), [*unseen, *self.unseen()])
        peers.tell_outcome(outcome)
        return watched.fill(*outcome)

    def told_by_rank_0(self, peers):
        try:
            return peers.outcome()
        except Exception:
            alone = f"rank 0 did not tell what all ranks did: this is of rank {peers.rank} alone"
            return (*program.judged(self.folder), [alone, *self.unseen()])

    def unseen(self):
        distributed = sys.modules.get("torch.distributed")
        if distributed is None or not distributed.is_available():
            return []
        if distributed.is_initialized() and "nccl" in distributed.get_backend():
            return [NCCL_UNSEEN]
        return []

    def remove(self):
        atexit.unregister(self.remove)
        if self.pid == os.getpid():
            self.own_folder.remove()


def import_torch():
    """The library stands on torch's own, which must be in the process by then."""
    try:
        importlib.import_module("torch")
    except ImportError as error:
        raise program.Unwatchable(f"there is no torch: {error}") from error


def hook_of(folder):
    """The Python hook, from where the watcher has it."""
    if folder not in sys.path:
        sys.path.append(folder)
    import gradsync_watch_hook

    return gradsync_watch_hook


@contextlib.contextmanager
def watching(account=False, every=10, sample=1.0):
    """Watches how this process synchronizes gradients; the result at the end is a Watched.

    Collective where the process is a rank of a group: every rank enters it, in the same order; at
    the end all wait for each other, for two minutes at most. Models that were wrapped before are
    watched as well; processes that are started meanwhile are watched as under `gradsync watch`.

    `account`: also reports how much every micro-batch of every rank weighs in the gradient that the
    optimizer reads (`Watched.account`), for the first two of every `every` steps and for the share
    `sample` of the parameters.

    Errors of the watcher never reach the training: `Watched.unseen` and a warning of the logger
    "gradsync" say what is not known. An exception of the training passes through.
    """
    watched = Watched()
    session = begun(watched, account_spec(account, every, sample))
    try:
        yield watched
    finally:
        # In the child of a fork that left the block by itself: the parent reports.
        if session is not None and session.pid == os.getpid():
            conclude(session, watched)


def account_spec(account, every, sample):
    """Returns it as Session takes it: "" where none is wanted."""
    return f"{every} {sample}" if account else ""


def begun(watched, account=""):
    try:
        return Session(account)
    except Exception as error:
        give_up(watched, error)
        return None


def conclude(session, watched):
    try:
        session.end()
        session.judge(watched)
    except Exception as error:
        give_up(watched, error)
    finally:
        session.remove()


def give_up(watched, error):
    why = (
        str(error) if isinstance(error, program.Unwatchable) else f"{type(error).__name__}: {error}"
    )
    watched.unseen = (*watched.unseen, why)
    log.warning("the training is not watched: %s", why)
