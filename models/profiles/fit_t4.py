#!/usr/bin/env python3
"""Fits the paced twin to the guide's slowdown table and writes what the twin reads.

One step of m micro-batches, of which s synchronize, takes  m c + s a  seconds: c is the
compute of a micro-batch, a what a synchronization adds to it. The law is linear in c and
in the a of each set-up, so the fit is a weighted linear least squares. Each a is then
turned into a link rate by inverting a queue: DDP's buckets become ready during backward
and cross the link one after the other; a is the time by which the last one outlasts it.

This is calibration, not proof: three parameters meet five distinct cells. results/evidence/fit.md
says what was fitted, from what, and with which misfit.

Source: results/reference/slowdown_table.json (the published cells and their raw runs).
"""

import argparse
import statistics
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from bert_base import ENCODER_LAYERS, buckets
from published_table import SETUPS, FitError, read_cells
from scipy import optimize, stats
from twin_files import files

ROOT = Path(__file__).resolve().parents[2]
REFERENCE = Path("results/reference/slowdown_table.json")
RANKS = 2
FORWARD_SHARE = 1 / 3
# What a topology's rate, the line's, leaves for TCP's payload (1500-byte MTU, timestamps).
PAYLOAD_SHARE = 1448 / 1514
MEAN_ERROR_LIMIT = 0.06
# What the real engine adds to a synchronization beyond the wire (hooks, copies, hand-overs between
# threads): the twin's step minus the law's, per synchronization, on two cores at scale 50.
ENGINE_S = 0.010
WEIGHTS = ("uncertainty", "relative")
PAYLOAD_RATES = (1e6, 1e14)  # bytes/s, between which a link's rate is looked for


@dataclass(frozen=True)
class Twin:
    """The three fitted numbers, rounded as the files hold them."""

    layer_forward_s: float
    line_gbps: dict

    @property
    def layer_backward_s(self):
        return round(self.layer_forward_s * (1 / FORWARD_SHARE - 1), 6)

    @property
    def micro_batch_s(self):
        return ENCODER_LAYERS * (self.layer_forward_s + self.layer_backward_s)

    def payload_bytes_per_s(self, setup):
        return self.line_gbps[setup] * 1e9 * PAYLOAD_SHARE / 8

    def step_s(self, cell):
        wire_s = exposed_s(self.micro_batch_s, self.payload_bytes_per_s(cell.setup))
        added = wire_s + ENGINE_S
        return cell.micro_batches * self.micro_batch_s + cell.syncs * added


# --- The law ---------------------------------------------------------------------------


def exposed_s(micro_batch_s, payload_bytes_per_s):
    """Returns by how much the last all-reduce outlasts backward.

    gloo works on two buckets at a time; they share the link, so the last byte arrives
    when it would one bucket after the other.
    """
    backward_s = (1 - FORWARD_SHARE) * micro_batch_s
    traffic = 2 * (RANKS - 1) / RANKS
    link_free_s = 0.0
    for share, size in buckets():
        start_s = max(share * backward_s, link_free_s)
        link_free_s = start_s + traffic * size / payload_bytes_per_s
    return max(link_free_s - backward_s, 0.0)


def rate_for(micro_batch_s, added_s):
    """Returns the payload rate (bytes/s) at which a synchronization adds `added_s`."""
    slowest, fastest = (exposed_s(micro_batch_s, rate) for rate in PAYLOAD_RATES)
    if not fastest <= added_s <= slowest:
        raise FitError(f"a synchronization adds {added_s:.4f} s: no link rate gives that")
    exponent = optimize.brentq(
        lambda x: exposed_s(micro_batch_s, 10**x) - added_s, *np.log10(PAYLOAD_RATES)
    )
    return 10**exponent


def least_squares(cells, weights):
    """Returns [c, a of each set-up]: copies are left out, they would count twice."""
    distinct = [cell for cell in cells if cell.copy_of is None]
    means = np.array([cell.mean_s for cell in distinct])
    errors = np.array([stats.sem(cell.runs_s) for cell in distinct])
    scale = means if weights == "relative" else errors
    syncs = [[cell.syncs * (cell.setup == setup) for setup in SETUPS] for cell in distinct]
    law = np.column_stack([[cell.micro_batches for cell in distinct], syncs])
    return np.linalg.lstsq(law / scale[:, np.newaxis], means / scale, rcond=None)[0].tolist()


def fit(cells, weights=WEIGHTS[0]):
    """Returns the Twin. Weights: `relative` (published means) or `uncertainty` (raw runs)."""
    micro_batch_s, *added_s = least_squares(cells, weights)
    layer_forward_s = round(micro_batch_s * FORWARD_SHARE / ENCODER_LAYERS, 6)
    line = {}
    for setup, added in zip(SETUPS, added_s, strict=True):
        payload_bits = rate_for(micro_batch_s, added - ENGINE_S) * 8
        line[setup] = round(payload_bits / PAYLOAD_SHARE / 1e9, 2)
    return Twin(layer_forward_s, line)


# --- What is printed -------------------------------------------------------------------


