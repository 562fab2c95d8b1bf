"""What a parameter of an optimizer stands for: which tensor autograd accumulates into, and which
part of the whole this rank has. FSDP knows, of its shards; every other parameter stands for itself.
"""

import gc
import math
import sys
import weakref

from gradsync_watch_sketch import torch


class Whole:
    """A parameter that this rank has whole, or a DTensor of which it has rows."""

    def __init__(self, parameter, leaf):
        self.parameter = parameter
        self.leaf = weakref.ref(leaf)
        self.elements = math.prod(parameter.shape)

    def pieces(self, tensor):
        """(numbers, offset) of what this rank has of the parameter, or of its gradient."""
        if not hasattr(tensor, "to_local"):
            return [(tensor, 0)]
        from torch.distributed.tensor._utils import compute_local_shape_and_global_offset

        local = tensor.to_local()
        mesh, placements = tensor.device_mesh, tensor.placements
        _, starts = compute_local_shape_and_global_offset(tensor.shape, mesh, placements)
        split = [d for d in range(local.dim()) if local.shape[d] != tensor.shape[d]]
        if any(d > 0 for d in split) and local.numel():
            raise NotImplementedError("a parameter is sharded in another dimension than its first")
        row = math.prod(tensor.shape[1:])
        return [(local, starts[0] * row if local.dim() else 0)]

    def values(self):
        return self.pieces(self.parameter.detach())

    def gradients(self):
        gradient = self.parameter.grad
        return None if gradient is None else self.pieces(gradient)


class Flat:
    """FSDP1's flat parameter, of which the optimizer has this rank's shard, whole or in views."""

    def __init__(self, handle):
        self.handle = handle
        flat = handle.flat_param
        self.leaf = weakref.ref(flat)
        sizes = zip(flat._numels_with_padding, flat._is_padding_mask, strict=True)
        self.elements = sum(size for size, is_padding in sizes if not is_padding)

    def parts(self):
        flat, handle = self.handle.flat_param, self.handle
        start = handle.rank * flat._sharded_size.numel() if handle.uses_sharded_strategy else 0
        views = getattr(flat, "_params", None)
        if not views:
            return [(flat, start)]
        infos = flat._shard_param_infos
        return [
            (view, start + info.offset_in_shard)
            for view, info in zip(views, infos, strict=True)
            if info.in_shard
        ]

    def values(self):
        return [(part.detach(), offset) for part, offset in self.parts()]

    def gradients(self):
        parts = [(part.grad, offset) for part, offset in self.parts() if part.grad is not None]
        return parts or None


class Standing:
    """What each parameter of the job's optimizers stands for, found once for each."""

    def __init__(self):
        self.found = {}  # id of a parameter to (the parameter, weakly; what it stands for)
        self.names = {}

    def of_all(self, parameters):
        """Returns what each stands for. One search finds all that are new."""
        if not all(map(self.known, parameters)):
            self.search()
        for parameter in parameters:
            if self.known(parameter) is None:
                self.keep(parameter, Whole(parameter, parameter))
        return list(map(self.known, parameters))

    def known(self, parameter):
        reference, standing = self.found.get(id(parameter), (None, None))
        return standing if reference is not None and reference() is parameter else None

    def name_of(self, standing, fallback):
        leaf = standing.leaf()
        if isinstance(standing, Flat):
            return f"flat parameter {fallback}"
        for thing in (standing.parameter, leaf):
            if thing is not None and id(thing) in self.names:
                return self.names[id(thing)]
        return fallback

    def search(self):
        """Among all objects: FSDP's own know which tensor of autograd is a shard's whole."""
        fully = sys.modules.get("torch.distributed.fsdp._fully_shard._fsdp_param")
        flat = sys.modules.get("torch.distributed.fsdp._flat_param")
        modules = []
        for thing in gc.get_objects():
            kind = type(thing)  # not isinstance, which asks objects for what they claim to be
            if fully and kind is fully.FSDPParam:
                whole = getattr(thing, "_unsharded_param", None)
                if whole is not None:
                    self.keep(thing.sharded_param, Whole(thing.sharded_param, whole))
            elif flat and issubclass(kind, flat.FlatParamHandle):
                self.keep_flat(thing)
            elif issubclass(kind, torch().nn.Module):
                modules.append(thing)
        for module in outermost(modules):
            for name, parameter in module.named_parameters():
                self.names[id(parameter)] = plain_name(name)

    def keep(self, parameter, standing):
        self.found[id(parameter)] = (weakref.ref(parameter), standing)

    def keep_flat(self, handle):
        standing = Flat(handle)
        for parameter in getattr(handle.flat_param, "_params", None) or [handle.flat_param]:
            self.keep(parameter, standing)


def outermost(modules):
    """Those that are no child of another one."""
    inner = {id(child) for module in modules for child in module._modules.values()}
    return [module for module in modules if id(module) not in inner]


def plain_name(name):
    wrappers = ("module", "_fsdp_wrapped_module", "_orig_mod", "_checkpoint_wrapped_module")
    return ".".join(part for part in name.split(".") if part not in wrappers)
