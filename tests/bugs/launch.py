"""Stands for torchrun: imports torch once, and forks the ranks of a job.

usage: launch.py RANKS SCRIPT [ARGUMENT]...
"""

import contextlib
import gc
import importlib
import os
import runpy
import signal
import socket
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
MODULES = ("torch", "torch._dynamo", "torch.distributed.fsdp")
LONGEST_S = 120  # of a job, for hangs alone


def import_torch():
    """What ranks have in common. No thread may be left: none would come along into a fork."""
    os.environ["OMP_NUM_THREADS"] = "1"
    gc.disable()
    for module in MODULES:
        importlib.import_module(module)
    gc.freeze()  # else each fork would go through all that was imported, and copy it
    gc.enable()


def free_port():
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        return bound.getsockname()[1]


def run_ranks(ranks, work, output=None):
    """Runs `work()` in so many forked processes, and returns the first status that is not 0."""
    place = {"WORLD_SIZE": ranks, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": free_port()}
    running = set()
    for rank in range(ranks):
        pid = os.fork()
        if pid == 0:
            os.environ.update({n: str(v) for n, v in place.items()} | {"RANK": str(rank)})
            os.environ["LOCAL_RANK"] = str(rank)
            if output:
                file = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
                os.dup2(file, 1)
                os.dup2(file, 2)
            be(work)
        running.add(pid)
    return end_of(running)


def be(work):
    """Does the work of a rank, and ends its process."""
    status = 1
    try:
        work()
        status = 0
    except SystemExit as ended:
        status = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def end_of(running):
    status, since = 0, time.monotonic()
    while running:
        for pid in list(running):
            ended, how = os.waitpid(pid, os.WNOHANG)
            if ended:
                running.discard(pid)
                status = status or os.waitstatus_to_exitcode(how)
        if status or time.monotonic() - since > LONGEST_S:
            for pid in running:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            for pid in running:
                os.waitpid(pid, 0)
            return status or 124
        time.sleep(0.01)
    return status


def last_of(output):
    """Returns the end of what a job wrote that says why it failed."""
    lines = output.read_text().splitlines()
    why = [line for line in lines if "Error" in line or "/jobs/" in line]
    return "\n".join((why or lines)[-4:])


def run_script(script, *arguments):
    """As Python would: what lies beside this file is not among what the script can import."""
    sys.argv = [str(script), *arguments]
    others = [each for each in sys.path[1:] if not each.startswith(str(HERE))]
    sys.path[:] = [str(Path(script).parent), *others]
    runpy.run_path(str(script), run_name="__main__")


def main():
    ranks, script, *arguments = int(sys.argv[1]), *sys.argv[2:]
    import_torch()
    sys.exit(run_ranks(ranks, lambda: run_script(script, *arguments)) != 0)


if __name__ == "__main__":
    main()
