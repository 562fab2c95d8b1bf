"""What the training jobs beside this file share: data, a tiny model, and their own count.

    ddp.py NAME [fixed]              as one rank of a launcher
    ddp.py NAME [fixed] --forked     starts two ranks itself: torch.multiprocessing forks them

A job counts its collectives by itself, where torch dispatches them, and prints the count as its
last line: {"rank": 0, "collectives": {"all_reduce": {"count": 8, "bytes": 1344}}}. One that notes
what it holds of gradients between micro-batches adds the most of that, "held_bytes".
"""

import functools
import gc
import json
import os
import sys
import threading
from pathlib import Path

import torch
import torch.distributed as dist
import torch.multiprocessing
from torch.distributed.device_mesh import init_device_mesh
from torch.utils._python_dispatch import TorchDispatchMode

sys.path.append(str(Path(__file__).resolve().parents[1]))
sys.path.append(str(Path(__file__).resolve().parents[4] / "results" / "evidence" / "peers"))
import truths
from bucketing import Layers

STEPS = 6
ACCUMULATION_STEPS = 4
FEATURES = 12
FORKED = "--forked"
# Where jobs compute, those of by_mpi.py apart: "cpu" over gloo, or "cuda" over NCCL.
DEVICE = os.environ.get("GRADSYNC_JOB_DEVICE", "cpu")

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
    """Runs `main` in a process group, and counts."""

    @functools.wraps(main)
    def run():
        torch.set_num_threads(1)
        torch.manual_seed(0)
        if DEVICE == "cuda":
            torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
            torch.set_default_device(DEVICE)
        dist.init_process_group("gloo" if DEVICE == "cpu" else "nccl")
        own_count = OwnCount()
        with own_count:
            main()
        held = {"held_bytes": max(held_bytes)} if held_bytes else {}
        own = {"rank": dist.get_rank(), "collectives": own_count.sums}
        print(json.dumps(own | held | said), flush=True)
        # gloo's threads let go of Python's tensors, so they must end before the interpreter. A
        # group ends them once nothing refers to it. Else a rank aborts now and then.
        gc.collect()
        dist.destroy_process_group()

    return run


@counted
def run_rank():
    truths.called([word for word in sys.argv[1:] if word != FORKED])


def run():
    """Runs the job that the command line names."""
    if FORKED not in sys.argv:
        return run_rank()
    # The watcher comes with torch's first thread: here before the ranks are forked.
    thread = threading.Thread()
    thread.start()
    thread.join()
    return torch.multiprocessing.start_processes(run_forked, nprocs=2, start_method="fork")


def run_forked(rank):
    os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "2"}
    run_rank()


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


def make_slow_model(layers=8, width=1024, backward_s=0.005):
    """Layers of equal size, each of which takes its time in backward."""
    slow = Layers(layers, width, backward_s)
    return torch.nn.Sequential(torch.nn.Linear(FEATURES, width), slow, torch.nn.Linear(width, 1))


def sgd(model):
    return torch.optim.SGD(model.parameters(), lr=0.01)


def finish(optimizer):
    """Ends a step."""
    optimizer.step()
    optimizer.zero_grad()


def average(tensors):
    """Averages each over all ranks, by hand."""
    for tensor in tensors:
        dist.all_reduce(tensor)
        tensor /= dist.get_world_size()


def make_hybrid(**options):
    """A model sharded over two ranks and replicated over two, in two units."""
    from torch.distributed.fsdp import fully_shard

    model = make_model()
    mesh = init_device_mesh(DEVICE, (2, 2), mesh_dim_names=("dp_replicate", "dp_shard"))
    fully_shard(model[0], mesh=mesh, **options)
    return fully_shard(model, mesh=mesh, **options)


def make_tensor_parallel():
    """A model of which layers are split over two ranks, and these sharded over two."""
    from torch.distributed.fsdp import fully_shard
    from torch.distributed.tensor import parallel

    mesh = init_device_mesh(DEVICE, (2, 2), mesh_dim_names=("dp", "tp"))
    layers = {"0": parallel.ColwiseParallel(), "2": parallel.RowwiseParallel()}
    model = parallel.parallelize_module(make_model(), mesh["tp"], layers)
    return fully_shard(model, mesh=mesh["dp"])


def batches(count):
    """Yields inputs and targets, other ones on each rank."""
    generator = torch.Generator(DEVICE).manual_seed(1 + dist.get_rank())
    for _ in range(count):
        yield torch.randn(8, FEATURES, generator=generator), torch.randn(8, 1, generator=generator)


def windows(steps=STEPS, accumulation_steps=ACCUMULATION_STEPS):
    """Yields for each step its micro-batches, as (is_last, inputs, targets)."""
    data = batches(steps * accumulation_steps)
    for _ in range(steps):
        yield [(i == accumulation_steps - 1, *next(data)) for i in range(accumulation_steps)]
