"""Counts the collectives that this rank starts, as gradsync's ledger counts its own: by operation,
how many, of which types, and the bytes of the larger of the tensors that each one is given.
"""

from collections import defaultdict

from torch.utils._python_dispatch import TorchDispatchMode

# The name in the ledger, and which argument has the bytes that the ledger counts.
OPERATIONS = {
    "c10d.allreduce_.default": ("all_reduce", 0),
    "c10d._allgather_base_.default": ("all_gather", 0),
    "c10d._reduce_scatter_base_.default": ("reduce_scatter", 1),
}


class CountsCollectives(TorchDispatchMode):
    """While it is entered; also those that C++ starts on this thread, as DDP's Reducer does."""

    def __init__(self):
        super().__init__()
        self.counts = defaultdict(lambda: {"count": 0, "bytes": 0})
        self.dtypes = defaultdict(set)

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if str(func) in OPERATIONS:
            name, place = OPERATIONS[str(func)]
            given = args[place]
            tensors = given if isinstance(given, list | tuple) else [given]
            self.counts[name]["count"] += 1
            self.counts[name]["bytes"] += sum(tensor.nbytes for tensor in tensors)
            self.dtypes[name].update(tensor.dtype for tensor in tensors)
        return func(*args, **(kwargs or {}))
