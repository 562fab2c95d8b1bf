"""What can be compared under each wrapper. No torch."""

from dataclasses import dataclass

FOUR = ("baseline", "no_sync_improper", "no_sync", "accumulate")
# Peers that are gradsync itself: one gather at a time, and a recorded profile in the model's place.
NO_PREFETCH, REPLAY = "no_prefetch", "replay"
# What the others import.
MODULES = {
    "torch": ("torch", "transformers"),
    "accelerate": ("torch", "transformers", "accelerate"),
}


@dataclass(frozen=True)
class Wrapper:
    peers: tuple  # unless others are named
    more_peers: tuple
    strategies: tuple
    operations: tuple  # the collectives that must agree
    padding: float  # the part of the bytes by which they may differ


WRAPPERS = {
    "ddp": Wrapper(("torch", "accelerate"), (REPLAY,), FOUR, ("all_reduce",), padding=0.0),
    # fully_shard pads the first dimension of every parameter to a multiple of the ranks, gradsync
    # the elements of a unit.
    "fsdp": Wrapper(
        ("torch", NO_PREFETCH),
        (),
        (*FOUR, "sync_each_batch"),
        ("all_gather", "reduce_scatter"),
        padding=0.01,
    ),
}
STRATEGIES = WRAPPERS["fsdp"].strategies  # of all
PEERS = (*MODULES, NO_PREFETCH, REPLAY)
