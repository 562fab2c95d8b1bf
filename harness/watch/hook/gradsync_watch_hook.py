"""Sees from inside Python what the native library cannot: which model ran, under which no_sync, and
from which line of the job.

It waits for torch's own modules to be imported and then stands around a few of their functions:
forwards and no_sync of wrapped models, torch.autograd.backward, optimizers, GradScaler.step. Each
call becomes a line in $GRADSYNC_WATCH_DIR/hook-<process id>.jsonl (gradsync_watch_writer.py). Times
are of CLOCK_MONOTONIC, in nanoseconds.

Two rules: nothing here changes what the job computes, and nothing that goes wrong here reaches it.
The first exception ends the hook with a line that says so; the job's functions go on without it.
Only the standard library is used, and torch only once the job has imported it.
"""

import atexit
import contextlib
import functools
import importlib.machinery
import itertools
import os
import sys
import threading
import time
import weakref

from gradsync_watch_writer import Writer


def now_ns():
    return time.monotonic_ns()


writer = None
torch = None  # once the job imports it


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


# ---- which object, and which line ------------------------------------------------------------

numbers = weakref.WeakKeyDictionary()
numbers_lock = threading.Lock()
next_number = itertools.count(1)


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


class Depth(threading.local):
    """How many calls of a kind this thread is in: of nested ones the outermost counts."""

    value = 0


depth = Depth()


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


# ---- how torch is made to tell -----------------------------------------------------------------


def is_passed_by():
    """Whether a call goes straight to torch: the hook is off, or a compiler is tracing."""
    return not writer.is_on or torch.compiler.is_compiling()


def standing_for(original):
    """Makes the decorated function look like `original`, and torch.compile pass over it, though not
    over what it calls.
    """

    def decorate(function):
        with contextlib.suppress(AttributeError):
            torch._C._dynamo.eval_frame.skip_code(function.__code__)
        return functools.wraps(original)(function)

    return decorate


def watch_forward(cls, name, is_unsynced):
    original = cls.forward

    @standing_for(original)
    def forward(self, *args, **kwargs):
        if is_passed_by() or depth.value > 0:
            return original(self, *args, **kwargs)
        begun = begin_forward(self, is_unsynced)
        depth.value += 1
        try:
            return original(self, *args, **kwargs)
        finally:
            depth.value -= 1
            end_forward(self, name, begun)

    cls.forward = forward


def watch_no_sync(cls):
    original = cls.no_sync

    @functools.wraps(original)
    @contextlib.contextmanager
    def no_sync(self):
        with original(self):
            record_no_sync("no_sync_enter", self)
            try:
                yield
            finally:
                record_no_sync("no_sync_leave", self)

    cls.no_sync = no_sync


def watch_init(cls, name, options):
    original = cls.__init__

    @standing_for(original)
    def init(self, *args, **kwargs):
        original(self, *args, **kwargs)
        record_wrap(self, name, options)

    cls.__init__ = init


def watch_ddp(module):
    cls = module.DistributedDataParallel
    name = "DistributedDataParallel"
    watch_init(cls, name, ("find_unused_parameters", "static_graph", "broadcast_buffers"))
    watch_forward(cls, name, lambda model: not model.require_backward_grad_sync)
    watch_no_sync(cls)


def watch_fsdp(module):
    cls = module.FullyShardedDataParallel
    name = "FullyShardedDataParallel"
    watch_init(cls, name, ("sharding_strategy",))
    watch_forward(cls, name, lambda model: False)  # FSDP reads its flag in backward
    watch_no_sync(cls)


def watch_fully_shard(module):
    original = module.fully_shard

    @standing_for(original)
    def fully_shard(*args, **kwargs):
        result = original(*args, **kwargs)
        for model in result if isinstance(result, list) else [result]:
            record_wrap(model, "fully_shard", ())
        return result

    module.fully_shard = fully_shard
    cls = module.FSDPModule
    original_flag = cls.set_requires_gradient_sync

    @standing_for(original_flag)
    def set_requires_gradient_sync(self, *args, **kwargs):
        record_flag(self, args, kwargs)
        return original_flag(self, *args, **kwargs)

    cls.set_requires_gradient_sync = set_requires_gradient_sync


