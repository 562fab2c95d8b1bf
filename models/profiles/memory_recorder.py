"""Records what a model's forward and backward hold, by module: a profile's field "memory".

Two micro-batches are recorded, since the first backward of a step writes gradients and every later
one adds to them. Hooks say where a module begins and ends, in forward and in backward, and when a
gradient is complete. Whatever a wrapper does (gather, reduce, free) it does at such a mark, so that
between two of them the net change and the highest point decide about a peak. How much an allocator
reserves depends on each block as well (recorded_blocks.py). What forward saves for backward is
counted once more by saved-tensor hooks, in a micro-batch of its own.

Where a module's backward begins and ends is found as fully_shard finds it: by hooks on its outputs,
and by a node of the graph in front of its inputs.
"""

from dataclasses import dataclass

import torch
from allocations import Allocated, Freed
from recorded_blocks import LiveBlocks, Segments, forget_changes, number_changes
from torch.utils._pytree import tree_flatten, tree_unflatten


class Boundary(torch.autograd.Function):
    """In front of a module's inputs: its backward runs when the module's own is over."""

    @staticmethod
    def forward(ctx, on_backward, *tensors):
        ctx.on_backward = on_backward
        return tensors

    @staticmethod
    def backward(ctx, *gradients):
        ctx.on_backward()
        return (None, *gradients)


@dataclass
class ModuleMemory:
    """Bytes of one call of a module, the most of several; the profile's fields by name."""

    saved_bytes: int = 0  # first saved while none of its own modules ran
    output_bytes: int = 0
    forward_high_bytes: int = 0  # above what was held when it began
    backward_high_bytes: int = 0


@dataclass
class MemoryRecording:
    """Events are as the profile has them."""

    forward: list
    backward_first: list
    backward_later: list
    changes: list | None  # between marks, each once; None: blocks cannot be followed
    modules: dict  # name to (module, ModuleMemory): those with parameters, in registration order
    parameters: dict  # name to (parameter, other names of it)


