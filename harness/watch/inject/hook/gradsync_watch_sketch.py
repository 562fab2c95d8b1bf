"""Sketches of tensors: the fixed random linear map of harness/account/sketch.h, at the speed
of memory. Nothing of it is seen by the job's own modes, or changes its state of random numbers.
"""

import contextlib
import functools

import gradsync_watch_recording as recording

BUCKETS = 64
ROW = 4096  # elements that share the sign of their row
ROW_SEED = 0x5851F42D4C957F2D
PLACE_SEED = 0x14057B7EF767814F
ROWS_AT_ONCE = 4


def signs_of(first, count, seed, device):
    """Returns the signs of the numbers from `first` on, as in sketch.cpp: 1 or -1, float32."""
    mask = 0x7FFFFFFF
    x = torch().arange(first, first + count, dtype=torch().int64, device=device)
    x = (x ^ (seed & mask)) & mask
    x = ((x ^ (x >> 15)) * 0x2C1B3C6D) & mask
    x = ((x ^ (x >> 12)) * 0x297A2D39) & mask
    x = x ^ (x >> 15)
    return (x & 1).to(torch().float32) * 2 - 1


def row_sign(row):
    """That of one number, worked out here: small tensors have no other, and there are many."""
    x = (row ^ ROW_SEED) & 0x7FFFFFFF
    for shift, factor in ((15, 0x2C1B3C6D), (12, 0x297A2D39)):
        x = ((x ^ (x >> shift)) * factor) & 0x7FFFFFFF
    return 2.0 * ((x ^ (x >> 15)) & 1) - 1


@functools.cache
def place_signs(device):
    return signs_of(0, ROW, PLACE_SEED, device).double()


def folded(places, low):
    """Numbers from place `low` of a row on, signed, into buckets."""
    signed = places.double() * place_signs(places.device)[low : low + places.numel()]
    before = low % BUCKETS
    behind = -(before + places.numel()) % BUCKETS
    return torch().nn.functional.pad(signed, (before, behind)).view(-1, BUCKETS).sum(0)


def sketch_of(tensor, offset=0):
    """The sketch of a tensor whose first element is element `offset` of the whole: 64 float64 on
    its device. It is read once.
    """
    flat = tensor.detach().reshape(-1)
    device, count = flat.device, flat.numel()
    sketch = torch().zeros(BUCKETS, dtype=torch().float64, device=device)
    head = min(-offset % ROW, count)
    rows = (count - head) // ROW
    tail = head + rows * ROW
    if head:
        sketch += row_sign(offset // ROW) * folded(flat[:head], offset % ROW)
    if rows:
        grid = flat[head:tail].view(rows, ROW)
        grid = grid if grid.dtype == torch().float64 else grid.float()
        signs = signs_of((offset + head) // ROW, rows, ROW_SEED, device).to(grid.dtype)
        sketch += folded(torch().mv(grid.t(), signs), 0)
    if tail < count:
        sketch += row_sign((offset + tail) // ROW) * folded(flat[tail:], 0)
    return sketch


class Sketches:
    """Of one tensor: the sum of what was added at each place, a (round, micro-batch). They are rows
    of one tensor: tensors of their own would take up half as much again.
    """

    def __init__(self):
        self.row_of, self.rows = {}, None

    def __len__(self):
        return len(self.row_of)

    def add(self, place, sketch):
        row = self.row_of.setdefault(place, len(self.row_of))
        if self.rows is None:
            self.rows = sketch.new_zeros(ROWS_AT_ONCE, BUCKETS)
        elif row == len(self.rows):
            self.rows = torch().cat((self.rows, sketch.new_zeros(ROWS_AT_ONCE, BUCKETS)))
        self.rows[row] += sketch

    def forget_until(self, last):
        """Drops those of rounds up to `last`."""
        kept = [place for place in self.row_of if place[0] > last]
        if len(kept) < len(self.row_of):
            rows = [self.rows[self.row_of[place]] for place in kept]
            self.rows = torch().stack(rows) if rows else None
            self.row_of = {place: row for row, place in enumerate(kept)}

    def in_order(self):
        """Returns [(place, sketch)]."""
        return [(place, self.rows[row]) for place, row in sorted(self.row_of.items())]


def torch():
    return recording.torch


@contextlib.contextmanager
def unseen_by_the_job():
    """No gradient, no autocast, no mode of the job's for what is computed here."""
    from torch.utils._python_dispatch import _disable_current_modes

    with torch().no_grad(), _disable_current_modes(), contextlib.ExitStack() as stack:
        for device in ("cpu", "cuda"):
            stack.enter_context(torch().autocast(device, enabled=False))
        yield
