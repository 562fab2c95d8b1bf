"""The wrappers that by_policy.py trains under: each a way to make a model of a shape, and what may
be asked of it. All are for four ranks but fully_shard_hybrid_tensor, which is for eight.
"""

import itertools
import random
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FullyShardedDataParallel, ShardingStrategy, fully_shard
from torch.distributed.fsdp.wrap import ModuleWrapPolicy
from torch.distributed.tensor import parallel
from torch.nn.parallel import DistributedDataParallel

AXES = ("dp_replicate", "dp_shard")


@dataclass
class Shape:
    """What a seed changes: sizes, how many layers, and how many micro-batches a step has."""

    accumulation_steps: int
    layers: int
    features: int
    samples: int  # of a micro-batch
    wrong: int  # of the micro-batches, which is not the last

    @classmethod
    def of(cls, seed):
        draw = random.Random(seed)
        accumulation_steps = draw.randint(2, 5)
        return cls(
            accumulation_steps,
            layers=draw.randint(2, 4),
            features=2 * draw.randint(5, 15),
            samples=draw.randint(4, 12),
            wrong=draw.randrange(accumulation_steps - 1),
        )


class Model(torch.nn.Module):
    """Has a forward of its own: torch.compile compiles none of torch's beneath DDP."""

    def __init__(self, shape):
        super().__init__()
        sizes = [shape.features] * shape.layers + [1]
        pairs = itertools.pairwise(sizes)
        self.layers = torch.nn.ModuleList(torch.nn.Linear(*pair) for pair in pairs)

    def forward(self, inputs):
        for layer in self.layers:
            inputs = layer(torch.relu(inputs))
        return inputs


def in_units(model, wrap, **options):
    """Each layer is a unit of its own, and the model has what is left: the last one."""
    for layer in model.layers[:-1]:
        wrap(layer, **options)
    return wrap(model, **options)


def sharded(shape):
    return in_units(Model(shape), fully_shard)


def hybrid(shape):
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=AXES)
    return in_units(Model(shape), fully_shard, mesh=mesh)


def split(shape, mesh):
    """Layers by turns over the columns and the rows of their weights; an odd one is whole."""
    model = Model(shape)
    ways = (parallel.ColwiseParallel, parallel.RowwiseParallel)
    pairs = 2 * (shape.layers // 2)
    plan = {f"layers.{i}": ways[i % 2]() for i in range(pairs)}
    return parallel.parallelize_module(model, mesh, plan)


def sharded_and_split(shape):
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    return in_units(split(shape, mesh["tp"]), fully_shard, mesh=mesh["dp"])


def hybrid_and_split(shape):
    mesh = init_device_mesh("cpu", (2, 2, 2), mesh_dim_names=(*AXES, "tp"))
    return in_units(split(shape, mesh["tp"]), fully_shard, mesh=mesh[AXES])


def replicated(shape):
    from torch.distributed._composable.replicate_with_fsdp import replicate

    return in_units(Model(shape), replicate)


def replicated_and_split(shape):
    from torch.distributed._composable.replicate_with_fsdp import replicate

    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    return in_units(split(shape, mesh["tp"]), replicate, mesh=mesh["dp"])


def replicated_over_ddp(shape):
    from torch.distributed._composable.replicate import replicate

    return replicate(Model(shape))


def fsdp1(strategy):
    def make(shape):
        is_hybrid = strategy.endswith(("HYBRID_SHARD", "ZERO2"))
        mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=AXES) if is_hybrid else None
        return FullyShardedDataParallel(
            Model(shape),
            device_id=torch.device("cpu"),
            device_mesh=mesh,
            sharding_strategy=ShardingStrategy[strategy],
            auto_wrap_policy=ModuleWrapPolicy({torch.nn.Linear}),
            use_orig_params=True,
        )

    return make


def ddp(shape):
    return DistributedDataParallel(Model(shape))


def in_several_graphs(shape):
    """Buckets so small that DDPOptimizer cuts the model between its layers."""
    layer_bytes = 4 * shape.features * (shape.features + 1)
    dist._DEFAULT_FIRST_BUCKET_BYTES = layer_bytes  # no more than the others, says DDPOptimizer
    return DistributedDataParallel(Model(shape), bucket_cap_mb=layer_bytes / 2**20)


@dataclass
class Wrapper:
    make: object
    is_flagged: bool = False  # it has set_requires_gradient_sync in place of no_sync
    has_units: bool = False  # each layer is reduced by itself
    backend: str = ""  # of torch.compile
    compiles_autograd: bool = False
    is_in_a_function: bool = False  # which is what is compiled
    optimize_ddp: object = True  # as torch._dynamo's configuration has it


WRAPPERS = {
    "fully_shard": Wrapper(sharded, is_flagged=True, has_units=True),
    "fully_shard_hybrid": Wrapper(hybrid, is_flagged=True, has_units=True),
    "fully_shard_tensor": Wrapper(sharded_and_split, is_flagged=True, has_units=True),
    "fully_shard_hybrid_tensor": Wrapper(hybrid_and_split, is_flagged=True, has_units=True),
    "fsdp1": Wrapper(fsdp1("FULL_SHARD"), has_units=True),
    "fsdp1_hybrid": Wrapper(fsdp1("HYBRID_SHARD"), has_units=True),
    "fsdp1_hybrid_zero2": Wrapper(fsdp1("_HYBRID_SHARD_ZERO2"), has_units=True),
    "replicate": Wrapper(replicated, is_flagged=True, has_units=True),
    "replicate_tensor": Wrapper(replicated_and_split, is_flagged=True, has_units=True),
    "replicate_over_ddp": Wrapper(replicated_over_ddp, is_flagged=True),
    "ddp": Wrapper(ddp),
    "ddp_aot_eager": Wrapper(in_several_graphs, backend="aot_eager"),
    "ddp_inductor": Wrapper(in_several_graphs, backend="inductor"),
    "ddp_python_reducer": Wrapper(
        ddp, backend="aot_eager", compiles_autograd=True, optimize_ddp="python_reducer"
    ),
    "ddp_python_reducer_in_a_function": Wrapper(
        ddp,
        backend="aot_eager",
        compiles_autograd=True,
        is_in_a_function=True,
        optimize_ddp="python_reducer",
    ),
    "ddp_python_reducer_inductor": Wrapper(
        ddp, backend="inductor", compiles_autograd=True, optimize_ddp="python_reducer"
    ),
}
