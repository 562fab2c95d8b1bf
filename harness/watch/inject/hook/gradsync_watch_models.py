"""Records wrapped models: their wrapping, forwards, process groups, and the bytes that a rank holds
of their gradients.
"""

import collections
import contextlib
import gc
import sys
import weakref

import gradsync_watch_recording as recording
from gradsync_watch_between import kept_models

# The methods of fully_shard's models that set flags, in torch 2.6 and later.
FLAGS = (
    "set_requires_gradient_sync",
    "set_requires_all_reduce",
    "set_reshard_after_backward",
    "set_is_last_backward",
)


# A model to (its wrapper's name, ids of what of it is trained when it is wrapped): DDP's list is
# made then.
wrapped = weakref.WeakKeyDictionary()
# A model of DDP's, which had them equal on all ranks then, to (weakly, version) of its matrices
# that are not trained.
frozen = weakref.WeakKeyDictionary()


@recording.guarded
def record_earlier_wraps():
    """Records the models that were wrapped before the hook was installed."""
    wrappers = {}
    for wrapper in WRAPPERS.values():
        if hasattr(sys.modules.get(wrapper.module), wrapper.cls):
            wrappers[getattr(sys.modules[wrapper.module], wrapper.cls)] = wrapper.name
    for thing in gc.get_objects() if wrappers else ():
        for cls in type(thing).__mro__:
            if cls in wrappers:
                record_wrap(thing, wrappers[cls])
                break


@recording.guarded
def record_wrap(model, name):
    """`detail` of the line: the options that the model has, and of a whole model the size of the
    largest parameter.
    """
    wrapper = WRAPPERS[name]
    options = [option for option in wrapper.options if hasattr(model, option)]
    values = {option: getattr(model, option) for option in options}
    parameters = getattr(model, "_module_parameters", None) or model.parameters()  # DDP's own
    gradients = [p for p in parameters if p.requires_grad]
    sizes = [p.numel() * p.element_size() for p in gradients] if wrapper.is_whole else []
    size = sum(sizes) if wrapper.is_whole else -1
    if sizes:
        values["largest_parameter_bytes"] = max(sizes)  # no bucket is smaller than what is in it
    detail = " ".join(f"{option}={str(value).lower()}" for option, value in values.items())
    fields = {"name": name, "object": recording.number_of(model), "bytes": size, "detail": detail}
    recording.write_span("wrap", recording.now_ns(), **fields, **recording.call_sites())
    wrapped[model] = (name, frozenset(map(id, gradients)))
    if wrapper.is_whole:
        frozen[model] = [(weakref.ref(p), p._version) for p in frozen_in(model)]
    with contextlib.suppress(AttributeError):  # wrappers' own; else the collectives must tell
        for told in wrapper.groups(model):
            write_group(**told)
    if wrapper.is_whole:
        kept_models.add(model, gradients)


def frozen_in(model):
    """Matrices alone: a frozen vector may hold statistics of each rank's own data."""
    for name, parameter in model.module.named_parameters():
        is_matrix = sum(size > 1 for size in parameter.shape) > 1
        is_left_out = name in model.parameters_to_ignore or parameter.is_inference()
        if is_matrix and not parameter.requires_grad and not is_left_out:
            yield parameter


def changed_frozen():
    """Those that the job has changed since by itself, as far as in-place changes tell."""
    for known in list(frozen.values()):
        for reference, version in known:
            parameter = reference()
            if parameter is None or parameter.requires_grad or parameter._version == version:
                continue
            yield parameter


def wrapper_of(state):
    """The name of what made this state of FSDPState's, or of a class of it."""
    return "replicate" if "Replicate" in type(state).__name__ else "fully_shard"


def groups_of_ddp(model):
    yield {"group": model.process_group, "role": "data_parallel"}


def groups_of_flat(model):
    """Yields the groups in which FSDP1 reduces a model's gradients."""
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
    words = [] if recording.torch.is_grad_enabled() else ["no_grad"]
    words += [] if model.training else ["eval"]
    return words + (["no_sync"] if is_unsynced(model) else [])


names_inside = weakref.WeakKeyDictionary()  # of models within others


def word_inside(model, outer):
    """What the outer model calls it."""
    if model not in names_inside:
        named = (name for name, module in outer.named_modules() if module is model)
        names_inside[model] = next(named, "").removeprefix("module.")
    return f"inside={names_inside[model]}"


@recording.guarded
def begin_forward(model, is_unsynced, around=()):
    """`around`: the wrapped models of which a forward runs, the outermost first."""
    if recording.torch.is_grad_enabled():
        kept_models.before_forward()
    words = words_of(model, is_unsynced) + [word_inside(model, each) for each in around[:1]]
    return {"start_ns": recording.now_ns(), "detail": " ".join(words), **recording.call_sites()}


