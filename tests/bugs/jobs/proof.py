"""What a run notes to prove the truth of its job, where BUGS_PROOF names a folder; else nothing.

A rank keeps a twin of the bare module. Of each micro-batch the twin says what its gradient should
contribute, without any wrapper. Before each step of an optimizer the rank keeps the gradient that
the optimizer reads, and behind it a hash of each parameter and buffer; in between it counts the
collectives that sum more than one number. `verify.py` compares all ranks' notes with the truth.
"""

import contextlib
import copy
import hashlib
import os

import torch
import torch.distributed as dist
from torch.distributed.tensor import DTensor
from torch.optim.optimizer import register_optimizer_step_pre_hook
from torch.utils._python_dispatch import TorchDispatchMode

SUMMING = (
    *("allreduce_", "allreduce_coalesced_", "reduce_scatter_", "_reduce_scatter_base_"),
    *("all_reduce", "all_reduce_", "reduce_scatter_tensor", "reduce_"),
)


class Count(TorchDispatchMode):
    """Counts the collectives that sum tensors of several numbers."""

    def __init__(self):
        super().__init__()
        self.reductions = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        if function.namespace in ("c10d", "_c10d_functional") and function._opname in SUMMING:
            tensors = [args[0]] if isinstance(args[0], torch.Tensor) else args[0]
            flat = [each[0] if isinstance(each, list) else each for each in tensors]
            self.reductions += any(t.is_floating_point() and t.numel() > 1 for t in flat)
        return function(*args, **(kwargs or {}))


def whole(tensor):
    """Returns the tensor without its shards, as a copy."""
    full = tensor.full_tensor() if isinstance(tensor, DTensor) else tensor
    return full.detach().clone()


class Proof:
    def __init__(self):
        self.folder = os.environ.get("BUGS_PROOF")
        self.nets, self.twins, self.wrapper = {}, {}, None
        self.steps, self.contributions, self.read = [], [], {}
        self.count = Count() if self.folder else contextlib.nullcontext()

    def start(self):
        if self.folder:
            register_optimizer_step_pre_hook(self.before_step)

    def follow(self, net, prefix=""):
        """Notes what becomes of a bare module, of which this is its name."""
        self.nets[prefix] = net
        if self.folder:
            self.twins[prefix] = copy.deepcopy(net)
        return net

    @contextlib.contextmanager
    def gathered(self, gradients=False):
        """FSDP1 keeps whole parameters only as long as it is asked to."""
        if self.wrapper is None:
            yield
            return
        from torch.distributed.fsdp import FullyShardedDataParallel as Fsdp

        if self.wrapper.training_state.name != "IDLE":
            yield
            return
        with Fsdp.summon_full_params(self.wrapper, writeback=False, with_grads=gradients):
            yield

    def named(self, of="parameters"):
        for prefix, net in self.nets.items():
            for name, each in getattr(net, "named_" + of)():
                yield ".".join(filter(None, (prefix, name))), each

    def contribute(self, meant):
        """Notes what a micro-batch should add to the gradient: that of `meant(twin, ...)`."""
        if not self.folder:
            return
        with self.gathered():
            now = {name: whole(each) for name, each in self.named()}
        own, params = self.contributions, {}
        for prefix, twin in self.twins.items():
            for name, each in twin.named_parameters():
                full = ".".join(filter(None, (prefix, name)))
                each.data.copy_(now[full])
                if each.requires_grad:
                    params[full] = each
        with torch.enable_grad():
            loss = meant(*self.twins.values())
        gradients = torch.autograd.grad(loss, list(params.values()), allow_unused=True)
        own.append({n: g.detach() for n, g in zip(params, gradients, strict=True) if g is not None})

    def note(self, gradients):
        """Notes what a micro-batch contributes where the job itself has that, by name."""
        if self.folder:
            self.contributions.append({n: g.detach().clone() for n, g in gradients.items()})

    def before_step(self, optimizer, args, kwargs):
        steps = {id(p) for group in optimizer.param_groups for p in group["params"]}
        with self.gathered(gradients=True):
            for name, each in self.named():
                if self.wrapper is not None or id(each) in steps:
                    gradient = None if each.grad is None else whole(each.grad)
                    if gradient is not None and name in self.read and self.is_again(name):
                        gradient = gradient + self.read[name]
                    self.read[name] = gradient

    def is_again(self, name):
        """An optimizer that steps in each micro-batch reads the gradient in parts."""
        return self.read[name] is not None

    def end_step(self):
        if not self.folder:
            return
        with self.gathered():
            both = [*self.named(), *self.named("buffers")]
            hashes = {name: digest(whole(each)) for name, each in both}
        kept = {"contributions": self.contributions, "read": self.read, "hashes": hashes}
        self.steps.append(kept | {"reductions": self.count.reductions})
        self.contributions, self.read, self.count.reductions = [], {}, 0

    def leave(self):
        if self.folder:
            torch.save(self.steps, os.path.join(self.folder, f"rank{dist.get_rank()}.pt"))


def digest(tensor):
    exact = tensor.float() if tensor.dtype == torch.bfloat16 else tensor
    return hashlib.sha1(exact.contiguous().numpy().tobytes()).hexdigest()


proof = Proof()
