"""What a block communicates: each collective of this process, counted with its bytes."""

import contextlib
import os
from collections.abc import Mapping
from typing import NamedTuple

from gradsync import program
from gradsync.session import Session


class Collective(NamedTuple):
    count: int
    bytes: int | None  # None: not known


NONE = Collective(0, 0)


class Ledger(Mapping):
    """By operation: ledger["all_reduce"].count. Of one that never ran the count is 0. Filled when
    the block has ended.
    """

    def __init__(self):
        self.collectives = {}

    def __getitem__(self, operation):
        return self.collectives.get(operation, NONE)

    def __iter__(self):
        return iter(self.collectives)

    def __len__(self):
        return len(self.collectives)

    def __repr__(self):
        return f"Ledger({self.collectives})"

    @property
    def counts(self):
        """{"all_reduce": 4, ...}"""
        return {operation: seen.count for operation, seen in self.items()}

    def fill(self, before, after):
        for operation, seen in after.items():
            earlier = before.get(operation, NONE)
            if seen.count > earlier.count:
                self.collectives[operation] = difference(seen, earlier)


def difference(seen, earlier):
    is_known = None not in (seen.bytes, earlier.bytes)
    return Collective(seen.count - earlier.count, seen.bytes - earlier.bytes if is_known else None)


@contextlib.contextmanager
def ledger():
    """Counts what this process alone does, inside of a watched block or of none: Ledger.

    Errors: Unwatchable, since a test that counts must not pass uncounted.
    """
    counted = Ledger()
    around = Session.running
    watched = around or Session()
    try:
        before = totals(watched)
        yield counted
        counted.fill(before, totals(watched))
    finally:
        if around is None:
            watched.end()
            watched.remove()


def totals(watched):
    """Returns what this process took part in since its watching began, by operation."""
    ranks = program.seen(watched.folder)["ranks"]
    of_us = next((rank for rank in ranks if rank["pid"] == os.getpid()), {"collectives": {}})
    return {name: Collective(op["count"], op["bytes"]) for name, op in of_us["collectives"].items()}
