"""Has torch tell gradsync watch what the native library cannot see: which model ran, under which
no_sync, and from which line of the job.

It waits for torch's own modules to be imported and then stands around a few of their functions:
forwards and no_sync of wrapped models, torch.autograd.backward, optimizers, GradScaler.step. Each
call is recorded by gradsync_watch_recording.py, _models.py and _between.py.

Two rules: nothing here changes what the job computes, and nothing that goes wrong here reaches it.
Only the standard library is used, and torch only once the job has imported it.
"""

import atexit
import contextlib
import ctypes
import functools
import importlib.machinery
import os
import sys
import threading
import weakref

import gradsync_watch_account as account
import gradsync_watch_calls as calls
import gradsync_watch_exchanges as exchanges
import gradsync_watch_models as models
import gradsync_watch_recording as recording
import gradsync_watch_replicas as replicas
from gradsync_watch_between import (
    begin_backward,
    end_backward,
    end_clearing,
    optimizer_steps,
    record_skipped,
)
from gradsync_watch_models import begin_forward, end_forward, record_groups, record_wrap
from gradsync_watch_recording import (
    begin_call,
    end_call,
    guarded,
    is_passed_by,
    record_comm_hook,
    record_flag,
    record_no_sync,
)
from gradsync_watch_writer import Writer, look_for_torch


class Depth(threading.local):
    """How many calls of a kind this thread is in: of nested ones the outermost counts."""

    value = 0
    seen = 0  # what the outermost saw when it began


class Running(threading.local):
    """The wrapped models of which this thread runs forward, the outermost first."""

    def __init__(self):
        self.models = []

    def inner_kind(self, model, name):
        """What a forward of the model is where another one runs; None: a part of it, as that of
        FSDP1's units, and of DDP itself in a compiled one.
        """
        is_another = name == models.DDP and all(model is not other for other in self.models)
        return "inner_forward" if is_another else None


running = Running()


def standing_for(original):
    """Makes the decorated function look like `original`, and torch.compile pass over it, though not
    over what it calls.
    """

    def decorate(function):
        with contextlib.suppress(AttributeError):
            recording.torch._C._dynamo.eval_frame.skip_code(function.__code__)
        return functools.wraps(original)(function)

    return decorate


def watching_forward(original, name, is_unsynced, model_of=lambda called: called):
    """`model_of` what is called: None of what is no wrapped model."""

    @standing_for(original)
    def forward(called, *args, **kwargs):
        model = None if is_passed_by() else model_of(called)
        kind = running.inner_kind(model, name) if running.models else "forward"
        if model is None or kind is None:
            return original(called, *args, **kwargs)
        begun = begin_forward(model, is_unsynced, running.models)
        running.models.append(model)
        try:
            return original(called, *args, **kwargs)
        finally:
            running.models.pop()
            end_forward(model, name, begun, kind)

    return forward


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


def watch_init(cls, name):
    original = cls.__init__

    @standing_for(original)
    def init(self, *args, **kwargs):
        original(self, *args, **kwargs)
        record_wrap(self, name)

    cls.__init__ = init


def watch_comm_hook(cls):
    original = cls.register_comm_hook

    @functools.wraps(original)
    def register_comm_hook(self, *args, **kwargs):
        record_comm_hook(self)
        account.see_comm_hook(*args, **kwargs)
        return original(self, *args, **kwargs)

    cls.register_comm_hook = register_comm_hook


def watch_wrapper(wrapper, module):
    """A wrapper that is a class with a forward and a no_sync() of its own."""
    cls = getattr(module, wrapper.cls)
    watch_init(cls, wrapper.name)
    cls.forward = watching_forward(cls.forward, wrapper.name, wrapper.is_unsynced)
    watch_no_sync(cls)
    if wrapper.has_comm_hooks:
        watch_comm_hook(cls)
    if hasattr(cls, "clip_grad_norm_"):
        watch_clipping(cls, "clip_grad_norm_", "clip_own_norm")


def watch_compiled(module):
    """DDP that is compiled: where autograd is to be compiled as well, a compiler traces DDP's own
    forward, which then passes by.
    """

    def ddp_in(compiled):
        inside = getattr(compiled, "_orig_mod", None)
        ddp = sys.modules.get("torch.nn.parallel.distributed")
        return inside if ddp and isinstance(inside, ddp.DistributedDataParallel) else None

    cls = module.OptimizedModule
    cls.__call__ = watching_forward(cls.__call__, models.DDP, models.is_ddp_unsynced, ddp_in)


def watch_wrapping(module, name):
    """A function of the module that wraps one model, or a list of them."""
    original = getattr(module, name)

    @standing_for(original)
    def wrap(*args, **kwargs):
        result = original(*args, **kwargs)
        for model in result if isinstance(result, list) else [result]:
            record_wrap(model, name)
        return result

    setattr(module, name, wrap)


