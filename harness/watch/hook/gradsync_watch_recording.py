"""What the Python hook of gradsync watch records of a process, each call of the job as a line of
gradsync_watch_writer.py's file. Times are of CLOCK_MONOTONIC, in nanoseconds.

Nothing that goes wrong here reaches the job: the first exception ends the hook with a line that
says so, and the functions below do nothing from then on. gradsync_watch_hook.py has them called.
"""

import contextlib
import functools
import gc
import itertools
import os
import sys
import threading
import time
import weakref

# Both are set by gradsync_watch_hook.py: from start() on, and once the job has imported torch.
writer = None
torch = None


def now_ns():
    return time.monotonic_ns()


def guarded(record):
    """The function, which does nothing once the hook is off, and turns it off rather than let an
    exception out.
    """

    @functools.wraps(record)
    def safe(*args, **kwargs):
        if not writer.is_on:
            return None
        try:
            return record(*args, **kwargs)
        except Exception as error:
            with contextlib.suppress(Exception):
                reason = f"{type(error).__name__}: {error}"
                writer.stop(f"the Python hook stopped in {record.__name__}: {reason}")
            return None

    return safe


def is_passed_by():
    """Whether a call goes straight to torch: the hook is off, or a compiler is tracing."""
    return not writer.is_on or torch.compiler.is_compiling()


# ---- which object, and which line ------------------------------------------------------------

numbers = weakref.WeakKeyDictionary()
numbers_lock = threading.Lock()
next_number = itertools.count(1)


def forget_parent():
    """In the child of a fork: no thread of the parent's is there to give the lock back."""
    global numbers_lock
    numbers_lock = threading.Lock()
    writer.forget()


def number_of(thing):
    """A number for a model or an optimizer, from 1. Unlike id(), none is given twice."""
    with numbers_lock:
        if thing not in numbers:
            numbers[thing] = next(next_number)
        return numbers[thing]


def library_folders():
    """Folders whose code is not the job's own."""
    folders = [os.path.dirname(os.__file__), os.path.dirname(os.path.abspath(__file__))]
    folders += [p for p in sys.path if os.path.basename(p) in ("site-packages", "dist-packages")]
    folders.append(os.path.dirname(torch.__file__))
    return tuple(os.path.join(folder, "") for folder in folders)


@functools.cache
def is_library(file):
    if file.startswith("<"):  # frozen modules; what was given to python -c is the job's
        return file not in ("<string>", "<stdin>")
    return os.path.abspath(file).startswith(library_folders())


def call_site():
    """File and line of the innermost function of the job itself that led here."""
    frame = sys._getframe(1)
    while frame is not None:
        if not is_library(frame.f_code.co_filename):
            return {"file": frame.f_code.co_filename, "line": frame.f_lineno}
        frame = frame.f_back
    return {}


def write_span(kind, start_ns, **fields):
    span = {"start_ns": start_ns, "end_ns": now_ns(), "thread": threading.get_native_id()}
    writer.write(kind, **span, **fields)


# ---- what is recorded ------------------------------------------------------------------------


# What is told of a wrapped model, where it has it.
OPTIONS = {
    "DistributedDataParallel": (
        "find_unused_parameters",
        "static_graph",
        "broadcast_buffers",
        "bucket_bytes_cap",
        "gradient_as_bucket_view",
    ),
    "FullyShardedDataParallel": ("sharding_strategy",),
    "fully_shard": (),
    "replicate": (),
}
# Of fully_shard's models, as they are in torch 2.6 and later.
FLAGS = (
    "set_requires_gradient_sync",
    "set_requires_all_reduce",
    "set_reshard_after_backward",
    "set_is_last_backward",
)
# By module and name: the class of wrapped models, and what wraps them.
WRAPPED = {
    ("torch.nn.parallel.distributed", "DistributedDataParallel"): "DistributedDataParallel",
    (
        "torch.distributed.fsdp.fully_sharded_data_parallel",
        "FullyShardedDataParallel",
    ): "FullyShardedDataParallel",
    ("torch.distributed.fsdp._fully_shard._fully_shard", "FSDPModule"): "fully_shard",
    ("torch.distributed._composable.replicate_with_fsdp", "ReplicateModule"): "replicate",
}


@guarded
def record_earlier_wraps():
    """Of the models that were wrapped before anybody watched."""
    wrappers = {}
    for (module, cls), name in WRAPPED.items():
        if hasattr(sys.modules.get(module), cls):
            wrappers[getattr(sys.modules[module], cls)] = name
    for thing in gc.get_objects() if wrappers else ():
        for cls in type(thing).__mro__:
            if cls in wrappers:
                record_wrap(thing, wrappers[cls], OPTIONS[wrappers[cls]])
                break