@recording.guarded
def end_forward(model, name, begun, kind="forward"):
    if begun is not None:
        recording.forwards.count += "no_grad" not in begun["detail"]
        recording.forwards.is_of_evaluation = "eval" in begun["detail"]
        see = WRAPPERS[name].see if name in WRAPPERS else None
        if see and recording.number_of(model) not in recording.writer.models:
            recording.writer.models.add(recording.number_of(model))
            see(model)
        recording.write_span(kind, name=name, object=recording.number_of(model), **begun)


def write_group(group, role="", axis="", replicas=None):
    """`axis`: as the mesh calls it; `replicas`: the group in which a wrapper replicates shards."""
    if not isinstance(group, recording.torch.distributed.ProcessGroup):
        return
    told = (group.group_name, role)
    if told in recording.writer.groups:
        return
    recording.writer.groups.add(told)
    ranks = recording.torch.distributed.get_process_group_ranks(group)
    fields = {"axis": axis, "role": role, "replicas": replicas.group_name if replicas else ""}
    recording.writer.write("group", name=group.group_name, ranks=ranks, **fields)


@recording.guarded
def record_groups():
    """Of all process groups, where there are others than before. A mesh calls those of its axes
    "mesh_NAME", and "mesh_dim_0" and so on where its axes have no names.
    """
    distributed = sys.modules.get("torch.distributed.distributed_c10d")
    if distributed is None or recording.writer.group_count == len(distributed._world.pg_names):
        return
    recording.writer.group_count = len(distributed._world.pg_names)
    for group in list(distributed._world.pg_names):
        axis = getattr(group, "group_desc", "")
        is_named = axis.startswith("mesh_") and not axis.startswith(("mesh_dim_", "mesh_default"))
        write_group(group, axis=axis.removeprefix("mesh_") if is_named else "")


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
        recording.writer.write(
            "held_gradients", object=recording.number_of(model), **held_gradients(trained)
        )
    kept_models.add(model, shards)


def see_flat_shards(model):
    """The same of FSDP1's model."""
    with contextlib.suppress(AttributeError):  # all of it is FSDP1's own
        trained = [handle for handle in model._all_handles if handle.flat_param.requires_grad]
        recording.writer.write(
            "held_gradients", object=recording.number_of(model), **held_by_flat(trained)
        )


def units_of(model):
    """Returns the parts of a model that are each gathered and reduced as one."""
    states = [m._get_fsdp_state() for m in model.modules() if hasattr(m, "_get_fsdp_state")]
    units = {id(state): state._fsdp_param_group for state in states}.values()
    return [unit for unit in units if unit is not None]


def held_gradients(parts):
    """Returns the bytes of gradients that a rank holds between micro-batches: as shards in their
    own type, as shards that reduce-scatter leaves, and whole where nothing is reduced yet. Shards
    are padded to equal parts of the first dimension.
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
    """Returns the same for FSDP1's flat parameters, without replicas: there is no flag for them.
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


def is_ddp_unsynced(model):
    return not model.require_backward_grad_sync


# How the models of one wrapper are recorded. Their class is `cls` of `module`; `options` names the
# attributes to record; is_whole is whether each rank has all of a model; `groups` yields the
# process groups that a model knows once it is wrapped; `see` records in its first forward what is
# known only then. A class with a forward and a no_sync() of its own says by `is_unsynced` whether
# no_sync() holds in a forward, and by has_comm_hooks whether its communication hooks are recorded;
# is_unsynced is None where the wrapper has its own functions in gradsync_watch_wrapping.py.
# preload/wrappers.h says what verdicts make of it.
Wrapper = collections.namedtuple(
    "Wrapper",
    "name module cls options is_whole groups see is_unsynced has_comm_hooks",
    defaults=((), False, lambda model: (), None, None, False),
)
DDP_OPTIONS = (
    "find_unused_parameters",
    "static_graph",
    "broadcast_buffers",
    "bucket_bytes_cap",
    "gradient_as_bucket_view",
)
DDP, FSDP1 = "DistributedDataParallel", "FullyShardedDataParallel"
FSDP1_MODULE = "torch.distributed.fsdp.fully_sharded_data_parallel"
FULLY_SHARD_MODULE = "torch.distributed.fsdp._fully_shard._fully_shard"
REPLICATE_MODULE = "torch.distributed._composable.replicate_with_fsdp"
WRAPPERS = {
    wrapper.name: wrapper
    for wrapper in (
        Wrapper(
            DDP,
            "torch.nn.parallel.distributed",
            DDP,
            options=DDP_OPTIONS,
            is_whole=True,
            groups=groups_of_ddp,
            is_unsynced=is_ddp_unsynced,
            has_comm_hooks=True,
        ),
        Wrapper(
            FSDP1,
            FSDP1_MODULE,
            FSDP1,
            options=("sharding_strategy",),
            groups=groups_of_flat,
            see=see_flat_shards,
            is_unsynced=lambda model: False,  # it reads its flag in backward
        ),
        Wrapper("fully_shard", FULLY_SHARD_MODULE, "FSDPModule", see=see_shards),
        Wrapper("replicate", REPLICATE_MODULE, "ReplicateModule", see=see_shards),
    )
}
