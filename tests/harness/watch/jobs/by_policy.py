"""A training that synchronizes by one policy, under any wrapper that can be told so.

    by_policy.py WRAPPER POLICY SEED

The seed changes data and sizes. With its counts each rank prints the shape of what it trained, and
what the watcher's allocator gave out until the last micro-batch of the last step, and since its
first one.
"""

import contextlib
import ctypes
import dataclasses
import os
import sys

import torch
from torch._dynamo import compiled_autograd
from torch._dynamo.utils import counters
from torch._inductor import config as inductor
from torch.nn.functional import mse_loss
from training import counted, finish, say, sgd
from wrappers import WRAPPERS, Shape

STEPS = 5
# When gradients are due, by micro-batch and shape; and the same among replicas of shards alone.
IS_DUE = {
    "every": lambda number, shape: True,
    "all": lambda number, shape: number == shape.accumulation_steps - 1,
    "never": lambda number, shape: False,
    "wrong": lambda number, shape: number == shape.wrong,
}
OF_REPLICAS = {"replicas": "all", "replicas_never": "never", "replicas_wrong": "wrong"}


def flags_of(policy):
    """Returns (when gradients are due, when replicas are); None: not set."""
    if policy in OF_REPLICAS:
        return None, IS_DUE[OF_REPLICAS[policy]]
    return (None if policy == "every" else IS_DUE[policy]), None


def windows(shape, seed):
    """Yields for each step its micro-batches, as (number, inputs, targets)."""
    generator = torch.Generator().manual_seed(1000 * seed + torch.distributed.get_rank())
    for _ in range(STEPS):
        yield [
            (
                number,
                torch.randn(shape.samples, shape.features, generator=generator),
                torch.randn(shape.samples, 1, generator=generator),
            )
            for number in range(shape.accumulation_steps)
        ]


def compile_for(wrapper, model):
    if not wrapper.backend:
        return model
    torch._dynamo.config.optimize_ddp = wrapper.optimize_ddp
    torch._dynamo.config.compiled_autograd = wrapper.compiles_autograd
    # g++ compiles each graph in a second or two, rather than in ten with the headers for vectors.
    inductor.cpp.vec_isa_ok = False
    inductor.cpp_cache_precompile_headers = False
    compiled = (lambda inputs: model(inputs)) if wrapper.is_in_a_function else model
    return torch.compile(compiled, backend=wrapper.backend)


def tensor_bytes():
    """Returns what this rank's tensors hold now; 0: they are not counted."""
    path = os.environ.get("GRADSYNC_WATCH_LIBRARY")
    if path is None:
        return 0
    library = ctypes.CDLL(path, mode=os.RTLD_NOLOAD)
    library.gradsync_tensor_bytes.restype = ctypes.c_int64
    return library.gradsync_tensor_bytes()


def autograd_of(wrapper):
    if not wrapper.compiles_autograd:
        return contextlib.nullcontext()
    return compiled_autograd._enable(torch.compile(backend=wrapper.backend))


@counted
def main():
    name, policy, seed = sys.argv[1], sys.argv[2], int(sys.argv[3])
    wrapper, shape = WRAPPERS[name], Shape.of(seed)
    torch.manual_seed(seed)
    torch._dynamo.config.optimize_ddp = wrapper.optimize_ddp  # DDP reads it, too
    wrapped = wrapper.make(shape)
    model = compile_for(wrapper, wrapped)
    optimizer = sgd(wrapped)
    gradients, replicas = flags_of(policy)

    def train(number, inputs, targets):
        outputs = model(inputs)  # line: forward
        with autograd_of(wrapper):
            mse_loss(outputs, targets).backward()

    for window in windows(shape, seed):
        held = []
        for number, inputs, targets in window:
            held.append(tensor_bytes())
            is_due = gradients is None or gradients(number, shape)
            if wrapper.is_flagged and gradients is not None:
                wrapped.set_requires_gradient_sync(is_due)  # line: gradients
            if replicas is not None:
                wrapped.set_requires_all_reduce(replicas(number, shape))  # line: replicas
            if wrapper.is_flagged or is_due:
                train(number, inputs, targets)
            else:
                with wrapped.no_sync():  # line: no_sync
                    train(number, inputs, targets)
        finish(optimizer)
    if wrapper.backend:
        assert counters["stats"]["unique_graphs"] > 0, "nothing was compiled"
    units = shape.layers if wrapper.has_units else None
    say(shape=dataclasses.asdict(shape) | {"units": units})
    # zero_grad() does not clear the flat parameters of FSDP1: the next forward does.
    say(tensor_bytes=held[-1], held_bytes=held[-1] - held[0], clears=wrapper.is_flagged)


if __name__ == "__main__":
    main()
