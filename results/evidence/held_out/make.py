"""Predicts a plan from two calibration cells, then measures it, then writes the page.

    results/evidence/make.py held_out calibrate [SET]   calibration.json, links.json
    results/evidence/make.py held_out predict [SET]     predictions.json, to be committed before the
                                                        next
    results/evidence/make.py held_out measure [SET]     measured.json

The page of the first cells also has what today's model says of them. SET is a folder beside this
file, with its plans; without it the first cells are meant. Calibrating also records the profile of
a model that computes: profile.json. All need build/release (GRADSYNC_PROGRAM: another program that
predicts, GRADSYNC_RUNNER: another one that runs; GRADSYNC_PYTHON: one with torch) and a machine
that does nothing else; a plan takes minutes. Measuring is refused while predictions.json is not
committed as it is.
"""

import functools
import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, stdev

import stored
from held_out import computed, page, solve

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
PLANNER_PAGE = ROOT / "harness" / "predict" / "README.md"
PROGRAM = os.environ.get("GRADSYNC_PROGRAM", str(ROOT / "build" / "release" / "gradsync"))
RUNNER = os.environ.get("GRADSYNC_RUNNER", PROGRAM)
PYTHON = os.environ.get("GRADSYNC_PYTHON", str(ROOT / "build" / "deps" / "venv" / "bin" / "python"))

# Shares, 1 sd, chosen before any cell was run: lines carry what they should within half a per cent
# where their self-test says so, a paced layer waits on a clock, and what the host costs on other
# topologies is known half.
DOUBT = {"compute": 0.002, "rate": 0.005, "host": 0.5, "pause": 0.15}
# The same where a model computes, which takes now longer, now shorter.
DOUBT_COMPUTED = DOUBT | {"compute": 0.02}
FAST = "2x1_1gbit"  # on which DDP is calibrated where a model computes
# First values of what the cells are to find: each of the three kinds of cells needs what the other
# two find.
FIRST_GUESS = {
    "shard_per_byte_s": 2e-10,
    "processor_per_byte_s": 5e-10,
    "fill_per_byte_s": 1e-10,
    "micro_batch_s": 1e-3,
    "collective_s": 1e-4,
}
ROUNDS = 3
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


@dataclass(frozen=True)
class Set:
    """Cells that are predicted before they are run, in a folder of their own."""

    name: str  # of the folder; "": the first ones, here
    what: str  # the cells are, on the planner's page
    model: str = ""  # that computes; "": it is paced, and has its profile
    units: str = ""  # what fully_shard is given of it, as record_profile.py takes them
    build: str = "build"  # of models/examples: what makes the model and its micro-batch

    @property
    def folder(self):
        return HERE / self.name

    @property
    def plan(self):
        return self.folder / "plan.json"

    @property
    def calibration(self):
        return self.folder / "calibration_plan.json"

    @property
    def links(self):
        at = "/".join(filter(None, ("results/evidence/held_out", self.name)))
        launches = stored.read(self.calibration)["launches"]
        cells = f"{'five' if self.model else 'two'} cells of two ranks, in {launches}"
        return {
            "schema": "gradsync.links/1",
            "source": f"{cells} launches ({at})",
            "shaped": True,
        }

    @property
    def doubt(self):
        return DOUBT_COMPUTED if self.model else DOUBT

    @property
    def profile(self):
        return self.folder / "profile.json"


SETS = {
    each.name: each
    for each in (
        Set("", "BERT-base, paced as on a T4, with other links, ranks and wrappers"),
        Set("small_buckets", "the same with small buckets"),
        Set("bert_mini", "a BERT with real compute", "bert_mini", "BertLayer"),
        Set("mlp", "a perceptron whose steps take tens of milliseconds", "mlp", "Linear"),
        Set("mlp_2048", "the same with longer steps", "mlp", "Linear", "build_2048"),
    )
}


def steps_of(trial):
    """Each timed step is as long as its slowest rank's."""
    return [round(max(of_ranks), 6) for of_ranks in zip(*trial, strict=True)]


def phases_of(ranks):
    """Seconds of a step that a rank's own thread spent in each phase: of the rank that computed
    longest, for which the others wait."""
    each = [{phase: mean(rank["phase_s"][phase]) for phase in computed.COMPUTE} for rank in ranks]
    return max(each, key=lambda phases: sum(phases.values()))


def stored_cell(cell):
    """Returns the cell with its topology's name, wherever the file of the topology lies."""
    return cell | {"topology": Path(cell["topology"]).stem}


