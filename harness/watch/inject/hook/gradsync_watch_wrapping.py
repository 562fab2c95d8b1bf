"""Stands around what makes, runs and tells wrapped models: their forwards, no_sync and flags, the
functions that wrap, communication hooks, and the clipping of gradients.

gradsync_watch_hook.py has each function called, once the job has imported the module that it is
given.
"""

import contextlib
import functools
import sys
import threading
import weakref

import gradsync_watch_account as account
import gradsync_watch_models as models
import gradsync_watch_recording as recording
from gradsync_watch_between import reads
from gradsync_watch_models import begin_forward, end_forward, record_wrap
from gradsync_watch_recording import (
    guarded,
    is_passed_by,
    record_comm_hook,
    record_flag,
    record_no_sync,
)


class Depth(threading.local):
    """How many calls of a kind this thread is in: of nested ones the outermost counts."""

    value = 0
    seen = 0  # what the outermost saw when it began


clipping = Depth()  # a sharded model's own may call torch's


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


def watch_init(cls, record):
    """Calls record(object) of what the class makes."""
    original = cls.__init__

    @standing_for(original)
    def init(self, *args, **kwargs):
        original(self, *args, **kwargs)
        record(self)

    cls.__init__ = init


def watch_comm_hook(cls):
    original = cls.register_comm_hook

    @functools.wraps(original)
    def register_comm_hook(self, *args, **kwargs):
        record_comm_hook(self)
        account.see_comm_hook(*args, **kwargs)
        return original(self, *args, **kwargs)

    cls.register_comm_hook = register_comm_hook


def watch_clipping(owner, name, what):
    """A function of a module or a class; torch.nn.utils has it by name already where it was
    imported.
    """
    original = getattr(owner, name)

    @standing_for(original)
    def clip(*args, **kwargs):
        if clipping.value == 0:
            reads.see_clipping(sys._getframe(1).f_code)
            account.see_clipping(what)
        clipping.value += 1
        try:
            return original(*args, **kwargs)
        finally:
            clipping.value -= 1
            if clipping.value == 0:
                account.see_clipped(what, args, kwargs)

    setattr(owner, name, clip)
    package = sys.modules.get("torch.nn.utils")
    for known_as in (name, name.lstrip("_")):
        if getattr(package, known_as, None) is original:
            setattr(package, known_as, clip)


def watch_wrapper(wrapper, module):
    """A wrapper that is a class with a forward and a no_sync() of its own."""
    cls = getattr(module, wrapper.cls)
    watch_init(cls, lambda model: record_wrap(model, wrapper.name))
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
