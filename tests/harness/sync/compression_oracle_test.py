"""The sums that compression_test.cpp worked by hand are what torch's own hooks give."""

import os
import sys
import tempfile
import unittest

SKIPPED = 77

try:
    import torch
    import torch.distributed
    import torch.multiprocessing
    from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
except ImportError:
    print("skipped: this Python has no torch; run harness/setup --oracles")
    sys.exit(SKIPPED)

# By the hook: what a rank's gradients are, rank by rank, and what becomes of them.
CASES = [
    ("fp16_compress_hook", [[40000, 1, 3], [40000, 2, 4097]], [40000, 1.5, 2050]),
    ("bf16_compress_hook", [[40000, 1, 3], [40000, 2, 4097]], [39936, 1.5, 2048]),
    ("fp16_compress_hook", [[4097, 3, 0], [0, 3, 0], [0, 3, 0]], [1365, 3, 0]),
]


class GivenGradient(torch.nn.Module):
    """Its gradient is what it is called with."""

    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(3))

    def forward(self, gradient):
        return (self.weight * gradient).sum()


def rank_main(rank, hook, gradients, wanted, store):
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    torch.set_num_threads(1)
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{store}", rank=rank, world_size=len(gradients)
    )
    model = torch.nn.parallel.DistributedDataParallel(GivenGradient())
    model.register_comm_hook(None, getattr(default_hooks, hook))
    model(torch.tensor(gradients[rank], dtype=torch.float32)).backward()
    found = model.module.weight.grad.tolist()
    # Before the interpreter ends, so do the threads that run a hook's Python: the model holds them.
    del model
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()
    if found != wanted:
        raise AssertionError(f"{hook}: {found}, by hand {wanted}")
    # Without the interpreter's end, at which a thread of torch's that still runs ends the process.
    os._exit(0)


class CompressionOracleTest(unittest.TestCase):
    def test_sums_by_hand_are_those_of_torchs_hooks(self):
        for hook, gradients, wanted in CASES:
            with (
                self.subTest(hook=hook, ranks=len(gradients)),
                tempfile.TemporaryDirectory(prefix="gradsync_test_") as folder,
            ):
                torch.multiprocessing.spawn(
                    rank_main,
                    args=(hook, gradients, wanted, f"{folder}/store"),
                    nprocs=len(gradients),
                )


if __name__ == "__main__":
    unittest.main(verbosity=2)
