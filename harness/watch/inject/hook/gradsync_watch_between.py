"""What a job does between two backwards: whether it reads gradients there, clears or changes them
or the parameters by itself, or has an optimizer step.
"""

import functools
import os
import sys
import threading
import time
import weakref

import gradsync_watch_recording as recording

# On GPUs of paper the hook waits so long in each of the first optimizer steps.
FIRST_STEPS = 2
WATCHDOG_S = 0.25


@functools.cache
def torch_folder():
    return os.path.join(os.path.dirname(recording.torch.__file__), "")


@functools.cache
def is_passed_over(file):
    """Whether it has functions of torch's own, or of the hook's."""
    return file.startswith((torch_folder(), os.path.join(os.path.dirname(__file__), "")))


class LookedAtGrad(property):
    """Stands for a tensor's `grad`. torch.compile asks what it meets there for its class."""

    __objclass__ = None  # as the one below has it


class GradientReads:
    """Reads of a parameter's `grad` by the job, between two backwards: who reads a gradient there
    needs it as it is then, synchronized. torch's own reads (clipping's, an optimizer's) do not
    count.

    While it looks, `grad` is a property of the Python class and not of the C one below it: from the
    end of a backward to the first read, the next backward or the optimizer, whichever comes first.
    A class that changes often is slow to look things up in (from Python 3.13 on for good, after
    1000 changes): after MOST_LOOKS the property stays where the job has read, and goes where it
    never has.

    A function of a library's that looks which parameters have a gradient, and then has torch clip
    them, reads none. Of a job that reduces gradients by itself the reads count that come behind a
    reduction, but for those of the function that reduces.
    """

    MOST_LOOKS = 200  # each is two changes

    def __init__(self):
        self.is_looking = False
        self.looks = 0
        self.has_seen = False
        self.read = None  # (the function that did, its event), until more is known of it
        self.reducer = None  # the function that reduced last, by hand
        self.fetched = None  # (a function that it calls, a gradient that this read, its version)

    def begin(self):
        if self.is_looking:
            return
        if self.looks < self.MOST_LOOKS:
            self.looks += 1
            self.put_before()
        elif not self.has_seen:
            return
        self.is_looking = True

    def put_before(self):
        below = recording.torch._C.TensorBase.grad

        def read(tensor):
            gradient = below.__get__(tensor)
            if reads.is_looking and isinstance(tensor, recording.torch.nn.Parameter):
                reads.see(sys._getframe(1), gradient)
            return gradient

        LookedAtGrad.__objclass__ = below.__objclass__
        recording.torch.Tensor.grad = LookedAtGrad(read, below.__set__, below.__delete__)

    def end(self):
        self.tell()
        self.look_away()

    def look_away(self):
        if not self.is_looking:
            return
        self.is_looking = False
        stays = self.looks == self.MOST_LOOKS and self.has_seen
        if not stays:
            del recording.torch.Tensor.grad

    @recording.guarded
    def see(self, frame, gradient):
        is_part = frame.f_code.co_name in ("<genexpr>", "<listcomp>")
        frame = frame.f_back if is_part else frame
        code = frame.f_code
        if code is self.reducer or is_passed_over(code.co_filename):
            return
        is_for_reducer = frame.f_back is not None and frame.f_back.f_code is self.reducer
        if is_for_reducer and self.fetched and self.fetched[0] is code:
            return
        if is_for_reducer and self.fetched is None and gradient is not None:
            self.fetched = code, weakref.ref(gradient), gradient._version
        else:
            self.fetched = None
            self.look_away()
        self.has_seen = True
        begun, thread = recording.begin_call(), threading.get_native_id()
        self.read = (code, {**begun, "end_ns": begun["start_ns"], "thread": thread})
        recording.uses.count += 1

    def forget_written(self):
        """What the function that reduces had another one fetch, and wrote to, it did not read."""
        if self.fetched:
            _, reference, version = self.fetched
            gradient = reference()
            if gradient is not None and gradient._version > version:
                self.read = None
                recording.uses.count -= 1
        self.fetched = None

    @recording.guarded
    def tell(self):
        self.forget_written()
        if self.read:
            recording.writer.write("gradient_use", detail="read", **self.read[1])
            self.read = None

    def see_reduction(self, code):
        if not kept_models.models:
            self.reducer = code
            self.begin()

    @recording.guarded
    def see_clipping(self, code):
        """That the function has torch clip."""
        if self.read and self.read[0] is code and recording.place_in_library(code.co_filename):
            self.read = None
            recording.uses.count -= 1
            self.begin()


reads = GradientReads()


