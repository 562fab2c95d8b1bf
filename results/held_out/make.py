#!/usr/bin/env python3
"""Predicts the plan held_out from two calibration cells, then measures it, then writes the page.

    results/held_out/make.py calibrate    runs held_out_calibration: calibration.json, links.json
    results/held_out/make.py predict      predictions.json, which is committed before the next
    results/held_out/make.py measure      runs held_out: measured.json
    results/held_out/make.py text         README.md, from what is stored

The first three need build/release (GRADSYNC_PROGRAM: another program) and a machine that does
nothing else; the plan takes minutes. Measuring is refused while predictions.json is not committed
as it is.
"""

import functools
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import mean, stdev

import page
import solve

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
PROGRAM = os.environ.get("GRADSYNC_PROGRAM", str(ROOT / "build" / "release" / "gradsync"))

# Shares, 1 sd, chosen before any cell was run: lines carry what they should within half a per cent
# where their self-test says so, a paced layer waits on a clock, and what the host costs on other
# topologies is known half.
DOUBT = {"compute": 0.002, "rate": 0.005, "host": 0.5, "pause": 0.15}
LINKS = {
    "schema": "gradsync.links/1",
    "source": "two cells of two ranks, in five launches (results/held_out)",
    "shaped": True,
}
KEPT_OF_CONTEXT = (
    "cpu_model",
    "cpus",
    "kernel",
    "gradsync",
    "commit",
    "torch",
    "start_time",
    "end_time",
    "load_1min",
    "load_after",
    "steal_share_run",
    "timing_valid",
    "links",
    "topologies",
    "warnings",
)


def write(name, content, folder=HERE):
    (folder / name).write_text(json.dumps(content, indent=1) + "\n")


def stored(name, folder=HERE):
    return json.loads((folder / name).read_text())


def steps_of(trial):
    """Each timed step is as long as its slowest rank's."""
    return [round(max(of_ranks), 6) for of_ranks in zip(*trial, strict=True)]


def measured(plan):
    """Runs it. Returns its context and of each trial the cell, its steps and what copies took."""
    with tempfile.TemporaryDirectory(prefix="gradsync_held_out_") as place:
        out = Path(place) / "run"
        subprocess.run([PROGRAM, "run", plan, "--out", out], check=False, stdout=sys.stderr)
        result = json.loads((out / "result.json").read_text())
        lines = (out / "trials.jsonl").read_text().splitlines()
    cells = [
        {name: cell.get(name) for name in ("part", "cell", "status", "reason")}
        | {"step_s": (cell.get("step_s") or {}).get("mean")}
        for cell in result["cells"]
    ]
    trials = []
    for trial in map(json.loads, lines):
        ranks = trial["ranks"]
        trials.append(
            {
                "cell": trial["cell"],
                "launch": trial["launch"],
                "status": trial["status"],
                "step_s": steps_of([rank["step_s"] for rank in ranks]),
                "copy_s": mean(mean(rank["phase_s"]["copy"]) for rank in ranks) if ranks else None,
                "gradient_bytes": (trial["model_info"] or {}).get("gradient_bytes"),
            }
        )
    context = {name: result["context"].get(name) for name in KEPT_OF_CONTEXT}
    return {"context": context, "cells": cells, "trials": trials}


def predicted_steps(cells, constants):
    """Seconds of each cell's step with these constants."""
    with tempfile.TemporaryDirectory(prefix="gradsync_held_out_") as place:
        file = Path(place) / "links.json"
        file.write_text(json.dumps(LINKS | constants))
        rows = predictions_with("held_out_calibration", file)
    by_strategy = {row["cell"]["strategy"]: row["step_s"] for row in rows}
    return [by_strategy[cell] for cell in cells]


def predictions_with(plan, links):
    command = [PROGRAM, "predict", "step", "--plan", plan, "--links", links, "--json"]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def synchronizations(cell):
    return cell["accumulation_steps"] if cell["strategy"] == "baseline" else 1


def by_message(constants):
    """What two ranks take for each all_reduce, as what each of its two messages takes: between two
    they are the same, and the host works for messages."""
    per_message_s = constants["latency_s"] + constants["collective_s"] / 2
    return constants | {"latency_s": per_message_s, "collective_s": 0.0}


def constants_of(run):
    """Of each launch, and their mean."""
    (link,) = run["context"]["links"].values()
    each = []
    for launch in sorted({trial["launch"] for trial in run["trials"]}):
        trials = [trial for trial in run["trials"] if trial["launch"] == launch]
        copied = mean(
            trial["copy_s"] / synchronizations(trial["cell"]) / trial["gradient_bytes"]
            for trial in trials
        )
        steps = {trial["cell"]["strategy"]: mean(trial["step_s"]) for trial in trials}
        known = {"copy_per_byte_s": copied, "latency_s": link["round_trip_s"] / 2}
        solved = solve.with_host_costs(
            known, functools.partial(predicted_steps, list(steps)), list(steps.values())
        )
        each.append(by_message(solved))
    return each, {name: mean(one[name] for one in each) for name in each[0]}


def calibrate():
    run = measured("held_out_calibration")
    each, constants = constants_of(run)
    spread = {name: stdev(one[name] for one in each) for name in constants}
    write("calibration.json", run | {"constants": each, "spread": spread})
    write(
        "links.json",
        LINKS | constants | {"doubt": DOUBT},
    )


def predict():
    kept = ("cell", "world_size", "step_s", "interval90_s", "exposed_s", "limit")
    rows = predictions_with("held_out", HERE / "links.json")
    write("predictions.json", [{name: row[name] for name in kept} for row in rows])


def refuse_uncommitted(file):
    """What is predicted does not change any more when it is measured."""
    status = ["git", "-C", file.parent, "status", "--porcelain", file]
    if subprocess.run(status, check=True, capture_output=True).stdout:
        sys.exit(f"make.py: error: {file.name}: got changes, expected it to be committed")


def measure():
    file = HERE / "predictions.json"
    refuse_uncommitted(file)
    command = ["git", "-C", HERE, "log", "-1", "--format=%cI", "--", file]
    committed = subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
    predictions = {"committed": committed, "sha256": page.digest_of(file)}
    write("measured.json", {"predictions": predictions} | measured("held_out"))


def text():
    (HERE / "README.md").write_text(page.text())


if __name__ == "__main__":
    steps = {step.__name__: step for step in (calibrate, predict, measure, text)}
    if len(sys.argv) != 2 or sys.argv[1] not in steps:
        sys.exit(__doc__)
    steps[sys.argv[1]]()
