#!/usr/bin/env python3
"""Predicts every way that `gradsync advise` compares, then runs them all, then writes the page.

    results/advise/make.py predict SETUP      predictions.json, which is committed before the next
    results/advise/make.py measure SETUP      runs its plan: measured.json
    results/advise/make.py text               README.md, from what is stored; also of sent_again.py

SETUP is a folder beside this file; SETUPS says what it is. What the first two need, and the
constants of links and host, are results/held_out's.
"""

import json
import sys
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "held_out"))
import make as held_out  # noqa: E402

sys.path.insert(0, str(HERE))
import sent_again  # noqa: E402

sys.path.insert(0, str(HERE.parent))
from marked import between  # noqa: E402

BEGIN, END = "<!-- advise -->", "<!-- end of advise -->"
AGAIN = "<!-- sent again -->", "<!-- end of sent again -->"
SHOWN = 8  # rows of the page
# What a way is told by, beside its wrapper and strategy.
OPTIONS = (
    "bucket_cap_bytes",
    "compression",
    "gradient_as_bucket_view",
    "reduce_dtype",
    "reshard_after_forward",
    "reshard_after_backward",
    "hybrid_shard",
)


@dataclass(frozen=True)
class Setup:
    """Machines, and how many micro-batches a step has on each rank."""

    name: str  # of its folder
    what: str  # said of it on the page
    plan: str
    topology: str
    accumulation_steps: int
    links: str  # of results/held_out, with which it was predicted

    @property
    def folder(self):
        return HERE / self.name

    @property
    def links_file(self):
        return held_out.HERE / self.links / "links.json"

    @property
    def measured_file(self):
        return self.folder / "measured.json"


SETUPS = {
    each.name: each
    for each in (
        Setup(
            "t4_2x1",
            "two machines over 7.6 Gbit/s, two micro-batches",
            "advise_ways",
            "t4_2x1",
            2,
            "",
        ),
        Setup(
            "fast_line",
            "two machines over 20 Gbit/s, four micro-batches",
            "advise_ways_fast_line",
            "held_out_2x1_20gbit",
            4,
            "small_buckets",
        ),
        Setup(
            "two_axes",
            "two machines of two ranks, 8 Gbit/s to each, 6 between machines, two micro-batches",
            "advise_ways_two_axes",
            "held_out_2x2_two_rates",
            2,
            "small_buckets",
        ),
    )
}


def predict(setup):
    rows = held_out.predictions_with(setup.plan, setup.links_file)
    kept = ("cell", "step_s", "interval90_s")
    kept_rows = [{name: row[name] for name in kept} for row in rows]
    held_out.write("predictions.json", kept_rows, setup.folder)


def measure(setup):
    predictions = held_out.committed(setup.folder / "predictions.json")
    run = held_out.measured(setup.plan)
    kept = {name: run[name] for name in ("context", "cells")}
    held_out.write("measured.json", {"predictions": predictions} | kept, setup.folder)


def rows(setup):
    """(cell, predicted seconds, measured seconds) of each way that ran, the first choice first."""
    measured = {
        json.dumps(cell["cell"], sort_keys=True): cell["step_s"]
        for cell in held_out.page.stored("measured.json", setup.folder)["cells"]
    }
    found = [
        (row["cell"], row["step_s"], measured[json.dumps(row["cell"], sort_keys=True)])
        for row in held_out.page.stored("predictions.json", setup.folder)
    ]
    return sorted((row for row in found if row[2] is not None), key=lambda row: row[1])


def way_text(cell):
    said = [f"{name}={cell[name]}" for name in OPTIONS if cell.get(name) not in (None, 0, "none")]
    return ", ".join([f"{cell['wrapper']} {cell['strategy']}", *said])


def percent(share):
    return f"{100 * share:.1f} %"


def section(setup):
    """The lines of one set-up."""
    all_rows = rows(setup)
    fastest = min(all_rows, key=lambda row: row[2])
    first = all_rows[0]
    places = sorted(row[2] for row in all_rows)
    context = held_out.page.stored("measured.json", setup.folder)["context"]
    errors = [abs(predicted / measured - 1) for _, predicted, measured in all_rows]
    lines = [
        f"## {setup.what[0].upper()}{setup.what[1:]}",
        "",
        f"**The first of {len(all_rows)} ways takes {first[2]:.3f} s, "
        f"{percent(first[2] / fastest[2] - 1)} more than the fastest, and is number "
        f"{places.index(first[2]) + 1} of them.**",
        "",
        "| foretold as | way | predicted, s | measured, s | measured as |",
        "|--:|:--|--:|--:|--:|",
    ]
    for place, (cell, predicted, measured) in enumerate(all_rows[:SHOWN], 1):
        number = places.index(measured) + 1
        lines.append(
            f"| {place} | {way_text(cell)} | {predicted:.3f} | {measured:.3f} | {number} |"
        )
    return [
        *lines,
        "",
        f"The fastest is {way_text(fastest[0])}: {fastest[2]:.3f} s. All {len(all_rows)} are "
        f"{percent(sum(errors) / len(errors))} off in the mean, without sign, and "
        f"{percent(max(errors))} at most.",
        "",
        f"Measured from {context['start_time']} to {context['end_time']}, on {context['cpus']} "
        f"processors whose load average was {context['load_1min']} before; one launch, two timed "
        "steps of each.",
        "",
    ]


def ran():
    """The set-ups that were run."""
    return [setup for setup in SETUPS.values() if setup.measured_file.exists()]


def made():
    """The lines between the page's marks."""
    return [line for setup in ran() for line in section(setup)]


def page():
    made_again = between((HERE / "README.md").read_text(), (BEGIN, END), ["", *made()])
    return between(made_again, AGAIN, ["", *sent_again.lines()])


def text():
    (HERE / "README.md").write_text(page())


if __name__ == "__main__":
    steps = {step.__name__: step for step in (predict, measure)}
    if sys.argv[1:] == ["text"]:
        text()
    elif len(sys.argv) == 3 and sys.argv[1] in steps and sys.argv[2] in SETUPS:
        steps[sys.argv[1]](SETUPS[sys.argv[2]])
    else:
        sys.exit(__doc__)