class KeptModels:
    """What backward left of each model under DDP or fully_shard, to see whether the job changes it
    by hand before the next one: a gradient (`p.grad = None`, `p.grad.zero_()`), or parameters
    (`p.data += ...`). Not after an optimizer's step or a zero_grad(), which are seen themselves.

    Of each model one gradient is looked at. Of parameters: how often each was changed in place, and
    on the CPU, where that waits for nothing, what some elements of two of them add up to, the first
    and another in turn: writing to `p.data` does not count as a change.
    """

    ELEMENTS = 256

    def __init__(self):
        self.models = weakref.WeakKeyDictionary()  # to its parameters and what look() returned
        self.words = weakref.WeakKeyDictionary()  # by optimizer or module
        self.running = 0  # backwards, which may run others
        self.turn = 0

    def add(self, model, parameters):
        self.models[model] = (parameters, None)

    @recording.guarded
    def words_of(self, thing):
        """Returns the models whose parameters an optimizer or a module has: "of=1 of=2"."""
        if not self.words.get(thing):
            if hasattr(thing, "param_groups"):
                parameters = (p for group in thing.param_groups for p in group["params"])
            else:
                parameters = thing.parameters()
            own = set(map(id, parameters))
            models = [m for m, (kept, _) in self.models.items() if any(id(p) in own for p in kept)]
            self.words[thing] = " ".join(f"of={recording.number_of(model)}" for model in models)
        return self.words[thing]

    def look(self, parameters):
        gradient = None
        for parameter in parameters:
            if parameter.grad is not None:
                gradient = id(parameter.grad), recording.local(parameter.grad)._version
                break
        versions = sum(recording.local(parameter)._version for parameter in parameters)
        looked_at = (parameters[0], parameters[self.turn % len(parameters)]) if parameters else ()
        return gradient, (versions, *map(self.sum_of_some, looked_at))

    @classmethod
    def sum_of_some(cls, parameter):
        parameter = recording.local(parameter)
        if parameter.device.type != "cpu" or not parameter.is_contiguous():
            return None
        flat = parameter.detach().reshape(-1)
        return flat[:: max(1, flat.numel() // cls.ELEMENTS)].sum().item()

    def before_forward(self):
        """Of a model that is not recomputed: parameters that the job changed behind its backward
        are known before it runs on, as a step of an optimizer that is none of torch's.
        """
        if self.running > 0:
            return
        has_changed = False
        for model, (parameters, left) in list(self.models.items()):
            now = self.look(parameters) if left else left
            if left and now[1] != left[1]:
                has_changed = True
                self.models[model] = (parameters, (left[0], now[1]))
        if has_changed:
            reads.tell()
            recording.record_use("parameters")

    def before_backward(self):
        reads.end()
        self.running += 1
        if self.running > 1:
            return
        kept = [(parameters, left) for parameters, left in self.models.values() if left]
        changes = [(left, self.look(parameters)) for parameters, left in kept]
        if any(before[0] != now[0] for before, now in changes):
            recording.write_span("zero_grad", recording.now_ns(), detail="by_hand")
        elif any(before[1] != now[1] for before, now in changes):
            recording.record_use("parameters")

    def forget(self):
        reads.end()
        for model, (parameters, _) in list(self.models.items()):
            self.models[model] = (parameters, None)

    def after_backward(self):
        self.running -= 1
        if self.running > 0 or not self.models:
            return
        self.turn += 1
        for model, (parameters, _) in list(self.models.items()):
            self.models[model] = (parameters, self.look(parameters))
        reads.begin()


kept_models = KeptModels()


@recording.guarded
def begin_backward():
    kept_models.before_backward()
    return recording.begin_call()


@recording.guarded
def end_backward(kind, begun):
    recording.end_call(kind, begun)
    kept_models.after_backward()


@recording.guarded
def end_clearing(kind, begun):
    recording.end_call(kind, begun)
    kept_models.forget()


def wait_for_watchdog(steps):
    """torch's watchdog of NCCL looks every 100 ms for what it can free, DDP's first buckets for
    one. On a GPU a step takes longer; on GPUs of paper none does, and they would be held together
    with those that follow them, or not, as chance has it.
    """
    if steps <= FIRST_STEPS and "GRADSYNC_PAPER" in os.environ:
        time.sleep(WATCHDOG_S)


def closure_of(args, kwargs):
    """Returns the closure that an optimizer's step runs, of what its hooks are given; or None."""
    return args[1] if len(args) > 1 else kwargs.get("closure")  # args[0] is the optimizer


class CountedClosure:
    """Stands for an optimizer's closure, and counts how often it runs: one that runs once is a part
    of the step as any loop is.
    """

    def __init__(self, closure):
        self.closure, self.runs = closure, 0

    def __call__(self, *args, **kwargs):
        self.runs += 1
        return self.closure(*args, **kwargs)

    @classmethod
    def in_place(cls, args, kwargs):
        if len(args) > 1:
            return (args[0], cls(args[1]), *args[2:]), kwargs
        return args, kwargs | {"closure": cls(kwargs["closure"])}


def words_of_step(optimizer):
    """Which models it steps or, where it steps none of a known wrapper's, how many bytes of
    gradients it reads.
    """
    words = kept_models.words_of(optimizer)
    if not words:
        parameters = (p for group in optimizer.param_groups for p in group["params"])
        gradients = (recording.local(p.grad) for p in parameters if p.grad is not None)
        words = f"gradients={sum(g.numel() * g.element_size() for g in gradients)}"
    return words


class OptimizerSteps(threading.local):
    """Steps of optimizers, between the two hooks that torch calls around each."""

    def __init__(self):
        self.begun = []
        self.count = 0

    def before(self, optimizer, args, kwargs):
        reads.end()
        self.begun.append((recording.begin_call(), words_of_step(optimizer)))
        has_closure = closure_of(args, kwargs) is not None
        return CountedClosure.in_place(args, kwargs) if has_closure else None

    def after(self, optimizer, args, kwargs):
        self.count += 1
        begun, words = self.begun.pop()
        if isinstance(closure := closure_of(args, kwargs), CountedClosure):
            words = f"{words_of_step(optimizer)} closures={closure.runs}"
        fields = {"name": type(optimizer).__name__, "object": recording.number_of(optimizer)}
        peak = recording.gpu_peak.look()
        recording.end_call("optimizer_step", begun, detail=words, **fields, **peak)
        kept_models.forget()
        wait_for_watchdog(self.count)


optimizer_steps = OptimizerSteps()


@recording.guarded
def record_skipped(begun, steps_before, args, kwargs):
    optimizer = args[0] if args else kwargs["optimizer"]
    is_watched = isinstance(optimizer, recording.torch.optim.Optimizer)
    if is_watched and optimizer_steps.count == steps_before:
        fields = {"object": recording.number_of(optimizer), "detail": "skipped"}
        recording.end_call("optimizer_step", begun, name=type(optimizer).__name__, **fields)
