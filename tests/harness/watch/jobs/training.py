"""What the training scripts beside this file share: data, a tiny model, and their own count.

A script counts its collectives by itself, where torch dispatches them, and prints the count as its
last line: {"rank": 0, "collectives": {"all_reduce": {"count": 8, "bytes": 1344}}}. One that notes
what it holds of gradients between micro-batches adds the most of that, "held_bytes".
"""

import functools
import gc
import json
import time

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.utils._python_dispatch import TorchDispatchMode

STEPS = 6
ACCUMULATION_STEPS = 4
FEATURES = 12

# c10d's operation -> its name in a sync ledger, and the argument that has its size.
OPERATIONS = {
    "allreduce_": ("all_reduce", 0),
    "broadcast_": ("broadcast", 0),
    "allgather_": ("all_gather", 0),
    "_allgather_base_": ("all_gather", 0),
    "reduce_scatter_": ("reduce_scatter", 1),
    "_reduce_scatter_base_": ("reduce_scatter", 1),
    "scatter_": ("scatter", 0),
    "send": ("send", 0),
    "recv_": ("recv", 0),
    "recv_any_source_": ("recv", 0),
    "barrier": ("barrier", None),
}
# The same of those that return what they make: None is that.
FUNCTIONAL = {
    "all_reduce": ("all_reduce", 0),
    "all_reduce_": ("all_reduce", 0),
    "all_reduce_coalesced": ("all_reduce", 0),
    "all_reduce_coalesced_": ("all_reduce", 0),
    "all_gather_into_tensor": ("all_gather", None),
    "reduce_scatter_tensor": ("reduce_scatter", 0),
}


def size_of(value):
    if isinstance(value, torch.Tensor):
        return value.numel() * value.element_size()
    return sum(size_of(each) for each in value)


class OwnCount(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.sums = {}

    @classmethod
    def ignore_compile_internals(cls):
        """Else torch.compile, which may not hide operators from a mode, would compile nothing."""
        return True

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        operation = function._schema.name.partition("::")[2]
        if function.namespace == "c10d":
            name, sized = OPERATIONS[operation]
            self.add(name, 0 if sized is None else size_of(args[sized]))
        elif function.namespace == "_c10d_functional" and operation in FUNCTIONAL:
            name, sized = FUNCTIONAL[operation]
            self.add(name, size_of(result if sized is None else args[sized]))
        return result

    def add(self, name, size):
        entry = self.sums.setdefault(name, {"count": 0, "bytes": 0})
        entry["count"] += 1
        entry["bytes"] += size


def counted(main):
    """Runs the script's `main` when the script does, in a process group, and counts."""

    @functools.wraps(main)
    def run():
        torch.set_num_threads(1)
        torch.manual_seed(0)
        dist.init_process_group("gloo")
        own_count = OwnCount()
        with own_count:
            main()
        held = {"held_bytes": max(held_bytes)} if held_bytes else {}
        own = {"rank": dist.get_rank(), "collectives": own_count.sums}
        print(json.dumps(own | held | said), flush=True)
        # Before the interpreter ends, so must gloo's threads, which let go of Python's tensors: a
        # group ends them when nobody has it any more. Else a rank aborts now and then.
        gc.collect()
        dist.destroy_process_group()

    return run


held_bytes = []
said = {}


def say(**fields):
    """Adds fields to the line that the script ends with."""
    said.update(fields)


def note_held(model):
    """Adds what the storages of all gradients hold now of a model that is fully_shard's. It reads
    them past Python's `grad`: a job that needs them between micro-batches is another one.
    """
    gradient_of = torch._C.TensorBase.grad.__get__
    shards = [module for module in model.modules() if hasattr(module, "_get_fsdp_state")]
    units = [module._get_fsdp_state()._fsdp_param_group for module in shards]
    gradients = [unit._partial_reduce_output for unit in units]
    for part in (part for unit in units for part in unit.fsdp_params):
        gradients += [gradient_of(part.sharded_param), part.unsharded_accumulated_grad]
        gradients.append(gradient_of(part._unsharded_param))
    tensors = [getattr(g, "_local_tensor", g) for g in gradients if g is not None]
    storages = {t.untyped_storage().data_ptr(): t.untyped_storage().nbytes() for t in tensors}
    held_bytes.append(sum(storages.values()))


def make_model(batch_norm=False):
    layers = [torch.nn.Linear(FEATURES, FEATURES), torch.nn.ReLU(), torch.nn.Linear(FEATURES, 1)]
    if batch_norm:
        layers.insert(1, torch.nn.BatchNorm1d(FEATURES))
    return torch.nn.Sequential(*layers)


class Slow(torch.autograd.Function):
    """Nothing, of which the backward computes for so many seconds, on no processor."""

    @staticmethod
    def forward(ctx, inputs, backward_s):
        ctx.backward_s = backward_s
        return inputs.clone()

    @staticmethod
    def backward(ctx, gradient):
        time.sleep(ctx.backward_s)
        return gradient, None


class SlowModel(torch.nn.Module):
    """Layers of equal size, of which each takes its time in backward."""

    def __init__(self, layers=8, width=1024, backward_s=0.005):
        super().__init__()
        self.first = torch.nn.Linear(FEATURES, width)
        self.layers = torch.nn.ModuleList(torch.nn.Linear(width, width) for _ in range(layers))
        self.last = torch.nn.Linear(width, 1)
        self.backward_s = backward_s

    def forward(self, inputs):
        values = self.first(inputs)
        for layer in self.layers:
            values = Slow.apply(torch.relu(layer(values)), self.backward_s)
        return self.last(values)


def make_hybrid(**options):
    """A model sharded over two ranks and replicated over two, in two units."""
    from torch.distributed.fsdp import fully_shard

    model = make_model()
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp_replicate", "dp_shard"))
    fully_shard(model[0], mesh=mesh, **options)
    return fully_shard(model, mesh=mesh, **options)


def make_tensor_parallel():
    """A model of which layers are split over two ranks, and these sharded over two."""
    from torch.distributed.fsdp import fully_shard
    from torch.distributed.tensor import parallel

    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    layers = {"0": parallel.ColwiseParallel(), "2": parallel.RowwiseParallel()}
    model = parallel.parallelize_module(make_model(), mesh["tp"], layers)
    return fully_shard(model, mesh=mesh["dp"])


def batches(count):
    """Yields inputs and targets, other ones on each rank."""
    generator = torch.Generator().manual_seed(1 + dist.get_rank())
    for _ in range(count):
        yield torch.randn(8, FEATURES, generator=generator), torch.randn(8, 1, generator=generator)


def windows(steps=STEPS, accumulation_steps=ACCUMULATION_STEPS):
    """Yields for each step its micro-batches, as (is_last, inputs, targets)."""
    data = batches(steps * accumulation_steps)
    for _ in range(steps):
        yield [(i == accumulation_steps - 1, *next(data)) for i in range(accumulation_steps)]