@guarded
def record_wrap(model, name, options):
    """`options`: those attributes of the model that it has. `detail` of the line: these, and of DDP
    the size of the largest parameter.
    """
    values = {option: getattr(model, option) for option in options if hasattr(model, option)}
    gradients = [p for p in model.parameters() if p.requires_grad]
    is_whole = name == "DistributedDataParallel"  # of the others each rank has a share
    sizes = [p.numel() * p.element_size() for p in gradients] if is_whole else []
    size = sum(sizes) if is_whole else -1
    if sizes:
        values["largest_parameter_bytes"] = max(sizes)  # no bucket is smaller than what is in it
    detail = " ".join(f"{option}={str(value).lower()}" for option, value in values.items())
    fields = {"name": name, "object": number_of(model), "bytes": size, "detail": detail}
    write_span("wrap", now_ns(), **fields, **call_site())
    with contextlib.suppress(AttributeError):  # wrappers' own; else the collectives must tell
        for told in groups_of(model, name):
            write_group(**told)
    if is_whole:
        kept_models.add(model, gradients)


def wrapper_of(state):
    """The name of what made this state of FSDPState's, or of a class of it."""
    return "replicate" if "Replicate" in type(state).__name__ else "fully_shard"


def groups_of(model, name):
    """Yields what a wrapper knows of the process groups in which it reduces a model's gradients;
    of fully_shard see_shards() tells it.
    """
    if name == "DistributedDataParallel":
        yield {"group": model.process_group, "role": "data_parallel"}
    elif name == "FullyShardedDataParallel":
        replicas = getattr(model, "_inter_node_pg", None)
        is_whole = model.sharding_strategy.name == "NO_SHARD"
        role = "data_parallel" if is_whole else "shard"
        yield {"group": model.process_group, "role": role, "replicas": replicas}
        if replicas is not None:
            yield {"group": replicas, "role": "replicate"}


def groups_of_mesh(info):
    names = info.mesh.mesh_dim_names or ("",) * info.mesh.ndim
    replicas = getattr(info, "replicate_process_group", None)
    shards = getattr(info, "shard_process_group", None)
    if shards is not None:
        axis = names[info.shard_mesh_dim]
        yield {"group": shards, "role": "shard", "axis": axis, "replicas": replicas}
    if replicas is not None:
        role = "data_parallel" if shards is None else "replicate"
        yield {"group": replicas, "role": role, "axis": names[info.replicate_mesh_dim]}


def words_of(model, is_unsynced):
    words = [] if torch.is_grad_enabled() else ["no_grad"]
    words += [] if model.training else ["eval"]
    words += ["no_sync"] if is_unsynced(model) else []
    return " ".join(words)


class Count:
    """How often something was recorded."""

    count = 0


forwards, uses = Count(), Count()  # forwards with a gradient; uses of gradients between backwards


@guarded
def begin_forward(model, is_unsynced):
    return {"start_ns": now_ns(), "detail": words_of(model, is_unsynced), **call_site()}


@guarded
def end_forward(model, name, begun):
    if begun is not None:
        forwards.count += "no_grad" not in begun["detail"]
        see = SEEING.get(name)
        if see and number_of(model) not in writer.models:
            writer.models.add(number_of(model))
            see(model)
        write_span("forward", name=name, object=number_of(model), **begun)


@guarded
def begin_call():
    return {"start_ns": now_ns(), **call_site()}


@guarded
def end_call(kind, begun, **fields):
    if begun is not None:
        write_span(kind, **begun, **fields)


@guarded
def record_no_sync(kind, model):
    write_span(kind, now_ns(), object=number_of(model), **call_site())


@guarded
def record_comm_hook(model):
    write_span("comm_hook", now_ns(), object=number_of(model), **call_site())


@guarded
def record_flag(model, name, args, kwargs):
    value = args[0] if args else kwargs[name.removeprefix("set_")]
    fields = {"name": name, "object": number_of(model), "detail": "true" if value else "false"}
    write_span("sync", now_ns(), **fields, **call_site())


def write_group(group, role="", axis="", replicas=None):
    """`axis`: as the mesh calls it; `replicas`: the group in which a wrapper replicates shards."""
    if not isinstance(group, torch.distributed.ProcessGroup):
        return
    told = (group.group_name, role)
    if told in writer.groups:
        return
    writer.groups.add(told)
    ranks = torch.distributed.get_process_group_ranks(group)
    fields = {"axis": axis, "role": role, "replicas": replicas.group_name if replicas else ""}
    writer.write("group", name=group.group_name, ranks=ranks, **fields)


