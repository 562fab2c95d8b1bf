"""What is done on ranks: a whole test, or one function."""

import contextlib
import json
import os
import pickle
import sys

from gradsync import program
from gradsync.folders import OwnFolder
from gradsync.testing import crew


class FunctionError(Exception):
    """A function that cannot be sent to ranks: a sentence."""


class RanksFailed(Exception):
    """Ranks that a function failed on; `outcome` has what each said."""

    def __init__(self, outcome):
        super().__init__(failure_text(outcome))
        self.outcome = outcome


@contextlib.contextmanager
def folder_for(task, call):
    """A folder with what ranks are to do, which is gone at the end."""
    own = OwnFolder("gradsync_ranks_")
    folder = own.path
    try:
        known = {"sys_path": [path or os.getcwd() for path in sys.path], "waits_for_network": False}
        (folder / "task.json").write_text(json.dumps(known | task))
        (folder / "call.pickle").write_bytes(call)
        yield folder
    finally:
        own.remove()


def prepare_watcher():
    """Has the watcher's library built before several ranks ask for it."""
    with contextlib.suppress(program.Unwatchable):
        program.prepared()


def run_test(options, test, request):
    """`options`, `test`: as run_test() of rank_plugin.py takes them. Returns the Outcome."""
    prepare_watcher()
    task = {"kind": "test", "test": test, "timeout_s": request.timeout_s}
    with folder_for(task, pickle.dumps(options)) as folder:
        return crew.Crew(folder, request.ranks).run(request.timeout_s)


def pickled_function(function, args, kwargs):
    """Returns (module of the function, call). Errors: FunctionError."""
    name = getattr(function, "__qualname__", repr(function))
    if "<locals>" in name or "<lambda>" in name:
        raise FunctionError(f"{name} is inside of another function: ranks find only a module's own")
    try:
        call = pickle.dumps((function, args, kwargs))
    except Exception as error:
        raise FunctionError(f"{name} and its arguments cannot be sent to ranks: {error}") from None
    module = sys.modules[function.__module__]
    return {"name": module.__name__, "file": getattr(module, "__file__", None)}, call


def run_function(function, args, kwargs, size, timeout_s, run=None):
    """Returns what function(rank, *args, **kwargs) returned on each of `size` ranks.

    `run`: takes (folder, size, timeout_s) and returns the Outcome; without one, ranks of this
    process. Errors: FunctionError, RanksFailed.
    """
    module, call = pickled_function(function, args, kwargs)
    task = {"kind": "function", "module": module, "timeout_s": timeout_s}
    task["waits_for_network"] = run is not None
    with folder_for(task, call) as folder:
        outcome = (run or run_here)(folder, size, timeout_s)
        if outcome.first is not None:
            raise RanksFailed(outcome)
        return [
            pickle.loads((folder / f"rank{number}.pickle").read_bytes()) for number in range(size)
        ]


def run_here(folder, size, timeout_s):
    return crew.Crew(folder, size).run(timeout_s)


def failure_text(outcome):
    """Returns the failure of the first rank that failed, and how the others ended."""
    of = len(outcome.ranks)
    first, *others = outcome.failed
    lines = [f"[rank {first.number}/{of}] {said_of(first)}"]
    lines += [f"[rank {rank.number}/{of}] {rank.end}" for rank in others if rank.end]
    return "\n".join(lines)


def said_of(rank):
    return rank.end or rank.said["failure"].rstrip()


def sections_of(outcome):
    """Yields (title, text) of what each rank printed, and of tracebacks but the first one."""
    failed = outcome.failed
    for rank in outcome.ranks:
        if rank.has_failed and rank is not failed[0] and rank.end is None:
            yield f"traceback of rank {rank.number}", said_of(rank)
        for title, text in (rank.said or {}).get("sections", ()):
            yield f"{title} of rank {rank.number}", text
        if rank.out:
            yield f"stdout of rank {rank.number}", rank.out
        if rank.err:
            yield f"stderr of rank {rank.number}", rank.err
