"""Has a library of gradsync's record what torch's caching allocator does, where a job is asked
whether it fits (harness/fit/recorder/allocation_file.h): tells it what blocks hold, how modules are
called, and torch's message where memory is out.
"""

import ctypes
import gc
import os
import sys

import gradsync_watch_recording as recording
from gradsync_watch_recording import guarded, local

# What wrappers put between a module and what its model calls it.
WRAPPERS = ("module", "_fsdp_wrapped_module", "_checkpoint_wrapped_module", "_orig_mod")


class Allocations:
    """One process's."""

    def __init__(self, path):
        self.path = path
        self.library = None
        self.named = False

    def begin(self):
        """Call when torch has initialized its GPUs."""
        library = ctypes.CDLL(self.path)
        library.gradsync_record_allocations.restype = ctypes.c_bool
        library.gradsync_record_allocations.argtypes = [ctypes.c_char_p]
        for what in ("parameter", "gradient", "optimizer_state"):
            label = getattr(library, f"gradsync_label_{what}")
            label.argtypes = [ctypes.c_int, ctypes.c_uint64]
        folder = os.environ["GRADSYNC_WATCH_DIR"]
        file = os.path.join(folder, f"allocations-{os.getpid()}")
        if library.gradsync_record_allocations(os.fsencode(file)):
            self.library = library

    def mark_empty_cache(self):
        self.library.gradsync_mark_empty_cache(recording.torch.cuda.current_device())

    def mark_end(self):
        self.library.gradsync_mark_end(recording.torch.cuda.current_device())

    def label(self, tensor, what):
        tensor = local(tensor)
        if isinstance(tensor, recording.torch.Tensor) and tensor.is_cuda:
            address = tensor.untyped_storage().data_ptr()
            label = getattr(self.library, f"gradsync_label_{what}")
            label(tensor.device.index, address)

    def before_step(self, optimizer):
        if not self.named:
            self.see_modules()
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                self.label(parameter, "parameter")
                if parameter.grad is not None:
                    self.label(parameter.grad, "gradient")

    def after_step(self, optimizer):
        for state in list(optimizer.state.values()):
            for value in state.values() if isinstance(state, dict) else ():
                self.label(value, "optimizer_state")

    def see_modules(self):
        """Names them as the model that has them does: each module that no other one has."""
        module_class = recording.torch.nn.Module
        modules = [thing for thing in gc.get_objects() if issubclass(type(thing), module_class)]
        children = {id(child) for module in modules for child in module.children()}
        for module in modules:
            if id(module) in children:
                continue
            for name, inner in module.named_modules():
                words = [word for word in name.split(".") if word not in WRAPPERS]
                self.write("module", id(inner), type(inner).__name__, ".".join(words))
            for parameter in module.parameters():
                self.label(parameter, "parameter")
                if parameter.grad is not None:
                    self.label(parameter.grad, "gradient")
        self.named = True

    def out_of_memory(self, error):
        self.see_modules()
        self.write("oom", str(error).replace("\\", "\\\\").replace("\n", "\\n"))

    def write(self, *fields):
        line = "\t".join(str(field).replace("\t", " ").replace("\n", " ") for field in fields)
        self.library.gradsync_name_allocations(os.fsencode(line))


allocations = None


def is_on():
    return allocations is not None and allocations.library is not None


@guarded
def begin():
    allocations.begin()


@guarded
def before_step(optimizer, *_):
    if is_on():
        allocations.before_step(optimizer)


@guarded
def after_step(optimizer, *_):
    if is_on():
        allocations.after_step(optimizer)


@guarded
def at_end():
    if is_on():
        allocations.mark_end()


@guarded
def see_exception(error):
    if is_on() and isinstance(error, recording.torch.cuda.OutOfMemoryError):
        allocations.out_of_memory(error)


def watch_gpu(module):
    """`module`: torch.cuda."""
    global allocations
    path = os.environ.get("GRADSYNC_WATCH_ALLOCATIONS")
    if not path:
        return
    allocations = Allocations(path)
    module._lazy_call(begin)
    before = sys.excepthook

    def excepthook(kind, error, traceback):
        see_exception(error)
        before(kind, error, traceback)

    sys.excepthook = excepthook


def watch_memory(module, standing_for):
    """`module`: torch.cuda.memory."""
    original = module.empty_cache

    @standing_for(original)
    def empty_cache(*args, **kwargs):
        guarded(lambda: is_on() and allocations.mark_empty_cache())()
        return original(*args, **kwargs)

    module.empty_cache = empty_cache