def watch_fsdp_state(module):
    """Forwards of fully_shard's root: FSDP's own hooks around them know which module that is."""
    cls = module.FSDPState
    before, after = cls._pre_forward, cls._post_forward
    begun = weakref.WeakKeyDictionary()

    @guarded
    def keep_root(state, start):
        if state._state_ctx.iter_forward_root is state and state not in begun:
            begun[state] = start

    @guarded
    def end_root(state, args):
        if state._state_ctx.iter_forward_root is not state and state in begun:
            end_forward(args[0], "fully_shard", begun.pop(state))

    @standing_for(before)
    def pre_forward(self, *args, **kwargs):
        if is_passed_by():
            return before(self, *args, **kwargs)
        start = begin_forward(args[0], lambda model: False)
        result = before(self, *args, **kwargs)
        keep_root(self, start)
        return result

    @standing_for(after)
    def post_forward(self, *args, **kwargs):
        result = after(self, *args, **kwargs)
        end_root(self, args)
        return result

    cls._pre_forward, cls._post_forward = pre_forward, post_forward


def watch_calls(owner, name, kind, begin=begin_call, end=end_call):
    """Records calls of a function of a module or a class."""
    original = getattr(owner, name)
    inside = Depth()

    @standing_for(original)
    def watched(*args, **kwargs):
        if is_passed_by() or inside.value > 0:
            return original(*args, **kwargs)
        begun = begin()
        inside.value += 1
        try:
            return original(*args, **kwargs)
        finally:
            inside.value -= 1
            end(kind, begun)

    setattr(owner, name, watched)


def watch_autograd(module):
    watch_calls(module, "backward", "backward", begin_backward, end_backward)


def watch_modules(module):
    watch_calls(module.Module, "zero_grad", "zero_grad", end=end_clearing)


def watch_optimizers(module):
    watch_calls(module.Optimizer, "zero_grad", "zero_grad", end=end_clearing)
    module.register_optimizer_step_pre_hook(guarded(optimizer_steps.before))
    module.register_optimizer_step_post_hook(guarded(optimizer_steps.after))


def watch_grad_scaler(module):
    cls = module.GradScaler
    original = cls.step

    @standing_for(original)
    def step(self, *args, **kwargs):
        steps = optimizer_steps.count
        begun = begin_call()
        result = original(self, *args, **kwargs)
        record_skipped(begun, steps, args, kwargs)
        return result

    cls.step = step


WATCHED = {
    "torch.amp.grad_scaler": watch_grad_scaler,
    "torch.autograd": watch_autograd,
    "torch.distributed.fsdp._fully_shard._fsdp_state": watch_fsdp_state,
    "torch.distributed.fsdp._fully_shard._fully_shard": watch_fully_shard,
    "torch.distributed.fsdp.fully_sharded_data_parallel": watch_fsdp,
    "torch.nn.modules.module": watch_modules,
    "torch.nn.parallel.distributed": watch_ddp,
    "torch.optim.optimizer": watch_optimizers,
}


class Finder:
    """Finds the modules of WATCHED as Python would, and has each watched once it has run."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        watch = WATCHED.get(name)
        if watch is None:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is None or spec.loader is None:
            return None
        execute = spec.loader.exec_module

        def exec_module(module):
            global torch
            execute(module)
            try:
                torch = sys.modules["torch"]
                watch(module)
            except Exception as error:
                reason = f"{type(error).__name__}: {error}"
                with contextlib.suppress(Exception):
                    writer.fault(f"the Python hook cannot watch {name}: {reason}")

        spec.loader.exec_module = exec_module
        return spec


def start():
    """Begins to watch this process; nothing happens where gradsync watch did not ask for it."""
    global writer
    folder = os.environ.get("GRADSYNC_WATCH_DIR")
    if not folder or writer is not None:
        return
    writer = Writer(folder)
    os.register_at_fork(after_in_child=writer.forget)
    atexit.register(guarded(writer.flush))
    sys.meta_path.insert(0, Finder)
