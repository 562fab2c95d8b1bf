"""Who reduces the gradient of a parameter: which wrapper has it in its list, or why none has."""

import collections
import contextlib
import gc

import gradsync_watch_models as models
import gradsync_watch_recording as recording
from gradsync_watch_standing import outermost, plain_name

# `owner`: "wrapper" that reduces it; "shard" that a wrapper scatters; "ignored" by a wrapper, as
# the job wishes; "added" to a wrapped model later, or unfrozen; "buffer" of one; "none".
# `model`: the wrapped model's number; `group`: the name of the group in which it reduces.
Owner = collections.namedtuple("Owner", "owner model group", defaults=(0, ""))
NONE = Owner("none")


def owners():
    """By the id of each parameter and buffer in a wrapped model."""
    found, rest = {}, {}
    for model, (name, kept) in list(models.wrapped.items()):
        with contextlib.suppress(AttributeError):  # all of it is the wrappers' own
            if name == models.DDP:
                see_ddp(model, kept, found, rest)
            elif name == models.FSDP1:
                see_fsdp1(model, found, rest)
            else:
                see_units(model, found, rest)
    return rest | found  # what some wrapper has is not left out by another one


def see_ddp(model, kept, found, rest):
    number, group = recording.number_of(model), model.process_group.group_name
    for name, parameter in model.module.named_parameters():
        if name in model.parameters_to_ignore:
            rest[id(parameter)] = Owner("ignored", number, group)
        elif id(parameter) in kept:
            found[id(parameter)] = Owner("wrapper", number, group)
        else:
            rest[id(parameter)] = Owner("added", number, group)
    for buffer in model.module.buffers():
        rest[id(buffer)] = Owner("buffer", number, group)


def see_fsdp1(model, found, rest):
    number = recording.number_of(model)
    for handle in model._all_handles:
        kind = "shard" if handle.uses_sharded_strategy else "wrapper"
        owner = Owner(kind, number, handle.process_group.group_name)
        for parameter in getattr(handle.flat_param, "_params", None) or [handle.flat_param]:
            found[id(parameter)] = owner
    ignored = {id(parameter) for parameter in getattr(model, "_ignored_params", ())}
    for parameter in model.parameters():
        kind = "ignored" if id(parameter) in ignored else "added"
        rest.setdefault(id(parameter), Owner(kind, number))


def see_units(model, found, rest):
    number = recording.number_of(model)
    for unit in models.units_of(model):
        group, is_whole = group_of_unit(unit)
        for part in unit.fsdp_params:
            kind = "wrapper" if is_whole else "shard"
            found[id(part.sharded_param)] = Owner(kind, number, group)
    for parameter in model.parameters():
        rest.setdefault(id(parameter), Owner("added", number))


def group_of_unit(unit):
    """The group in which a unit's gradients are reduced, and whether its ranks have all of them."""
    info = unit.mesh_info
    shards = getattr(info, "shard_process_group", None)
    group = info.replicate_process_group if shards is None else shards
    return group.group_name, shards is None or shards.size() == 1


# ---- names -----------------------------------------------------------------------------------


def names_of(parameters):
    """By id, as the outermost module calls them: of wrapped models, and where that does not do of
    all modules there are.
    """
    names = {}
    for model in list(models.wrapped):
        add_names(model, names)
    if any(id(parameter) not in names for parameter in parameters):
        for module in outermost(list(all_modules())):
            add_names(module, names)
    return names


def add_names(module, names):
    with contextlib.suppress(Exception):  # modules of the job's may have ways of their own
        for name, thing in (*module.named_parameters(), *module.named_buffers()):
            names.setdefault(id(thing), plain_name(name))


def parameters_beside(parameters):
    """Yields the other parameters of the outermost modules that have some of these."""
    known = set(map(id, parameters))
    for module in outermost(list(all_modules())):
        with contextlib.suppress(Exception):  # modules of the job's may have ways of their own
            own = list(module.parameters())
            if not known.isdisjoint(map(id, own)):
                yield from (each for each in own if id(each) not in known)


def all_modules():
    for thing in gc.get_objects():
        # Not isinstance, which asks objects for what they claim to be.
        if issubclass(type(thing), recording.torch.nn.Module) and "_modules" in thing.__dict__:
            yield thing