def watch_flag(cls, name):
    original = getattr(cls, name, None)
    if original is None:  # of a later torch
        return

    @standing_for(original)
    def set_flag(self, *args, **kwargs):
        record_flag(self, name, args, kwargs)
        return original(self, *args, **kwargs)

    setattr(cls, name, set_flag)


def watch_fully_shard(module):
    watch_wrapping(module, "fully_shard")
    for name in models.FLAGS:
        watch_flag(module.FSDPModule, name)


def watch_replicate(module):
    watch_wrapping(module, "replicate")


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
            end_forward(args[0], models.wrapper_of(state), begun.pop(state))

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


def watch_replicate_over_ddp(module):
    """replicate() as it was before it was made of fully_shard: a DDP of the parameters, of which
    the forward is never called, and hooks of the model that run parts of it.
    """
    cls = module._ReplicateState
    before, after = cls.forward_pre_hook, cls.forward_post_hook
    begun = weakref.WeakKeyDictionary()

    @standing_for(before)
    def forward_pre_hook(self, model, *args, **kwargs):
        if not is_passed_by():
            begun[self] = begin_forward(model, lambda _: self._no_sync)
        return before(self, model, *args, **kwargs)

    @standing_for(after)
    def forward_post_hook(self, *args, **kwargs):
        result = after(self, *args, **kwargs)
        end_forward(self._ddp, "replicate over DDP", begun.pop(self, None))
        return result

    cls.forward_pre_hook, cls.forward_post_hook = forward_pre_hook, forward_post_hook
    watch_flag(module.DDP, "set_requires_gradient_sync")


def watch_calls(owner, name, kind, begin=begin_call, end=end_call, seen=lambda: 0):
    """Records calls of a function of a module or a class, and those within one that has seen
    something before it, which `seen()` counts.
    """
    original = getattr(owner, name)
    inside = Depth()

    @standing_for(original)
    def watched(*args, **kwargs):
        if is_passed_by() or (inside.value > 0 and inside.seen == seen()):
            return original(*args, **kwargs)
        if inside.value == 0:
            inside.seen = seen()
        begun = begin()
        inside.value += 1
        try:
            return original(*args, **kwargs)
        finally:
            inside.value -= 1
            end(kind, begun)

    setattr(owner, name, watched)


def watch_autograd(module):
    forwards = recording.forwards
    watch_calls(
        module, "backward", "backward", begin_backward, end_backward, lambda: forwards.count
    )
    account_backwards(module)


def account_backwards(module):
    original = module.backward

    @standing_for(original)
    def backward(*args, **kwargs):
        if account.account is None or is_passed_by():
            return original(*args, **kwargs)
        handles = account.before_backward(args[0] if args else kwargs["tensors"])
        try:
            return original(*args, **kwargs)
        finally:
            account.after_backward(handles)

    module.backward = backward


def watch_clearing(cls):
    def end(kind, begun):
        end_clearing(kind, begun)
        account.see_clearing(begun)

    watch_calls(cls, "zero_grad", "zero_grad", end=end)


def watch_modules(module):
    watch_clearing(module.Module)


def watch_made(cls):
    original = cls.__init__

    @standing_for(original)
    def init(self, *args, **kwargs):
        original(self, *args, **kwargs)
        replicas.made_optimizer(self)

    cls.__init__ = init


def watch_optimizers(module):
    watch_made(module.Optimizer)
    watch_clearing(module.Optimizer)
    module.register_optimizer_step_pre_hook(guarded(optimizer_steps.before))
    module.register_optimizer_step_post_hook(guarded(optimizer_steps.after))
    module.register_optimizer_step_pre_hook(lambda *_: record_groups())
    module.register_optimizer_step_pre_hook(replicas.before_step)
    module.register_optimizer_step_pre_hook(exchanges.before_step)
    module.register_optimizer_step_post_hook(replicas.after_step)
    module.register_optimizer_step_pre_hook(account.before_step)
    module.register_optimizer_step_post_hook(account.after_step)


clipping = Depth()  # a sharded model's own may call torch's


def watch_clipping(owner, name, what):
    """A function of a module or a class; torch.nn.utils has it by name already where it was
    imported.
    """
    original = getattr(owner, name)

    @standing_for(original)
    def clip(*args, **kwargs):
        if clipping.value == 0:
            account.see_clipping(what)
        clipping.value += 1
        try:
            return original(*args, **kwargs)
        finally:
            clipping.value -= 1

    setattr(owner, name, clip)
    package = sys.modules.get("torch.nn.utils")
    if getattr(package, name, None) is original:
        setattr(package, name, clip)


def watch_clippings(module):
    watch_clipping(module, "clip_grad_norm_", "clip_norm")
    watch_clipping(module, "clip_grad_value_", "clip_value")


