"""One rank of a test. crew.py starts it: main([FOLDER, process that it must not outlive]).

What it does is in FOLDER/task.json and FOLDER/call.pickle, what it has to say goes to
FOLDER/rankN.json; see crew.py. Its allocator is made right after torch was imported, before
there is a tensor.
"""

import contextlib
import faulthandler
import importlib
import importlib.util
import json
import os
import pickle
import sys
import traceback
from datetime import timedelta
from pathlib import Path

from gradsync import network
from gradsync.testing import crew
from gradsync.testing.memory import TensorMemory

# Like pytest's own: frames of these files say nothing of the test.
__tracebackhide__ = True


def main(arguments):
    folder, parent = Path(arguments[0]), int(arguments[1])
    network.die_with_parent(parent)
    faulthandler.register(crew.ASK_FOR_DUMP)
    pipe = keep_standard_input()
    task = json.loads((folder / "task.json").read_text())
    del sys.argv[1:]
    if task["waits_for_network"]:
        os.read(pipe, 1)
    said = {"failure": None}
    try:
        said |= do(folder, task)
    except BaseException:
        said["failure"] = traceback.format_exc()
    tell(folder, said)
    os.read(pipe, 1)  # until all ranks have said what they have to say
    # A gloo process that ends as Python ends may abort in torch's own clearing up.
    os._exit(0)


def keep_standard_input():
    """Returns the pipe to the starting process, which a test must not read."""
    pipe = os.dup(0)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    return pipe


def tell(folder, said):
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            stream.flush()
    file = folder / f"rank{os.environ['RANK']}.json"
    temporary = file.with_suffix(".tmp")
    temporary.write_text(json.dumps(said))
    temporary.rename(file)


def do(folder, task):
    import torch.distributed as dist

    memory = TensorMemory()
    dist.init_process_group(
        "gloo",
        init_method=f"file://{folder / 'store'}",
        rank=int(os.environ["RANK"]),
        world_size=int(os.environ["WORLD_SIZE"]),
        timeout=timedelta(seconds=task["timeout_s"]),
    )
    call = (folder / "call.pickle").read_bytes()
    if task["kind"] == "test":
        from gradsync.testing.rank_plugin import run_test

        return run_test(pickle.loads(call), task["test"], folder, memory)
    return run_function(task, call, folder)


def run_function(task, call, folder):
    load_module(**task["module"])
    function, args, kwargs = pickle.loads(call)
    result = function(int(os.environ["RANK"]), *args, **kwargs)
    file = folder / f"rank{os.environ['RANK']}.pickle"
    file.write_bytes(pickle.dumps(result))
    return {}


def load_module(name, file):
    """Has a function's module where pickle looks for it, also where its name alone leads nowhere:
    pytest has other ways to import a test.
    """
    with contextlib.suppress(ImportError):
        found = importlib.import_module(name)
        if getattr(found, "__file__", None) == file:
            return
    spec = importlib.util.spec_from_file_location(name, file)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