def measured(plan):
    """Runs it. Returns its context and of each trial the cell, its steps and what phases took."""
    with tempfile.TemporaryDirectory(prefix="gradsync_held_out_") as place:
        out = Path(place) / "run"
        subprocess.run([RUNNER, "run", plan, "--out", out], check=False, stdout=sys.stderr)
        result = json.loads((out / "result.json").read_text())
        lines = (out / "trials.jsonl").read_text().splitlines()
    cells = [
        {name: cell.get(name) for name in ("part", "status", "reason")}
        | {"cell": stored_cell(cell["cell"])}
        | {"step_s": (cell.get("step_s") or {}).get("mean")}
        for cell in result["cells"]
    ]
    trials = []
    for trial in map(json.loads, lines):
        ranks = trial["ranks"]
        trials.append(
            {
                "cell": stored_cell(trial["cell"]),
                "launch": trial["launch"],
                "status": trial["status"],
                "step_s": steps_of([rank["step_s"] for rank in ranks]),
                "copy_s": mean(mean(rank["phase_s"]["copy"]) for rank in ranks) if ranks else None,
                "phase_s": phases_of(ranks) if ranks else None,
                "gradient_bytes": (trial["model_info"] or {}).get("gradient_bytes"),
            }
        )
    context = {name: result["context"].get(name) for name in KEPT_OF_CONTEXT}
    for by_topology in ("links", "topologies"):
        context[by_topology] = {Path(key).stem: of for key, of in context[by_topology].items()}
    return {"context": context, "cells": cells, "trials": trials}


def predicted_steps(of, cells, constants, profile=None, what="step_s"):
    """Seconds of each cell's step with these constants."""
    with tempfile.TemporaryDirectory(prefix="gradsync_held_out_") as place:
        file = Path(place) / "links.json"
        file.write_text(json.dumps(of.links | constants))
        recorded = None
        if profile:
            recorded = Path(place) / "profile.json"
            recorded.write_text(json.dumps(profile))
        rows = predictions_with(of.calibration, file, of.model, recorded)
    by_cell = {page.key(row["cell"]): row[what] for row in rows}
    return [by_cell[cell] for cell in cells]


def predictions_with(plan, links, model="", profile=None):
    command = [PROGRAM, "predict", "step", "--plan", plan, "--links", links, "--json"]
    with tempfile.NamedTemporaryFile(suffix=".json") as unpacked:
        if model:
            unpacked.write(stored.read_bytes(profile))
            unpacked.flush()
            command += ["--profile", f"{model}={unpacked.name}"]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
    return [row | {"cell": stored_cell(row["cell"])} for row in json.loads(done.stdout)]


def synchronizations(cell):
    return cell["accumulation_steps"] if cell["strategy"] == "baseline" else 1


def by_message(constants):
    """What two ranks take for each all_reduce, as what each of its two messages takes: between two
    they are the same, and the host works for messages."""
    per_message_s = constants["latency_s"] + constants["collective_s"] / 2
    return constants | {"latency_s": per_message_s, "collective_s": 0.0}


def constants_of(of, run):
    """Returns the constants of each launch, and their mean."""
    (link,) = run["context"]["links"].values()
    each = []
    for launch in sorted({trial["launch"] for trial in run["trials"]}):
        trials = [trial for trial in run["trials"] if trial["launch"] == launch]
        copied = mean(
            trial["copy_s"] / synchronizations(trial["cell"]) / trial["gradient_bytes"]
            for trial in trials
        )
        steps = {page.key(trial["cell"]): mean(trial["step_s"]) for trial in trials}
        known = {"copy_per_byte_s": copied, "latency_s": link["round_trip_s"] / 2}
        solved = solve.with_host_costs(
            known, functools.partial(predicted_steps, of, list(steps)), list(steps.values())
        )
        each.append(by_message(solved))
    return each, {name: mean(one[name] for one in each) for name in each[0]}


def recorded(of):
    """The model's profile, as models/record_profile.py records it of the model alone."""
    with tempfile.TemporaryDirectory(prefix="gradsync_held_out_") as place:
        out = Path(place) / f"{of.model}.json"
        build = f"models/examples/{of.model}.py:{of.build}"
        command = [PYTHON, "models/record_profile.py", build, "--units", of.units, "--out", out]
        subprocess.run(command, check=True, stdout=sys.stderr, cwd=ROOT)
        return json.loads(out.read_text())


