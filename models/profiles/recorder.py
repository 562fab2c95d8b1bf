"""Runs a model and notes when its forward enters each module and when each gradient is ready.

Steps take turns: one without hooks, which gives the time of a micro-batch, then one with them,
which gives its parts. The parts are then scaled by the ratio of the two, so that the hooks' own
time is in neither. A step is `accumulation_steps` micro-batches and an optimizer step; its figures
are means over its micro-batches (the first writes gradients, the others add to them), and the
recording's are medians over steps. Means and medians keep the order of times, so parts still add
up.
"""

import time
from dataclasses import dataclass, field
from statistics import fmean, median

import torch
from recorded_layers import Arrival, buffer_entry

# A micro-batch with hooks over one without; outside, the parts are not those of the whole.
HOOKS_RATIO = (0.8, 1.25)


class RecordError(Exception):
    """What the user gave cannot be recorded."""


class UnsteadyError(Exception):
    """What was measured contradicts itself."""


class HostClock:
    """For a device whose work is done when a call returns."""

    def mark(self):
        return time.perf_counter()

    def settle(self):
        """Returns when every mark so far can be read."""

    def seconds(self, begin, end):
        return end - begin


class CudaClock:
    """Marks are events on the current stream: nothing waits for the device before settle()."""

    def mark(self):
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def settle(self):
        torch.cuda.synchronize()

    def seconds(self, begin, end):
        return begin.elapsed_time(end) / 1e3


@dataclass
class MicroBatch:
    """Marks of one forward and backward."""

    begin: object = None
    backward: object = None
    end: object = None
    entered: dict = field(default_factory=dict)  # module name to mark
    ready: dict = field(default_factory=dict)  # parameter name to mark, in order of readiness


@dataclass(frozen=True)
class Times:
    """Times of one micro-batch, or typical times of many, in seconds."""

    forward_s: float
    backward_s: float
    entered_s: dict  # since forward began
    ready_s: dict  # since backward began

    @classmethod
    def combined(cls, times, combine):
        def combined_dict(dicts):
            return {key: combine([d[key] for d in dicts if key in d]) for key in dicts[0]}

        return cls(
            combine([t.forward_s for t in times]),
            combine([t.backward_s for t in times]),
            combined_dict([t.entered_s for t in times]),
            combined_dict([t.ready_s for t in times]),
        )


@dataclass(frozen=True)
class Recording:
    arrivals: list  # of Arrival, in order of readiness
    entered_s: dict
    forward_s: float
    backward_s: float
    micro_batch_s: float  # without hooks; forward_s + backward_s is the same time
    optimizer_s: float
    hooks_ratio: float
    frozen: list  # names of parameters that get no gradient by choice
    buffers: list  # as the profile has them


