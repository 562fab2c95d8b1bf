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


def guarded(record):
    """The function, which does nothing once the hook is off, and turns it off rather than let an
    exception out.
    """

    @functools.wraps(record)
    def safe(*args, **kwargs):
        if not writer.is_on:
            return None
        try:
            return record(*args, **kwargs)
        except Exception as error:
            with contextlib.suppress(Exception):
                reason = f"{type(error).__name__}: {error}"
                writer.stop(f"the Python hook stopped in {record.__name__}: {reason}")
            return None

    return safe


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


def library_folders():
    """Folders whose code is not the job's own."""
    folders = [os.path.dirname(os.__file__), os.path.dirname(os.path.abspath(__file__))]
    folders += [p for p in sys.path if os.path.basename(p) in ("site-packages", "dist-packages")]
    folders.append(os.path.dirname(torch.__file__))
    return tuple(os.path.join(folder, "") for folder in folders)


@functools.cache
def is_library(file):
    if file.startswith("<"):  # frozen modules; what was given to python -c is the job's
        return file not in ("<string>", "<stdin>")
    return os.path.abspath(file).startswith(library_folders())


def call_site():
    """File and line of the innermost function of the job itself that led here."""
    frame = sys._getframe(1)
    while frame is not None:
        if not is_library(frame.f_code.co_filename):
            return {"file": frame.f_code.co_filename, "line": frame.f_lineno}
        frame = frame.f_back
    return {}


def write_span(kind, start_ns, **fields):
    span = {"start_ns": start_ns, "end_ns": now_ns(), "thread": threading.get_native_id()}
    writer.write(kind, **span, **fields)


# ---- what is recorded ------------------------------------------------------------------------


@guarded
def record_wrap(model, name, options):
    """`options`: those attributes of the model that it has."""
    values = {option: getattr(model, option) for option in options if hasattr(model, option)}
    detail = " ".join(f"{option}={str(value).lower()}" for option, value in values.items())
    gradients = [p for p in model.parameters() if p.requires_grad]
    is_whole = name == "DistributedDataParallel"  # of the others each rank has a share
    size = sum(p.numel() * p.element_size() for p in gradients) if is_whole else -1
    fields = {"name": name, "object": number_of(model), "bytes": size, "detail": detail}
    write_span("wrap", now_ns(), **fields, **call_site())
    if is_whole:
        kept_gradients.add(model)


def words_of(model, is_unsynced):
    words = [] if torch.is_grad_enabled() else ["no_grad"]
    words += [] if model.training else ["eval"]
    words += ["no_sync"] if is_unsynced(model) else []
    return " ".join(words)


@guarded
def begin_forward(model, is_unsynced):
    return {"start_ns": now_ns(), "detail": words_of(model, is_unsynced), **call_site()}


@guarded
def end_forward(model, name, begun):
    if begun is not None:
        write_span("forward", name=name, object=number_of(model), **begun)


@guarded
def begin_call():
    return {"start_ns": now_ns(), **call_site()}


@guarded
def end_call(kind, begun, **fields):
    if begun is not None:
        write_span(kind, **begun, **fields)


@guarded
def record_no_sync(kind, model):
    write_span(kind, now_ns(), object=number_of(model), **call_site())


@guarded
def record_flag(model, args, kwargs):
    value = args[0] if args else kwargs["requires_gradient_sync"]
    fields = {"object": number_of(model), "detail": "true" if value else "false"}
    write_span("sync", now_ns(), **fields, **call_site())


class KeptGradients:
    """What backward left of each model under DDP, to see whether the job changes it by hand before
    the next one: `p.grad = None`, `p.grad.zero_()`. Of each model one gradient is looked at, and
    not after an optimizer's step or a zero_grad(), which are seen themselves.
    """

    def __init__(self):
        self.models = weakref.WeakKeyDictionary()  # to what look() returned; None: nothing yet
        self.running = 0  # backwards, which may run others

    def add(self, model):
        self.models[model] = None

    @staticmethod
    def look(model):
        """Which tensor the first gradient is, and how often that was changed."""
        for parameter in model.parameters():
            if parameter.grad is not None:
                return id(parameter.grad), parameter.grad._version
        return None

    def before_backward(self):
        self.running += 1
        if self.running > 1:
            return
        kept = [(model, left) for model, left in self.models.items() if left is not None]
        if any(self.look(model) != left for model, left in kept):
            write_span("zero_grad", now_ns(), detail="by_hand")

    def forget(self):
        for model in list(self.models):
            self.models[model] = None

    def after_backward(self):
        self.running -= 1
        if self.running == 0:
            for model in list(self.models):
                self.models[model] = self.look(model)


kept_gradients = KeptGradients()


@guarded
def begin_backward():
    kept_gradients.before_backward()
    return begin_call()


@guarded
def end_backward(kind, begun):
    end_call(kind, begun)
    kept_gradients.after_backward()


@guarded
def end_clearing(kind, begun):
    end_call(kind, begun)
    kept_gradients.forget()


class OptimizerSteps(threading.local):
    """Steps of optimizers, between the two hooks that torch calls around each."""

    def __init__(self):
        self.begun = []
        self.count = 0

    def before(self, optimizer, args, kwargs):
        self.begun.append(begin_call())

    def after(self, optimizer, args, kwargs):
        self.count += 1
        begun = self.begun.pop()
        name, number = type(optimizer).__name__, number_of(optimizer)
        end_call("optimizer_step", begun, name=name, object=number)
        kept_gradients.forget()


optimizer_steps = OptimizerSteps()


@guarded
def record_skipped(begun, steps_before, args, kwargs):
    optimizer = args[0] if args else kwargs["optimizer"]
    is_watched = isinstance(optimizer, torch.optim.Optimizer)
    if is_watched and optimizer_steps.count == steps_before:
        fields = {"object": number_of(optimizer), "detail": "skipped"}
        end_call("optimizer_step", begun, name=type(optimizer).__name__, **fields)
