"""What the job says a parameter is meant to be, beside what it does with it: by an attribute of
Megatron-LM's or NeMo's, a replica whose gradient ranks are to sum, or each rank's own; by a hook of
the job's that has a reduction in its code, that its gradient is to be reduced.

A hook on a copy of a parameter says the same of the parameter, and never runs.
"""

import functools
import weakref

import gradsync_watch_recording as recording
from gradsync_watch_hash import is_hashable, sample_of

REPLICA_MARKS = (
    "sequence_parallel",
    "sequence_parallel_enabled",
    "average_gradients_across_tp_domain",
)
OWN_MARK = "allreduce"  # False of an expert's
REDUCTIONS = {"all_reduce", "all_reduce_coalesced", "reduce_scatter", "reduce_scatter_tensor"}
REGISTERS = ("register_hook", "register_post_accumulate_grad_hook")


def code_of(function):
    while isinstance(function, functools.partial):
        function = function.func
    return getattr(getattr(function, "__func__", function), "__code__", None)


@functools.cache
def names_reduction(code):
    """Whether it, or a function within it, calls one by its name."""
    inner = [constant for constant in code.co_consts if isinstance(constant, type(code))]
    return not REDUCTIONS.isdisjoint(code.co_names) or any(map(names_reduction, inner))


class Hooked:
    """A tensor with a hook that may reduce."""

    def __init__(self, tensor):
        local = recording.local(tensor)
        self.tensor = weakref.ref(tensor)
        self.shape = tensor.shape
        self.sample = sample_of(local) if is_hashable(local) else None
        self.place = recording.call_site()

    def is_copied_from(self, parameter):
        local = recording.local(parameter)
        is_like = self.shape == parameter.shape and is_hashable(local)
        return is_like and self.sample == sample_of(local)

    def fields(self, meant):
        return {"meant": meant} | {f"hook_{name}": where for name, where in self.place.items()}


class Hooks:
    def __init__(self):
        self.on = []

    def see(self, tensor, function):
        code = code_of(function)
        is_the_jobs = code is not None and not recording.is_library(code.co_filename)
        if is_the_jobs and names_reduction(code):
            self.on.append(Hooked(tensor))

    def tensors(self):
        return [tensor for each in self.on if (tensor := each.tensor()) is not None]


hooks = Hooks()


class Said:
    """What the job says now about its parameters. `names`: ids of what modules have."""

    def __init__(self, names):
        # The first on each, and those on tensors that no module has.
        self.on = {id(each.tensor()): each for each in reversed(hooks.on)}
        self.on_copies = [each for each in hooks.on if id(each.tensor()) not in names]

    def fields_of(self, parameter):
        """Returns it for the parameter's line."""
        marks = (mark for mark in REPLICA_MARKS if getattr(parameter, mark, False) is True)
        if mark := next(marks, None):
            return {"meant": "replica", "mark": mark}
        if getattr(parameter, OWN_MARK, True) is False:
            return {"meant": "own", "mark": OWN_MARK}
        if on_it := self.on.get(id(parameter)):
            return on_it.fields("hooked")
        copies = (each for each in self.on_copies if each.is_copied_from(parameter))
        on_copy = next(copies, None)
        return on_copy.fields("hooked_copy") if on_copy else {}


# ---- what the hook has called ----------------------------------------------------------------


@recording.guarded
def see_hook(tensor, function):
    hooks.see(tensor, function)


def forget():
    """In the child of a fork."""
    hooks.on.clear()