class Recorder:
    """`loss_of(model, batch)` is one forward; the model is on its device and trains.

    Errors: RecordError for parameters that a paced model cannot have.
    """

    def __init__(self, model, batch, loss_of, clock, accumulation_steps):
        self.model, self.batch, self.loss_of, self.clock = model, batch, loss_of, clock
        self.accumulation_steps = accumulation_steps
        named = dict(model.named_parameters())
        self.frozen = [name for name, p in named.items() if not p.requires_grad]
        self.trained = {name: p for name, p in named.items() if p.requires_grad}
        if not self.trained:
            raise RecordError("the model has no parameter that requires a gradient")
        for name, parameter in self.trained.items():
            if parameter.dtype != torch.float32:
                raise RecordError(f"parameter {name}: got {parameter.dtype}, expected float32")
            if parameter.numel() == 0:
                raise RecordError(f"parameter {name}: got no elements, expected at least one")
        self.optimizer = torch.optim.AdamW(self.trained.values(), lr=2e-5, fused=True)
        self.order = None  # names in order of readiness, once known
        self.current = MicroBatch()

    def record(self, steps, warmup):
        """Returns a Recording of `steps` steps with hooks and as many without.

        Errors: RecordError where loss or gradients are not as a paced model can replay them;
        UnsteadyError where micro-batches with and without hooks differ too much.
        """
        for _ in range(warmup):
            self._step(hooked=False)
        self._step(hooked=True)  # shows mistakes, and warms the hooks up
        plain, hooked, optimizer_s = [], [], []
        for _ in range(steps):
            for times, with_hooks in ((plain, False), (hooked, True)):
                step, seconds = self._step(with_hooks)
                times.append(step)
                optimizer_s.append(seconds)
        return self._summary(plain, hooked, median(optimizer_s))

    def _summary(self, plain, hooked, optimizer_s):
        micro_batch_s = median(t.forward_s + t.backward_s for t in plain)
        parts = Times.combined(hooked, median)
        ratio = (parts.forward_s + parts.backward_s) / micro_batch_s
        if not HOOKS_RATIO[0] <= ratio <= HOOKS_RATIO[1]:
            raise UnsteadyError(
                f"a micro-batch takes {micro_batch_s:.3g} s, but {ratio:.2f} times that while its "
                f"parts are timed, expected {HOOKS_RATIO[0]} to {HOOKS_RATIO[1]}: stop other work, "
                "take more --steps, or record a larger micro-batch"
            )
        return Recording(
            arrivals=[
                Arrival(name, tuple(self.trained[name].shape), parts.ready_s[name] / ratio)
                for name in self.order
            ],
            entered_s={name: value / ratio for name, value in parts.entered_s.items()},
            forward_s=parts.forward_s / ratio,
            backward_s=parts.backward_s / ratio,
            micro_batch_s=micro_batch_s,
            optimizer_s=optimizer_s,
            hooks_ratio=ratio,
            frozen=self.frozen,
            buffers=[
                buffer_entry(name, buffer.shape, buffer.element_size())
                for name, buffer in self.model.named_buffers()
                if buffer.numel() > 0
            ],
        )

    def _step(self, hooked):
        """Returns (Times of its mean micro-batch, seconds of the optimizer)."""
        handles = self._add_hooks() if hooked else []
        micro_batches = [self._micro_batch() for _ in range(self.accumulation_steps)]
        for handle in handles:
            handle.remove()
        begin = self.clock.mark()
        self.optimizer.step()
        end = self.clock.mark()
        self.optimizer.zero_grad()
        self.clock.settle()
        if hooked:
            for micro_batch in micro_batches:
                self._check_order(micro_batch)
        times = [self._times(micro_batch) for micro_batch in micro_batches]
        return Times.combined(times, fmean), self.clock.seconds(begin, end)

    def _micro_batch(self):
        now = self.current = MicroBatch()
        now.begin = self.clock.mark()
        loss = self.loss_of(self.model, self.batch)
        refuse_wrong_loss(loss)
        now.backward = self.clock.mark()
        loss.backward()
        now.end = self.clock.mark()
        return now

    def _times(self, marks):
        def since(begin, later):
            return {name: self.clock.seconds(begin, mark) for name, mark in later.items()}

        return Times(
            self.clock.seconds(marks.begin, marks.backward),
            self.clock.seconds(marks.backward, marks.end),
            since(marks.begin, marks.entered),
            since(marks.backward, marks.ready),
        )

    def _add_hooks(self):
        owners = {name.rpartition(".")[0] for name in self.trained}
        modules = dict(self.model.named_modules())
        return [
            *(modules[name].register_forward_pre_hook(self._on_enter(name)) for name in owners),
            *(
                parameter.register_post_accumulate_grad_hook(self._on_ready(name))
                for name, parameter in self.trained.items()
            ),
        ]

    def _on_enter(self, name):
        def hook(_module, _arguments):
            if name not in self.current.entered:
                self.current.entered[name] = self.clock.mark()

        return hook

    def _on_ready(self, name):
        def hook(_parameter):
            if name in self.current.ready:
                raise RecordError(
                    f"parameter {name}: its gradient became ready twice in one backward, which "
                    "DistributedDataParallel refuses too"
                )
            self.current.ready[name] = self.clock.mark()

        return hook

    def _check_order(self, micro_batch):
        order = list(micro_batch.ready)
        missing = [name for name in self.trained if name not in micro_batch.ready]
        if missing:
            raise RecordError(
                f"parameter {missing[0]}: got no gradient, expected one in every micro-batch: "
                "use it in the loss, or set requires_grad to False"
            )
        if self.order is None:
            self.order = order
        if order != self.order:
            first = next(i for i, name in enumerate(order) if name != self.order[i])
            raise RecordError(
                f"parameter {order[first]}: its gradient was ready before that of "
                f"{self.order[first]} in one micro-batch and after it in another; a paced model "
                "has one order"
            )


def refuse_wrong_loss(loss):
    if not isinstance(loss, torch.Tensor):
        raise RecordError(f"loss_of: got {type(loss).__name__}, expected a scalar tensor")
    if loss.numel() != 1:
        raise RecordError(f"loss_of: got a tensor of shape {list(loss.shape)}, expected a scalar")
    if not loss.requires_grad:
        raise RecordError("loss_of: got a loss without gradient, expected one of the parameters'")