class MemoryRecorder:
    """`trace_of`: makes a trace, see allocations.py. `model` trains and has no gradients."""

    def __init__(self, model, batch, loss_of, make_trace):
        self.model, self.batch, self.loss_of = model, batch, loss_of
        self.make_trace = make_trace
        self.modules = {name: m for name, m in model.named_modules() if has_parameters(m)}
        self.parameters = list(model.parameters())
        self.trace = None

    def record(self):
        """Returns a MemoryRecording; the model is left without gradients."""
        saved = self._saved_bytes()
        self.model.zero_grad()
        handles = self._add_hooks()
        self.trace = self.make_trace()
        try:
            with self.trace:
                for _ in range(2):
                    self.trace.mark("begin")
                    loss = self.loss_of(self.model, self.batch)
                    self.trace.mark("backward")
                    loss.backward()
                    self.trace.mark("end")
                    del loss
            events = list(self.trace.events)  # without what is freed below
        finally:
            for handle in handles:
                handle.remove()
            self.model.zero_grad()
        return self._recording(events, saved)

    # Hooks

    def _add_hooks(self):
        handles = []
        for index, module in enumerate(self.modules.values()):
            handles.append(
                module.register_forward_pre_hook(self._on_enter(index), with_kwargs=True)
            )
            handles.append(module.register_forward_hook(self._on_leave(index)))
        for index, parameter in enumerate(self.parameters):
            if parameter.requires_grad:
                handles.append(
                    parameter.register_post_accumulate_grad_hook(self._on_gradient(index))
                )
        return handles

    def _on_enter(self, index):
        def hook(_module, args, kwargs):
            self.trace.mark("in", index)
            if not torch.is_grad_enabled() or is_recomputing():
                return args, kwargs
            values, shape = tree_flatten((args, kwargs))
            places = [i for i, v in enumerate(values) if needs_gradient(v)]
            if places:
                behind = Boundary.apply(
                    lambda: self.trace.mark("out", index), *(values[i] for i in places)
                )
                for i, value in zip(places, behind, strict=True):
                    values[i] = value
            return tree_unflatten(values, shape)

        return hook

    def _on_leave(self, index):
        def hook(_module, _args, output):
            if is_recomputing():
                return
            outputs = [v for v in tree_flatten(output)[0] if isinstance(v, torch.Tensor)]
            self.trace.mark("out", index, storage_bytes(outputs))
            for value in outputs:
                if needs_gradient(value):
                    value.register_hook(lambda _: self.trace.mark("in", index))

        return hook

    def _on_gradient(self, index):
        def hook(parameter):
            gradient = parameter.grad
            self.trace.mark("gradient", index, self.trace.block_of(gradient))

        return hook

    # What forward saves

    def _saved_bytes(self):
        """Returns, for each module, the bytes of storages first saved while it ran."""
        saved = [0] * len(self.modules)
        running = [0]
        tensors, _ = tree_flatten(self.batch)
        seen = {
            key_of(tensor)
            for tensor in (*self.model.parameters(), *self.model.buffers(), *tensors)
            if isinstance(tensor, torch.Tensor)
        }
        kept = []  # so that no storage's address is another's

        def pack(tensor):
            key = key_of(tensor)
            if key not in seen:
                seen.add(key)
                kept.append(tensor.detach())
                saved[running[-1]] += tensor.untyped_storage().nbytes()
            return tensor

        def enter(index):
            return lambda *_: running.append(index)

        def leave(*_):
            running.pop()

        handles = []
        for index, module in enumerate(self.modules.values()):
            handles.append(module.register_forward_pre_hook(enter(index)))
            handles.append(module.register_forward_hook(leave))
        try:
            with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
                self.loss_of(self.model, self.batch)
        finally:
            for handle in handles:
                handle.remove()
        return saved

    # From the trace to the profile

    def _recording(self, events, saved):
        memory = [ModuleMemory(saved_bytes=size) for size in saved]
        passes, live, all_freed = [], LiveBlocks(), True
        for event in events:
            if isinstance(event, Allocated):
                passes[-1].make(event.block, event.bytes)
            elif isinstance(event, Freed):
                if passes:
                    passes[-1].free(event.block)
            elif event.words[0] in ("begin", "backward"):
                if passes:
                    passes[-1].close()
                if event.words[0] == "begin":
                    all_freed &= live.are_all_freed()
                passes.append(Segments(live))
            elif event.words[0] == "end":
                passes[-1].close()
            else:
                self._mark(passes[-1], event.words)
        passes[-1].close()
        forward, first, again, later = (segments.events for segments in passes)
        note_highs(forward, memory, "forward_high_bytes")
        note_highs(first, memory, "backward_high_bytes")
        all_freed &= live.are_all_freed()
        changes = None
        if all_freed and not live.lost_gradient and again == forward:
            changes = number_changes((forward, first, later))
        else:
            forget_changes((forward, first, later))
        for event in forward:
            if event[0] == "out":
                memory[event[1]].output_bytes = event.pop()
        modules = {
            name: (module, counted)
            for (name, module), counted in zip(self.modules.items(), memory, strict=True)
        }
        parameters = names_of_parameters(self.model)
        return MemoryRecording(forward, first, later, changes, modules, parameters)

    def _mark(self, segments, words):
        if words[0] != "gradient":
            segments.mark(*words)
            return
        _, index, block = words
        size, age = (0, 0) if block in segments.gradients else segments.live.take(block)
        segments.gradients[block] = index
        segments.mark("gradient", index, size, *([age] if age else []))


def is_recomputing():
    """Whether a forward that runs now is a checkpoint's, inside of backward."""
    return torch._C._current_graph_task_id() != -1


def has_parameters(module):
    return next(module.parameters(), None) is not None


def names_of_parameters(model):
    """Returns name to (parameter, its other names) in registration order; tied ones stand once."""
    first, named = {}, {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        if parameter in first:
            named[first[parameter]][1].append(name)
        else:
            first[parameter] = name
            named[name] = (parameter, [])
    return named


def needs_gradient(value):
    return isinstance(value, torch.Tensor) and value.requires_grad


def key_of(tensor):
    return tensor.untyped_storage()._cdata


def storage_bytes(tensors):
    return sum({key_of(t): t.untyped_storage().nbytes() for t in tensors}.values())


def note_highs(events, memory, name):
    """Sets what each module's call held at most, above what was held when it began; the most of
    several calls.
    """
    held, opened = 0, {}
    for event in events:
        kind, index = event[0], event[1]
        if kind == "hold":
            for begun, high in opened.items():
                opened[begun] = max(high, held + event[1])
            held += event[2]
        elif kind == "in":
            opened.setdefault((index, held), held)
        elif kind == "out":
            for begun in [b for b in opened if b[0] == index]:
                high = opened.pop(begun) - begun[1]
                setattr(memory[index], name, max(getattr(memory[index], name), high))
