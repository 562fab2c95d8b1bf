"""A process that has imported torch, from which a test program forks what it runs: it is imported
once for all of its jobs, not once for each.

usage: fork_server.py FOLDER      a test starts it, by ForkServer

A job's processes are as if they had been started: environment, arguments, folder and outputs are
those of who asks, and where that one is killed, they are. What is not so: what Python does at its
start, and torch while it is imported, was done in the environment in which the server was started.
The preloaded library and the hook of gradsync watch are a part of that, and keep what they see in
WATCHED, which is another folder in each job. The server ends with the program that started it.
"""

import atexit
import contextlib
import gc
import importlib
import json
import os
import random
import runpy
import select
import signal
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

VARIABLE = "GRADSYNC_FORK_SERVER"  # names the server's folder, for forked_ranks.py
WATCHED_FD = 200
WATCHED = f"/proc/self/fd/{WATCHED_FD}"  # the folder of the job that this process is of
MODULES = ("torch", "torch._dynamo", "torch.distributed.fsdp")
# What only counts while Python starts: the server's must be the job's.
AT_START = ("LD_PRELOAD", "PYTHONPATH", "GRADSYNC_WATCH_LIBRARY", "GRADSYNC_WATCH_TORCH")
MOST_BYTES = 1 << 20  # of a request
LOOK_S = 0.02
STARTED_WITHIN_S, MOST_S = 600, 1800  # for hangs alone


def import_torch():
    """What ranks have in common. No thread may be left: none would come along into a fork."""
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # as torchrun does; else an import starts threads
    gc.disable()
    for module in MODULES:
        importlib.import_module(module)
    gc.freeze()  # else each fork would go through all that was imported, and copy it
    gc.enable()
    assert len(os.listdir("/proc/self/task")) == 1, "a thread would not come along"


# ---- who asks --------------------------------------------------------------------------------


class ForkServer:
    """The server, for the length of this program."""

    def __init__(self, python, environment):
        """`environment`: in which a job that is not forked would be started."""
        self.folder = tempfile.TemporaryDirectory(prefix="gradsync_fork_")
        self.process = subprocess.Popen(
            [python, __file__, self.folder.name],
            env={name: str(value) for name, value in environment.items()},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        ready, _, _ = select.select([self.process.stdout], [], [], STARTED_WITHIN_S)
        if not ready or self.process.stdout.readline() != b"ready\n":
            raise AssertionError(f"{__file__} did not start in {python}")
        atexit.register(self.end)
        self.place = {VARIABLE: self.folder.name}  # for forked_ranks.py

    def end(self):
        self.process.communicate(timeout=STARTED_WITHIN_S)
        self.folder.cleanup()

    def run(self, script, *arguments, env, cwd=None, ranks=0):
        """Runs a script as subprocess.run() would: in a process, or in so many ranks."""
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            with open(os.devnull, "rb") as nothing:
                files = [file.fileno() for file in (nothing, out, err)]
                words = [str(word) for word in (script, *arguments)]
                status = ask(self.folder.name, ranks, words, files, env, cwd or os.getcwd())
            texts = [(file.seek(0), file.read().decode())[1] for file in (out, err)]
        return subprocess.CompletedProcess(words, status, *texts)


def ask(folder, ranks, words, files, environment, cwd):
    """Has the script and arguments `words` run by so many ranks, or without a place where `ranks`
    is 0, and returns their exit status when all have ended. `files`: the three standard ones.
    """
    request = {"ranks": ranks, "words": words, "environment": dict(environment), "cwd": str(cwd)}
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as server:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, MOST_BYTES)
        server.settimeout(MOST_S)
        server.connect(os.path.join(folder, "socket"))
        socket.send_fds(server, [json.dumps(request).encode()], files)
        answer = server.recv(MOST_BYTES)
    return json.loads(answer)["status"] if answer else 1


def ranks_of_a_job(ranks, script, arguments):
    """For forked_ranks.py, whose own environment, folder and outputs they have."""
    environment = {name: value for name, value in os.environ.items() if name != VARIABLE}
    words = [str(script), *arguments]
    return ask(os.environ[VARIABLE], ranks, words, (0, 1, 2), environment, os.getcwd())


