"""What the Python hook of gradsync watch records of a process, each call of the job as a line of
gradsync_watch_writer.py's file. Times are of CLOCK_MONOTONIC, in nanoseconds.

Nothing that goes wrong here reaches the job: the first exception ends the hook with a line that
says so, and the functions below do nothing from then on. gradsync_watch_hook.py has them called.
"""

import contextlib
import functools
import itertools
import os
import sys
import threading
import time
import weakref

# Both are set by gradsync_watch_hook.py: from start() on, and once the job has imported torch.
writer = None
torch = None


def now_ns():
    return time.monotonic_ns()


class Unobserved(threading.local):
    """While it is entered, torch's observers see no operator of this thread: what the hook computes
    is neither in a profile of the job's nor in what the preloaded library counts.
    """

    depth = 0

    def __enter__(self):
        self.depth += 1
        self.let_observe(False)

    def __exit__(self, *_):
        self.depth -= 1
        self.let_observe(self.depth == 0)

    @staticmethod
    def let_observe(wanted):
        if "torch.autograd" in sys.modules:  # in whole, once there is something to observe
            getattr(sys.modules["torch.autograd"], "_enable_record_function", bool)(wanted)


unobserved = Unobserved()


def guard(is_on, stop):
    """Returns a decorator: the function does nothing unless `is_on()`, and calls `stop(function,
    error)` rather than let an exception out. Torch's observers do not see what it computes.
    """

    def guarded(record):
        @functools.wraps(record)
        def safe(*args, **kwargs):
            if not is_on():
                return None
            try:
                with unobserved:
                    return record(*args, **kwargs)
            except Exception as error:
                with contextlib.suppress(Exception):
                    stop(record, error)
                return None

        return safe

    return guarded


def words_of(error):
    return f"{type(error).__name__}: {error}"


def stop_hook(record, error):
    writer.stop(f"the Python hook stopped in {record.__name__}: {words_of(error)}")


guarded = guard(lambda: writer.is_on, stop_hook)


def is_passed_by():
    """Whether a call goes straight to torch: the hook is off, or a compiler is tracing."""
    return not writer.is_on or torch.compiler.is_compiling()


# ---- which object, and which line ------------------------------------------------------------

numbers = weakref.WeakKeyDictionary()
numbers_lock = threading.Lock()
next_number = itertools.count(1)


def forget_parent():
    """In the child of a fork: no thread of the parent's is there to give the lock back."""
    global numbers_lock
    numbers_lock = threading.Lock()
    writer.forget()


def number_of(thing):
    """A number for a model or an optimizer, from 1. Unlike id(), none is given twice."""
    with numbers_lock:
        if thing not in numbers:
            numbers[thing] = next(next_number)
        return numbers[thing]


def package_folders():
    return [p for p in sys.path if os.path.basename(p) in ("site-packages", "dist-packages")]


def library_folders():
    """Folders whose code is not the job's own."""
    folders = [os.path.dirname(os.__file__), os.path.dirname(os.path.abspath(__file__))]
    folders += package_folders()
    folders.append(os.path.dirname(torch.__file__))
    return tuple(os.path.join(folder, "") for folder in folders)


@functools.cache
def is_library(file):
    if file.startswith("<"):  # frozen modules; what was given to python -c is the job's
        return file not in ("<string>", "<stdin>")
    return os.path.abspath(file).startswith(library_folders())


@functools.cache
def place_in_library(file):
    """The file below the folder that its library is installed in, "ignite/engine/__init__.py"; ""
    of the job's own, the standard library's, torch's and the hook's.
    """
    own = tuple(os.path.join(os.path.dirname(f), "") for f in (torch.__file__, __file__))
    folders = [os.path.join(folder, "") for folder in package_folders()]
    folder = next((f for f in folders if os.path.abspath(file).startswith(f)), None)
    if folder is None or os.path.abspath(file).startswith(own):
        return ""
    return os.path.abspath(file).removeprefix(folder)


def call_sites():
    """File and line of the innermost function of the job itself that led here, and of the innermost
    one of a library between it and torch, if there is one.
    """
    inside, frame = {}, sys._getframe(1)
    while frame is not None:
        file = frame.f_code.co_filename
        if not is_library(file):
            return {"file": file, "line": frame.f_lineno, **inside}
        if not inside and (place := place_in_library(file)):
            inside = {"inside": place, "inside_line": frame.f_lineno}
        frame = frame.f_back
    return inside


def call_site():
    """The job's own alone."""
    sites = call_sites()
    return {name: sites[name] for name in ("file", "line") if name in sites}


def write_span(kind, start_ns, **fields):
    span = {"start_ns": start_ns, "end_ns": now_ns(), "thread": threading.get_native_id()}
    writer.write(kind, **span, **fields)


# ---- what is recorded ------------------------------------------------------------------------


class Count:
    """How often something was recorded."""

    count = 0
    is_of_evaluation = False  # of the last forward: the model was in that mode


forwards, uses = Count(), Count()  # forwards with a gradient; uses of gradients between backwards


@guarded
def begin_call():
    return {"start_ns": now_ns(), **call_sites()}


@guarded
def end_call(kind, begun, **fields):
    if begun is not None:
        write_span(kind, **begun, **fields)


@guarded
def record_no_sync(kind, model):
    write_span(kind, now_ns(), object=number_of(model), **call_site())


@guarded
def record_comm_hook(model):
    write_span("comm_hook", now_ns(), object=number_of(model), **call_site())


@guarded
def record_flag(model, name, args, kwargs):
    value = args[0] if args else kwargs[name.removeprefix("set_")]
    fields = {"name": name, "object": number_of(model), "detail": "true" if value else "false"}
    write_span("sync", now_ns(), **fields, **call_site())


@guarded
def record_use(how):
    uses.count += 1
    write_span("gradient_use", now_ns(), detail=how, **call_sites())


def local(tensor):
    """What this rank has of it, without asking others."""
    return getattr(tensor, "_local_tensor", tensor)


class GpuPeak:
    """The most that this process's tensors held on its GPU, and that torch reserved for them, by
    torch's own statistics: asked where an optimizer steps, before the job resets them, and at the
    end.
    """

    def __init__(self):
        self.bytes = 0
        self.reserved_bytes = 0
        self.unknown = None

    def look(self):
        """Returns it as fields of an event; none where no GPU is in use, or it is not known."""
        cuda = sys.modules.get("torch.cuda")
        if self.unknown or cuda is None or not cuda.is_initialized():
            return {}
        try:
            self.bytes = max(self.bytes, cuda.max_memory_allocated())
            self.reserved_bytes = max(self.reserved_bytes, cuda.max_memory_reserved())
        except Exception as error:  # an allocator of the job's own has no statistics
            self.unknown = f"torch has no statistics of its GPU: {type(error).__name__}: {error}"
            return {}
        return {"bytes": self.bytes}

    @guarded
    def before_reset(self):
        self.look()

    def write(self):
        fields = self.look()
        if fields and not self.unknown:
            cuda = sys.modules["torch.cuda"]
            used = [i for i in range(cuda.device_count()) if cuda.max_memory_allocated(i)]
            if len(used) > 1:
                self.unknown = f"its tensors are on {len(used)} GPUs"
        if fields:
            fields["reserved_bytes"] = self.reserved_bytes
        if self.unknown:
            fields = {"bytes": -1, "sentence": self.unknown}
        if fields:
            writer.write("gpu_peak", **fields)


gpu_peak = GpuPeak()
