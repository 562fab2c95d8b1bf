"""Lets ranks on GPUs of paper exchange Python objects: torch counts their bytes on the GPU, where
nothing is computed. What it computes within such an exchange is computed on the CPU instead; copies
between the two are real.
"""

import contextlib
import os

import gradsync_watch_recording as recording

EXCHANGES = (
    "all_gather_object",
    "broadcast_object_list",
    "gather_object",
    "recv_object_list",
    "scatter_object_list",
    "send_object_list",
)


def on_cpu(value):
    if isinstance(value, (list, tuple)):
        return [on_cpu(item) for item in value]
    return value.cpu() if isinstance(value, recording.torch.Tensor) else value


def device_of(value):
    if isinstance(value, (list, tuple)):
        return device_of(value[0]) if value else None
    return getattr(value, "device", None)


def through_cpu(original):
    def computed(*args, **kwargs):
        return original(*map(on_cpu, args), **kwargs).to(device_of(args[0]))

    return computed


@contextlib.contextmanager
def computing():
    """What torch does with sizes: joins and adds them, and seeks the largest of a list."""
    torch = recording.torch
    operators = ("__add__", "__gt__", "__iadd__", "__radd__")
    places = [(torch, "cat"), (torch, "sum")] + [(torch.Tensor, name) for name in operators]
    before = [getattr(owner, name) for owner, name in places]
    for (owner, name), original in zip(places, before, strict=True):
        setattr(owner, name, through_cpu(original))
    try:
        yield
    finally:
        for (owner, name), original in zip(places, before, strict=True):
            setattr(owner, name, original)


def watch_exchanges(module, standing_for):
    """`module`: torch.distributed.distributed_c10d."""
    if "GRADSYNC_PAPER" not in os.environ:
        return

    def exchanging(original):
        @standing_for(original)
        def exchange(*args, **kwargs):
            with computing():
                return original(*args, **kwargs)

        return exchange

    for name in EXCHANGES:
        if hasattr(module, name):
            setattr(module, name, exchanging(getattr(module, name)))