# ---- the server ------------------------------------------------------------------------------


def serve(listener):
    """Returns in a forked process alone: what it has to become. The server ends with its input."""
    while True:
        readable, _, _ = select.select([listener, sys.stdin], [], [])
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG) != (0, 0):
                pass
        if sys.stdin in readable:
            os._exit(0)
        connection, _ = listener.accept()
        if os.fork() == 0:
            listener.close()
            return run_job(connection)
        connection.close()


def run_job(connection):
    """In a process that is a job's: returns in its ranks alone."""
    message, files, _, _ = socket.recv_fds(connection, MOST_BYTES, 3)
    request = json.loads(message)
    refuse_another_start(request["environment"], files)
    rank, pids = fork_ranks(max(1, request["ranks"]))
    if rank is not None:
        connection.close()
        return request, rank, files
    status = end_of(pids, connection)
    with contextlib.suppress(OSError):
        connection.send(json.dumps({"status": status}).encode())
    return os._exit(0)


def refuse_another_start(environment, files):
    for name in AT_START:
        got, expected = environment.get(name), os.environ.get(name)
        if got != expected:
            os.write(files[2], f"fork_server.py: {name}: got {got}, expected {expected}\n".encode())
            os._exit(1)


def fork_ranks(count):
    """Returns the rank in each of the processes, and in this one None and their ids."""
    pids = []
    for rank in range(count):
        pid = os.fork()
        if pid == 0:
            return rank, []
        pids.append(pid)
    return None, pids


def end_of(pids, *connection):
    """Returns the first status that is not 0 when all have ended. Ends what is left then, or when
    the other end of a connection is gone.
    """
    running, status = set(pids), 0
    while running:
        asked, _, _ = select.select(connection, [], [], LOOK_S)
        for pid in list(running):
            ended, how = os.waitpid(pid, os.WNOHANG)
            if ended:
                running.discard(pid)
                status = status or os.waitstatus_to_exitcode(how)
        if asked or status:
            for pid in running:
                os.kill(pid, signal.SIGKILL if asked else signal.SIGTERM)
            for pid in running:
                os.waitpid(pid, 0)
            return status or 1
    return status


def become(request, rank, files):
    """Makes this process the one that was asked for."""
    os.environ.clear()
    os.environ.update(request["environment"])
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    if request["ranks"]:
        take_place(rank, request["ranks"])
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    os.chdir(request["cwd"])
    random.seed()
    tempfile.tempdir = None  # it is that of TMPDIR, asked anew
    keep_what_is_watched()


def take_place(rank, ranks):
    """As torchrun gives it."""
    place = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": ranks}
    os.environ.update({name: str(value) for name, value in place.items()})
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")


def keep_what_is_watched():
    """Moves recordings to the folder that this job's environment names, which may not exist."""
    folder = os.environ.get("GRADSYNC_WATCH_DIR")
    if folder is None or "gradsync_watch_hook" not in sys.modules:
        return
    os.close(WATCHED_FD)
    with contextlib.suppress(FileNotFoundError):
        opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        os.dup2(opened, WATCHED_FD, inheritable=False)
        os.close(opened)
    account = sys.modules["gradsync_watch_account"]
    account.start(WATCHED, os.environ.get("GRADSYNC_WATCH_ACCOUNT", ""))


def run_script(script, *arguments):
    """As Python would, to the end of the interpreter."""
    sys.argv = [script, *arguments]
    sys.path[0] = str(Path(script).parent)
    runpy.run_path(script, run_name="__main__")


def main():
    folder = sys.argv[1]
    unasked = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    os.dup2(unasked, WATCHED_FD, inheritable=False)
    os.close(unasked)
    import_torch()
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listener.bind(os.path.join(folder, "socket"))
    listener.listen(64)
    os.write(1, b"ready\n")
    request, rank, files = serve(listener)
    become(request, rank, files)
    run_script(*request["words"])


if __name__ == "__main__":
    main()