@guarded
def record_groups():
    """Of all process groups, where there are others than before. A mesh calls those of its axes
    "mesh_NAME", and "mesh_dim_0" and so on where its axes have no names.
    """
    distributed = sys.modules.get("torch.distributed.distributed_c10d")
    if distributed is None or writer.group_count == len(distributed._world.pg_names):
        return
    writer.group_count = len(distributed._world.pg_names)
    for group in list(distributed._world.pg_names):
        axis = getattr(group, "group_desc", "")
        is_named = axis.startswith("mesh_") and not axis.startswith(("mesh_dim_", "mesh_default"))
        write_group(group, axis=axis.removeprefix("mesh_") if is_named else "")


class GradientReads:
    """Reads of `Tensor.grad` by the job, between two backwards: who reads a gradient there needs it
    as it is then, synchronized. torch's own reads (clipping's, an optimizer's) do not count.

    While it looks, `grad` is a property of the Python class and not of the C one below it: from the
    end of a backward to the first read, the next backward or the optimizer, whichever comes first.
    """

    def __init__(self):
        self.is_looking = False

    def begin(self):
        if self.is_looking:
            return
        below = torch._C.TensorBase.grad

        def read(tensor):
            reads.see(sys._getframe(1).f_code.co_filename)
            return below.__get__(tensor)

        torch.Tensor.grad = property(read, below.__set__, below.__delete__)
        self.is_looking = True

    def end(self):
        if self.is_looking:
            self.is_looking = False
            del torch.Tensor.grad

    @guarded
    def see(self, file):
        if not file.startswith(torch_folder()) and file != __file__:
            self.end()
            record_use("read")


@functools.cache
def torch_folder():
    return os.path.join(os.path.dirname(torch.__file__), "")


@guarded
def record_use(how):
    uses.count += 1
    write_span("gradient_use", now_ns(), detail=how, **call_site())


reads = GradientReads()


def see_shards(model):
    """Tells of a model of fully_shard's, in its first forward, what is known of it from then on."""
    shards = []
    with contextlib.suppress(AttributeError):  # all of it is fully_shard's own
        for unit in units_of(model):
            for mesh in (unit.mesh_info, unit.post_forward_mesh_info):
                for told in groups_of_mesh(mesh) if mesh else ():
                    write_group(**told)
        parts = [part for unit in units_of(model) for part in unit.fsdp_params]
        trained = [part for part in parts if part.sharded_param.requires_grad]
        shards = [part.sharded_param for part in trained]
        writer.write("held_gradients", object=number_of(model), **held_gradients(trained))
    kept_models.add(model, shards)


def see_flat_shards(model):
    """The same of FSDP1's model."""
    with contextlib.suppress(AttributeError):  # all of it is FSDP1's own
        trained = [handle for handle in model._all_handles if handle.flat_param.requires_grad]
        writer.write("held_gradients", object=number_of(model), **held_by_flat(trained))


SEEING = {
    "fully_shard": see_shards,
    "replicate": see_shards,
    "FullyShardedDataParallel": see_flat_shards,
}


def units_of(model):
    """Those parts of a model that are gathered and reduced together."""
    states = [m._get_fsdp_state() for m in model.modules() if hasattr(m, "_get_fsdp_state")]
    units = {id(state): state._fsdp_param_group for state in states}.values()
    return [unit for unit in units if unit is not None]


def held_gradients(parts):
    """Bytes that a rank holds between micro-batches: of its shards, in their own type; of the same
    as reduce-scatter leaves them; of whole gradients that nobody has reduced yet. Shards are padded
    to equal parts of the first dimension.
    """
    shard, reduced, whole = 0, 0, 0
    for part in parts:
        size = (part.reduce_dtype or part.param_dtype or part.orig_dtype).itemsize
        padded = part.padded_sharded_param_size.numel()
        shard += padded * part.orig_dtype.itemsize
        reduced += padded * size
        whole += part._orig_size.numel() * size
    return {"shard_bytes": shard, "reduced_bytes": reduced, "whole_bytes": whole}


