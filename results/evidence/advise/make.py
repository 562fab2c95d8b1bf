"""Predicts every way that `gradsync advise` compares, then runs them all, then writes the page.

    results/evidence/make.py advise predict SETUP   predictions.json, committed before the next
    results/evidence/make.py advise measure SETUP   runs its plan: measured.json
    results/evidence/make.py advise sent_again      sent_again.json (sent_again.py)

SETUP is a folder beside this file; SETUPS says what it is. What the first two need, and the
constants of links and host, are held_out's.
"""

from dataclasses import dataclass
from pathlib import Path

import stored
from advise import sent_again
from held_out import make as held_out

HERE = Path(__file__).resolve().parent
BEGIN, END = "<!-- advise -->", "<!-- end of advise -->"
AGAIN = "<!-- sent again -->", "<!-- end of sent again -->"
SHOWN = 8  # rows of the page
# The parameters that name a way, beside its wrapper and strategy.
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
    topology: str
    accumulation_steps: int
    links: str  # of held_out, with which it was predicted

    @property
    def folder(self):
        return HERE / self.name

    @property
    def plan(self):
        return self.folder / "plan.json"

    @property
    def topology_file(self):
        folders = (HERE.parent / "topologies", held_out.ROOT / "benchmarks" / "topologies")
        files = (folder / f"{self.topology}.json" for folder in folders)
        return next(file for file in files if file.exists())

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
            "t4_2x1",
            2,
            "",
        ),
        Setup(
            "fast_line",
            "two machines over 20 Gbit/s, four micro-batches",
            "held_out_2x1_20gbit",
            4,
            "small_buckets",
        ),
        Setup(
            "two_axes",
            "two machines of two ranks, 8 Gbit/s to each, 6 between machines, two micro-batches",
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
    stored.write(setup.folder / "predictions.json", kept_rows)


def measure(setup):
    predictions = held_out.committed(setup.folder / "predictions.json")
    run = held_out.measured(setup.plan)
    kept = {name: run[name] for name in ("context", "cells")}
    stored.write(setup.measured_file, {"predictions": predictions} | kept)


def rows(setup):
    """(cell, predicted seconds, measured seconds) of each way that ran, the first choice first."""
    measured = {
        held_out.page.key(cell["cell"]): cell["step_s"]
        for cell in held_out.page.stored("measured.json", setup.folder)["cells"]
    }
    found = [
        (row["cell"], row["step_s"], measured[held_out.page.key(row["cell"])])
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
    return [setup for setup in SETUPS.values() if stored.exists(setup.measured_file)]


def made():
    """The lines between the page's marks."""
    return [line for setup in ran() for line in section(setup)]


def pages():
    """Returns the text of the page, by its path."""
    readme = HERE / "README.md"
    made_again = stored.between(readme.read_text(), (BEGIN, END), ["", *made()])
    return {readme: stored.between(made_again, AGAIN, ["", *sent_again.lines()])}


STEPS = {
    "predict": lambda name: predict(SETUPS[name]),
    "measure": lambda name: measure(SETUPS[name]),
    "sent_again": sent_again.measure,
}
