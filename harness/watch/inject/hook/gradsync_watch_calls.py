"""Calls by which the job itself waits, where torch has them: for its other ranks in collectives,
barriers and collectives of objects, and for its GPU where the host reads what is there. torch's own
calls of these are none of the job's.
"""

import functools
import sys

import gradsync_watch_exchanges as exchanges
from gradsync_watch_between import is_passed_over
from gradsync_watch_recording import begin_call, end_call, guarded, is_passed_by

COLLECTIVES = (
    "all_gather",
    "all_gather_into_tensor",
    "all_gather_object",
    "all_reduce",
    "barrier",
    "broadcast",
    "broadcast_object_list",
    "gather",
    "gather_object",
    "monitored_barrier",
    "reduce",
    "scatter_object_list",
)


def watching_call(original, name, standing_for):
    """What is begun and not waited for is not recorded: it returns what can be waited for."""

    @standing_for(original)
    def call(*args, **kwargs):
        if is_passed_by():
            return original(*args, **kwargs)
        code = sys._getframe(1).f_code
        exchanges.see(name, args, kwargs, code)
        if is_passed_over(code.co_filename):
            return original(*args, **kwargs)
        begun = begin_call()
        result = original(*args, **kwargs)
        if kwargs.get("async_op") is not True:
            end_collective(begun, name, (*args, *kwargs.values()))
        return result

    return call


@guarded
def end_collective(begun, name, given):
    """`detail` of the line: the type of the tensor that was given, and how it is reduced."""
    types = [value.dtype for value in given if isinstance(value, sys.modules["torch"].Tensor)]
    words = [str(each).removeprefix("torch.") for each in types[:1]]
    operation = sys.modules["torch.distributed"].ReduceOp.RedOpType
    words += [value.name.lower() for value in given if isinstance(value, operation)]
    end_call("call", begun, name=name, detail=" ".join(words))


def watch_collectives(module, standing_for):
    """`module` has them; torch.distributed, where it is imported already, by the same names."""
    package = sys.modules.get("torch.distributed")
    for name in COLLECTIVES:
        original = getattr(module, name, None)
        if original is None:  # of a later torch
            continue
        watched = watching_call(original, name, standing_for)
        setattr(module, name, watched)
        if getattr(package, name, None) is original:
            setattr(package, name, watched)
        compile_alike(original, watched)


def compile_alike(original, watched):
    """torch.compile puts others in the place of some, which it knows by what they are."""
    functional = sys.modules.get("torch.distributed._functional_collectives")
    replaced = getattr(functional, "traceable_collective_remaps", {})
    if original in replaced:
        replaced[watched] = replaced[original]


# Methods of a tensor that make the host wait until its GPU has computed it.
READS = ("__bool__", "__float__", "__int__", "cpu", "item", "numpy", "tolist")


def watching_read(original, name, standing_for):
    @standing_for(original)
    def read(tensor, *args, **kwargs):
        is_passed = not tensor.is_cuda or is_passed_by()
        if is_passed or is_passed_over(sys._getframe(1).f_code.co_filename):
            return original(tensor, *args, **kwargs)
        begun = begin_call()
        result = original(tensor, *args, **kwargs)
        end_call("call", begun, name=f"read {name}")
        return result

    return read


@functools.cache
def watch_reads(tensor_class, standing_for):
    for name in READS:
        watched = watching_read(getattr(tensor_class, name), name, standing_for)
        setattr(tensor_class, name, watched)


def watch_gpu(module, standing_for):
    """Tensors' methods are stood for where the process uses a GPU, as soon as it does."""
    original = module._lazy_init

    @standing_for(original)
    def lazy_init():
        original()
        watch_reads(sys.modules["torch"].Tensor, standing_for)

    module._lazy_init = lazy_init
    if module.is_initialized():
        watch_reads(sys.modules["torch"].Tensor, standing_for)