def held_by_flat(handles):
    """The same of FSDP1's flat parameters, of which nothing is said of replicas: there is no flag.
    Where a forward leaves them gathered, so does a backward that reduces nothing.
    """
    shard, whole, gathered = 0, 0, 0
    for handle in handles:
        flat = handle.flat_param
        size = handle._fwd_bwd_param_dtype.itemsize
        whole += flat._unpadded_unsharded_size.numel() * size
        if handle.uses_sharded_strategy:
            shard += flat._sharded_size.numel() * handle._orig_param_dtype.itemsize
            if handle._sharding_strategy.name in ("SHARD_GRAD_OP", "_HYBRID_SHARD_ZERO2"):
                gathered += flat._padded_unsharded_size.numel() * size
        else:
            shard += flat._unpadded_unsharded_size.numel() * handle._orig_param_dtype.itemsize
    held = {"shard_bytes": shard, "reduced_bytes": -1, "whole_bytes": whole}
    return held | {"gathered_bytes": gathered}


def local(tensor):
    """What this rank has of it, without asking others."""
    return getattr(tensor, "_local_tensor", tensor)


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
        self.running = 0  # backwards, which may run others
        self.turn = 0

    def add(self, model, parameters):
        self.models[model] = (parameters, None)

    def look(self, parameters):
        gradient = None
        for parameter in parameters:
            if parameter.grad is not None:
                gradient = id(parameter.grad), local(parameter.grad)._version
                break
        versions = sum(local(parameter)._version for parameter in parameters)
        looked_at = (parameters[0], parameters[self.turn % len(parameters)]) if parameters else ()
        return gradient, (versions, *map(self.sum_of_some, looked_at))

    @classmethod
    def sum_of_some(cls, parameter):
        parameter = local(parameter)
        if parameter.device.type != "cpu" or not parameter.is_contiguous():
            return None
        flat = parameter.detach().reshape(-1)
        return flat[:: max(1, flat.numel() // cls.ELEMENTS)].sum().item()

    def before_backward(self):
        reads.end()
        self.running += 1
        if self.running > 1:
            return
        kept = [(parameters, left) for parameters, left in self.models.values() if left]
        changes = [(left, self.look(parameters)) for parameters, left in kept]
        if any(before[0] != now[0] for before, now in changes):
            write_span("zero_grad", now_ns(), detail="by_hand")
        elif any(before[1] != now[1] for before, now in changes):
            record_use("parameters")

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


@guarded
def begin_backward():
    kept_models.before_backward()
    return begin_call()


@guarded
def end_backward(kind, begun):
    end_call(kind, begun)
    kept_models.after_backward()


@guarded
def end_clearing(kind, begun):
    end_call(kind, begun)
    kept_models.forget()


class GpuPeak:
    """The most that this process's tensors held on its GPU, by torch's own statistics: asked where
    an optimizer steps, before the job resets them, and at the end.
    """

    def __init__(self):
        self.bytes = 0
        self.unknown = None

    def look(self):
        """Returns it as fields of an event; none where no GPU is in use, or it is not known."""
        cuda = sys.modules.get("torch.cuda")
        if self.unknown or cuda is None or not cuda.is_initialized():
            return {}
        try:
            self.bytes = max(self.bytes, cuda.max_memory_allocated())
        except Exception as error:  # an allocator of the job's own has no statistics
            self.unknown = f"torch has no statistics of its GPU: {type(error).__name__}: {error}"
            return {}
        return {"bytes": self.bytes}

    @guarded
    def before_reset(self):
        self.look()

    def write(self):
        fields = self.look()
        if fields and not self.unknown:
            cuda = sys.modules["torch.cuda"]
            used = [i for i in range(cuda.device_count()) if cuda.max_memory_allocated(i)]
            if len(used) > 1:
                self.unknown = f"its tensors are on {len(used)} GPUs"
        if self.unknown:
            fields = {"bytes": -1, "sentence": self.unknown}
        if fields:
            writer.write("gpu_peak", **fields)


gpu_peak = GpuPeak()


class OptimizerSteps(threading.local):
    """Steps of optimizers, between the two hooks that torch calls around each."""

    def __init__(self):
        self.begun = []
        self.count = 0

    def before(self, optimizer, args, kwargs):
        reads.end()
        self.begun.append(begin_call())

    def after(self, optimizer, args, kwargs):
        self.count += 1
        begun = self.begun.pop()
        name, number = type(optimizer).__name__, number_of(optimizer)
        end_call("optimizer_step", begun, name=name, object=number, **gpu_peak.look())
        kept_models.forget()


optimizer_steps = OptimizerSteps()


@guarded
def record_skipped(begun, steps_before, args, kwargs):
    optimizer = args[0] if args else kwargs["optimizer"]
    is_watched = isinstance(optimizer, torch.optim.Optimizer)
    if is_watched and optimizer_steps.count == steps_before:
        fields = {"object": number_of(optimizer), "detail": "skipped"}
        end_call("optimizer_step", begun, name=type(optimizer).__name__, **fields)
