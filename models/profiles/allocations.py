"""Records what a piece of a program allocates and frees, in order, with marks between.

    trace = AllocatorTrace()            # CudaTrace(), or FakeTrace(there): tensors without memory
    with trace:
        trace.mark("forward", 0)
        ...
    trace.events                        # of Allocated, Freed, Mark

On the CPU torch's own profiler says what the allocator does, kernels' temporaries included. On a
GPU (CudaTrace) the allocator's own history says it. Fake tensors have no allocator: there a storage
counts from the operator that returns it until Python lets it go, and what kernels hold for
themselves is not seen.
"""

import weakref
from typing import NamedTuple

import torch
from torch.autograd.profiler import record_function
from torch.profiler import ProfilerActivity, profile
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten

PREFIX = "gradsync_mark "


class Allocated(NamedTuple):
    block: int
    bytes: int


class Freed(NamedTuple):
    block: int


class Mark(NamedTuple):
    words: tuple


class AllocatorTrace:
    """Records the CPU's allocator on this thread."""

    def __enter__(self):
        self.marks = []
        self.profiler = profile(activities=[ProfilerActivity.CPU], profile_memory=True)
        self.profiler.__enter__()
        return self

    def __exit__(self, *failure):
        self.profiler.__exit__(*failure)
        self.events = [] if failure[0] else self._events()
        self.profiler = None

    def mark(self, *words):
        with record_function(f"{PREFIX}{len(self.marks)}"):
            self.marks.append(words)

    @staticmethod
    def block_of(tensor):
        return tensor.untyped_storage().data_ptr()

    def _events(self):
        nodes, waiting = [], list(self.profiler.profiler.kineto_results.experimental_event_tree())
        while waiting:
            node = waiting.pop()
            nodes.append(node)
            waiting.extend(node.children)
        nodes.sort(key=lambda node: node.start_time_ns)
        return [event for node in nodes if (event := self._event(node))]

    def _event(self, node):
        kind, fields = node.typed
        if kind == torch._C._profiler._EventType.Allocation:
            if fields.device.type != "cpu":
                return None
            if fields.alloc_size > 0:
                return Allocated(fields.ptr, fields.alloc_size)
            return Freed(fields.ptr)
        if node.name.startswith(PREFIX):
            return Mark(self.marks[int(node.name.removeprefix(PREFIX))])
        return None


class CudaTrace:
    """Records the allocator of this thread's GPU.

    Its history keeps with each entry what its thread marked last. Backward has a thread of its own,
    and only one of the two allocates at a time: so a mark precedes the first entry that has it, and
    all entries behind that.
    """

    def __enter__(self):
        self.marks = []
        torch.cuda.memory._record_memory_history(context=None)
        return self

    def __exit__(self, *failure):
        snapshot = torch.cuda.memory._snapshot()
        torch.cuda.memory._record_memory_history(None)
        entries = snapshot["device_traces"][torch.cuda.current_device()]
        self.events = list(self._events(entries))

    def mark(self, *words):
        torch.cuda.memory._set_memory_metadata(str(len(self.marks)))
        self.marks.append(words)

    @staticmethod
    def block_of(tensor):
        return tensor.untyped_storage().data_ptr()

    def _events(self, entries):
        marked = 0
        for entry in entries:
            number = entry["user_metadata"]
            while number and marked <= int(number):
                yield Mark(self.marks[marked])
                marked += 1
            if entry["action"] == "alloc":
                yield Allocated(entry["addr"], entry["size"])
            elif entry["action"] == "free_completed":
                yield Freed(entry["addr"])
        yield from map(Mark, self.marks[marked:])


class FakeTrace(TorchDispatchMode):
    """Records results of operators. `there`: existing tensors, which are not allocated anew."""

    def __init__(self, there):
        super().__init__()
        self.events = []
        self.blocks = {tensor.untyped_storage()._cdata: 0 for tensor in there}
        self.next_block = 1

    def mark(self, *words):
        self.events.append(Mark(words))

    def block_of(self, tensor):
        return self.blocks.get(tensor.untyped_storage()._cdata)

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        out = function(*args, **(kwargs or {}))
        for tensor in tree_flatten(out)[0]:
            if isinstance(tensor, torch.Tensor):
                self._see(tensor)
        return out

    def _see(self, tensor):
        storage = tensor.untyped_storage()
        address = storage._cdata
        if address in self.blocks:
            return
        block, self.next_block = self.next_block, self.next_block + 1
        self.blocks[address] = block
        self.events.append(Allocated(block, storage.nbytes()))
        weakref.finalize(storage, self._forget, address, block)

    def _forget(self, address, block):
        self.blocks.pop(address, None)
        self.events.append(Freed(block))