def computed_constants(of, trials, profile, latency_s):
    """Copies as the phases of DDP's steps have them. What fills buckets, makes FSDP's storages and
    takes the processor while the wire is at work, so that DDP's and FSDP's cells compute as long as
    they did. What each collective costs, so that least is left over of the fast line's steps."""
    side_by_side = computed.side_by_side(profile, trials)
    ddp, fsdp = computed.of_wrapper("ddp", trials), computed.of_wrapper("fsdp", trials)
    fast = [trial for trial in ddp + fsdp if trial["cell"]["topology"] == FAST]
    copied = mean(
        trial["copy_s"] / synchronizations(trial["cell"]) / trial["gradient_bytes"] for trial in ddp
    )
    constants = {"copy_per_byte_s": copied, "latency_s": latency_s} | FIRST_GUESS
    told_by = (
        (fsdp, "compute_s", ("shard_per_byte_s", "processor_per_byte_s")),
        (ddp, "compute_s", ("fill_per_byte_s", "micro_batch_s")),
        (fast, "step_s", ("collective_s",)),
    )
    for cells, what, names in told_by * ROUNDS:
        launches = page.by_cell(cells)
        constants = solve.solved(
            {name: value for name, value in constants.items() if name not in names},
            {name: constants[name] for name in names},
            functools.partial(predicted_steps, of, list(launches), profile=side_by_side, what=what),
            [computed.SECONDS[what](of_one) for of_one in launches.values()],
        )
    return constants


def constants_of_computed(of, run, profile):
    """Returns the constants of each launch and of all, and the profile with the seconds of all."""
    links = run["context"]["links"].values()
    latency_s = mean(link["round_trip_s"] for link in links) / 2
    trials = run["trials"]
    each = [
        computed_constants(of, [t for t in trials if t["launch"] == launch], profile, latency_s)
        for launch in sorted({trial["launch"] for trial in trials})
    ]
    constants = computed_constants(of, trials, profile, latency_s)
    return each, constants, computed.side_by_side(profile, trials)


def left_over(of, run, constants, profile):
    """Returns the step of each sending calibration cell with the constants it helped to find."""
    cells = page.by_cell(
        computed.of_wrapper("ddp", run["trials"]) + computed.of_wrapper("fsdp", run["trials"])
    )
    steps = predicted_steps(of, list(cells), constants, profile)
    return [
        {"cell": trials[0]["cell"], "predicted_s": step, "measured_s": page.measured_s(trials)}
        for step, trials in zip(steps, cells.values(), strict=True)
    ]


def calibrate(of):
    profile = recorded(of) if of.model else None
    run = measured(of.calibration)
    if of.model:
        each, constants, profile = constants_of_computed(of, run, profile)
        run["left_over"] = left_over(of, run, constants, profile)
        print("\n".join(page.left_over_lines(run)), file=sys.stderr)
        stored.write(of.profile, profile)
    else:
        each, constants = constants_of(of, run)
    spread = {name: stdev(one[name] for one in each) for name in constants}
    stored.write(of.folder / "calibration.json", run | {"constants": each, "spread": spread})
    links = json.dumps(of.links | constants | {"doubt": of.doubt}, indent=1)
    (of.folder / "links.json").write_text(links + "\n")


def predict(of):
    kept = ("cell", "world_size", "step_s", "interval90_s", "exposed_s", "limit")
    rows = predictions_with(of.plan, of.folder / "links.json", of.model, of.profile)
    kept_rows = [{name: row[name] for name in kept} for row in rows]
    stored.write(of.folder / "predictions.json", kept_rows)


def refuse_uncommitted(file):
    """What is predicted does not change any more when it is measured."""
    status = ["git", "-C", file.parent, "status", "--porcelain", stored.packed(file)]
    if subprocess.run(status, check=True, capture_output=True).stdout:
        sys.exit(f"make.py: error: {file.name}: got changes, expected it to be committed")


def committed(file):
    """Which predictions, and since when they have stood. Errors: where they may still change."""
    refuse_uncommitted(file)
    command = ["git", "-C", file.parent, "log", "-1", "--format=%cI", "--", stored.packed(file)]
    since = subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
    return {"committed": since, "sha256": page.digest_of(file)}


def measure(of):
    predictions = committed(of.folder / "predictions.json")
    content = {"predictions": predictions} | measured(of.plan)
    stored.write(of.folder / "measured.json", content)


def predicted_again(of):
    """Seconds by cell with the model of today: constants solved for again from the stored
    calibration, nothing from the cells themselves."""
    _, constants = constants_of(of, page.stored("calibration.json", of.folder))
    with tempfile.TemporaryDirectory(prefix="gradsync_held_out_") as place:
        file = Path(place) / "links.json"
        file.write_text(json.dumps(of.links | constants | {"doubt": DOUBT}))
        return {page.key(row["cell"]): row["step_s"] for row in predictions_with(of.plan, file)}


def page_of(of):
    made = page.text(of.folder)
    return page.with_again(made, of.folder, predicted_again(of)) if page.AGAIN[0] in made else made


def pages():
    """Returns the text of each page, by its path, and of the planner's, which sums them up."""
    folders = {of.what: of.folder for of in SETS.values()}
    planner = page.with_summary(PLANNER_PAGE, folders)
    return {of.folder / "README.md": page_of(of) for of in SETS.values()} | {PLANNER_PAGE: planner}


STEPS = {
    step.__name__: lambda name="", step=step: step(SETS[name])
    for step in (calibrate, predict, measure)
}