def watch_grad_scaler(module):
    cls = module.GradScaler
    original = cls.step

    @standing_for(original)
    def step(self, *args, **kwargs):
        steps = optimizer_steps.count
        begun = begin_call()
        account.see_loss_scale(self)
        result = original(self, *args, **kwargs)
        record_skipped(begun, steps, args, kwargs)
        if optimizer_steps.count == steps:
            account.skipped_step()
        return result

    cls.step = step


def watch_gpu_memory(module):
    original = module.reset_peak_memory_stats

    @standing_for(original)
    def reset_peak_memory_stats(*args, **kwargs):
        recording.gpu_peak.before_reset()
        return original(*args, **kwargs)

    module.reset_peak_memory_stats = reset_peak_memory_stats


def watch_collectives(module):
    calls.watch_collectives(module, standing_for)


def watch_gpu(module):
    calls.watch_gpu(module, standing_for)


def flush_at_end_of_workers(module):
    """Processes that multiprocessing forks end without atexit, but with its own finalizers."""

    def at_fork(flush):
        module.Finalize(None, flush, exitpriority=0)

    module.register_after_fork(flush_at_end, at_fork)


WATCHED = {
    wrapper.module: functools.partial(watch_wrapper, wrapper)
    for wrapper in models.WRAPPERS.values()
    if wrapper.is_unsynced
} | {
    "multiprocessing.util": flush_at_end_of_workers,
    "torch._dynamo.eval_frame": watch_compiled,
    "torch.amp.grad_scaler": watch_grad_scaler,
    "torch.autograd": watch_autograd,
    "torch.cuda": watch_gpu,
    "torch.cuda.memory": watch_gpu_memory,
    "torch.distributed._composable.replicate": watch_replicate_over_ddp,
    "torch.distributed._composable.replicate_with_fsdp": watch_replicate,
    "torch.distributed.distributed_c10d": watch_collectives,
    "torch.distributed.fsdp._fully_shard._fsdp_state": watch_fsdp_state,
    "torch.distributed.fsdp._fully_shard._fully_shard": watch_fully_shard,
    "torch.nn.modules.module": watch_modules,
    "torch.nn.utils.clip_grad": watch_clippings,
    "torch.optim.optimizer": watch_optimizers,
}


@functools.cache
def count_tensors():
    """Has the preloaded library, where it is, count from here on what this thread's tensors hold:
    while torch is imported, before there is one.
    """
    look_for_torch()
    with contextlib.suppress(AttributeError, KeyError, OSError):
        library = os.environ["GRADSYNC_WATCH_LIBRARY"]
        ctypes.CDLL(library, mode=os.RTLD_NOLOAD).gradsync_count_tensors()


def watch_module(module):
    name = module.__name__
    try:
        recording.torch = sys.modules.get("torch")
        WATCHED[name](module)
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
        with contextlib.suppress(Exception):
            recording.writer.fault(f"the Python hook cannot watch {name}: {reason}")


class Finder:
    """Finds the modules of WATCHED as Python would, and has each watched once it has run."""

    is_from_the_start = False  # of the process: no tensor was made before

    @staticmethod
    def find_spec(name, path=None, target=None):
        if name not in WATCHED:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is None or spec.loader is None:
            return None
        execute = spec.loader.exec_module

        def exec_module(module):
            execute(module)
            if Finder.is_from_the_start and name.startswith("torch."):
                count_tensors()
            watch_module(module)

        spec.loader.exec_module = exec_module
        return spec


@guarded
def flush_at_end():
    recording.writer.write_peers()
    replicas.at_end()
    if recording.writer.file is not None:
        recording.gpu_peak.write()
    recording.writer.flush()


def forget_parent():
    recording.forget_parent()
    replicas.forget()
    if account.account is not None:
        account.account.forget()


def start():
    """Begins to watch this process; nothing happens where gradsync watch did not ask for it."""
    folder = os.environ.get("GRADSYNC_WATCH_DIR")
    if folder and recording.writer is None:
        Finder.is_from_the_start = True
        install(folder, os.environ.get("GRADSYNC_WATCH_ACCOUNT", ""))


def install(folder, wish):
    recording.writer = Writer(folder)
    account.start(folder, wish)
    os.register_at_fork(after_in_child=forget_parent)
    atexit.register(flush_at_end)
    sys.meta_path.insert(0, Finder)


def begin(folder, wish=""):
    """Begins to watch a process that runs already, or watches it once more; see end(). `wish`: for
    an account, as GRADSYNC_WATCH_ACCOUNT.
    """
    if recording.writer is None:
        install(folder, wish)
        for name in WATCHED.keys() & sys.modules.keys():
            watch_module(sys.modules[name])
    else:
        recording.writer = Writer(folder)
        account.start(folder, wish)
        replicas.begin_again()
    models.record_earlier_wraps()


def end():
    """Records nothing from here on. Returns (store, rank, number of ranks) of the process group
    that there was; without one the store is None.
    """
    flush_at_end()
    writer = recording.writer
    writer.is_on = False
    return writer.store, writer.rank, writer.world_size
