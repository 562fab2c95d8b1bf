#!/usr/bin/env python3
"""Predicts every way that `gradsync advise` compares, then runs them all, then writes the page.

    results/advise/make.py predict      predictions.json, which is committed before the next
    results/advise/make.py measure      runs the plan advise_ways: measured.json
    results/advise/make.py text         README.md, from what is stored

What the first two need, and the constants of links and host, are results/held_out's.
"""

import functools
import json
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "held_out"))
import make as held_out  # noqa: E402

PLAN = "advise_ways"
BEGIN, END = "<!-- advise -->", "<!-- end of advise -->"
SHOWN = 8  # rows of the page
# What a way is told by, beside its wrapper and strategy.
OPTIONS = (
    "bucket_cap_bytes",
    "compression",
    "gradient_as_bucket_view",
    "reduce_dtype",
    "reshard_after_forward",
    "reshard_after_backward",
)


write = functools.partial(held_out.write, folder=HERE)
stored = functools.partial(held_out.stored, folder=HERE)


def predict():
    rows = held_out.predictions_with(PLAN, held_out.HERE / "links.json")
    kept = ("cell", "step_s", "interval90_s")
    write("predictions.json", [{name: row[name] for name in kept} for row in rows])


def measure():
    held_out.refuse_uncommitted(HERE / "predictions.json")
    run = held_out.measured(PLAN)
    write("measured.json", {name: run[name] for name in ("context", "cells")})


def rows():
    """(cell, predicted seconds, measured seconds) of each way that ran, the first choice first."""
    measured = {
        json.dumps(cell["cell"], sort_keys=True): cell["step_s"]
        for cell in stored("measured.json")["cells"]
    }
    found = [
        (row["cell"], row["step_s"], measured[json.dumps(row["cell"], sort_keys=True)])
        for row in stored("predictions.json")
    ]
    return sorted((row for row in found if row[2] is not None), key=lambda row: row[1])


def way_text(cell):
    said = [f"{name}={cell[name]}" for name in OPTIONS if cell.get(name) not in (None, 0, "none")]
    return ", ".join([f"{cell['wrapper']} {cell['strategy']}", *said])


def made():
    """The lines between the page's marks."""
    all_rows = rows()
    fastest = min(all_rows, key=lambda row: row[2])
    first = all_rows[0]
    places = sorted(row[2] for row in all_rows)
    context = stored("measured.json")["context"]
    slower = f"{100 * (first[2] / fastest[2] - 1):.1f} %"
    lines = [
        f"**The first of {len(all_rows)} ways takes {first[2]:.3f} s, {slower} more than the "
        f"fastest, and is number {places.index(first[2]) + 1} of them.**",
        "",
        "| foretold as | way | predicted, s | measured, s | measured as |",
        "|--:|:--|--:|--:|--:|",
    ]
    for place, (cell, predicted, measured) in enumerate(all_rows[:SHOWN], 1):
        number = places.index(measured) + 1
        lines.append(
            f"| {place} | {way_text(cell)} | {predicted:.3f} | {measured:.3f} | {number} |"
        )
    errors = [abs(predicted / measured - 1) for _, predicted, measured in all_rows]
    lines += [
        "",
        f"The fastest is {way_text(fastest[0])}: {fastest[2]:.3f} s. All {len(all_rows)} are "
        f"{100 * sum(errors) / len(errors):.1f} % off in the mean, without sign, and "
        f"{100 * max(errors):.1f} % at most.",
        "",
        f"Measured from {context['start_time']} to {context['end_time']}, on {context['cpus']} "
        f"processors whose load average was {context['load_1min']} before; one launch, two timed "
        "steps of each.",
    ]
    return lines


def page():
    head, rest = (HERE / "README.md").read_text().split(BEGIN + "\n")
    return head + "\n".join([BEGIN, "", *made(), "", END]) + rest.split(END)[1]


def text():
    (HERE / "README.md").write_text(page())


if __name__ == "__main__":
    steps = {step.__name__: step for step in (predict, measure, text)}
    if len(sys.argv) != 2 or sys.argv[1] not in steps:
        sys.exit(__doc__)
    steps[sys.argv[1]]()