def mean_error(twin, cells):
    return statistics.fmean(abs(twin.step_s(cell) / cell.mean_s - 1) for cell in cells)


def violations(twin, cells):
    """Returns what the fit must keep and does not, one sentence each."""
    found = []
    for cell in cells:
        low, high = cell.interval_s
        if not low <= twin.step_s(cell) <= high:
            found.append(
                f"{cell.setup} {cell.strategy}: the law's {twin.step_s(cell):.3f} s is "
                f"outside the raw runs' 95 % interval [{low:.3f}, {high:.3f}]"
            )
    if mean_error(twin, cells) >= MEAN_ERROR_LIMIT:
        found.append(f"mean absolute error is not under {MEAN_ERROR_LIMIT:.0%}")
    return found


def headroom_s(twin, cells):
    """Returns what the engine may add to each synchronization before a cell leaves its
    interval; the law has none of that."""
    return min((cell.interval_s[1] - twin.step_s(cell)) / cell.syncs for cell in cells)


def cell_line(twin, cell):
    law, (low, high) = twin.step_s(cell), cell.interval_s
    note = f"copy of {cell.copy_of}" if cell.copy_of else ""
    return (
        f"{cell.setup:12}{cell.strategy:18}{cell.mean_s:7.2f}   [{low:5.3f}, {high:5.3f}]"
        f"{law:8.3f}{law / cell.mean_s - 1:+8.1%}  {note}".rstrip()
    )


def one_sided(twin, cell):
    """Returns a sentence where all raw runs lie on one side of the law, else None."""
    law, runs = twin.step_s(cell), ", ".join(f"{run:.2f}" for run in cell.runs_s)
    side = "above" if min(cell.runs_s) > law else "below" if max(cell.runs_s) < law else None
    return side and (
        f"All {len(cell.runs_s)} raw {cell.setup} {cell.strategy} runs ({runs}) lie "
        f"{side} the law's {law:.3f} s."
    )


def report(twin, cells):
    """Returns the text the program prints."""
    lines = [f"compute: c = {twin.micro_batch_s:.4f} s per micro-batch"]
    for setup in SETUPS:
        rate = twin.payload_bytes_per_s(setup)
        lines.append(
            f"{setup}: line {twin.line_gbps[setup]:.2f} Gbit/s, payload {rate * 8e-9:.2f} "
            f"Gbit/s; a synchronization adds {exposed_s(twin.micro_batch_s, rate):.4f} s on the "
            f"wire and {ENGINE_S:.3f} s in the engine"
        )
    sizes = [size for _, size in buckets()]
    lines.append(f"per synchronization: {len(sizes)} buckets, {sum(sizes) / 1e6:.1f} MB\n")
    lines.append(f"{'set-up':12}{'strategy':18}  guide   95 % (t, n=3)      law  misfit   (s/step)")
    lines += [cell_line(twin, cell) for cell in cells]
    copies = [cell for cell in cells if cell.copy_of]
    lines.append(
        f"\nMean absolute error over the {len(cells)} cells: {mean_error(twin, cells):.1%}. "
        f"Calibration, not proof: {len(copies)} of the {len(cells)} cells are copies of "
        f"others, so {1 + len(SETUPS)} parameters meet {len(cells) - len(copies)} "
        "distinct cells."
    )
    lines.append(
        f"Headroom: {headroom_s(twin, cells) * 1e3:.1f} ms more per synchronization keep "
        "every cell inside its interval."
    )
    distinct = [cell for cell in cells if not cell.copy_of]
    lines += filter(None, (one_sided(twin, cell) for cell in distinct))
    return "\n".join(lines)


# --- The program -----------------------------------------------------------------------


def stale_files(twin, root):
    """Returns the paths whose text on disk is not what the fit writes."""
    wanted = files(twin).items()
    return [
        path
        for path, text in wanted
        if not (root / path).is_file() or (root / path).read_text() != text
    ]


def write_files(twin, root):
    for path, text in files(twin).items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)


def parse_arguments(arguments):
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--root", type=Path, default=ROOT, help="tree to write or check")
    parser.add_argument("--reference", type=Path, help=f"default: ROOT/{REFERENCE}")
    parser.add_argument("--weights", choices=WEIGHTS, default=WEIGHTS[0])
    action = parser.add_mutually_exclusive_group()
    action.add_argument("--write", action="store_true", help="write the twin's files")
    action.add_argument("--check", action="store_true", help="fail if they differ")
    return parser.parse_args(arguments)


def main(arguments=None):
    options = parse_arguments(arguments)
    try:
        cells = read_cells(options.reference or options.root / REFERENCE)
        twin = fit(cells, options.weights)
    except FitError as error:
        print(f"fit_t4: {error}", file=sys.stderr)
        return 2
    print(report(twin, cells))
    problems = violations(twin, cells)
    if options.check:
        stale = stale_files(twin, options.root)
        problems += [f"{path}: differs from the fit; run fit_t4.py --write" for path in stale]
    for problem in problems:
        print(f"fit_t4: {problem}", file=sys.stderr)
    if options.write and not problems:
        write_files(twin, options.root)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
