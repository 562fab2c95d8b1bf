"""Compares predicted peaks of models at full size with those of torch's own memory tracker.

    results/evidence/make.py full_size track [MODEL]...   peaks.json, of these or all (minutes)

track needs torch and transformers, and build/release (GRADSYNC_PROGRAM: another program). Nothing
is computed: all tensors are fake, so every machine finds the same bytes.
"""

import ast
import json
import math
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import stored as storage

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]

PROGRAM = os.environ.get("GRADSYNC_PROGRAM", str(ROOT / "build" / "release" / "gradsync"))
STORED = HERE / "peaks.json"
BEGIN, END = "<!-- full size -->", "<!-- end of full size -->"
FLOAT32 = ["float32", "float32"]
MIXED = ["bfloat16", "float32"]
RANKS = 8
# The jobs of each model: strategy and accumulation_steps.
JOBS = (("baseline", 1), ("no_sync", 2), ("baseline", 2))
# The types in which parameters are gathered and gradients reduced.
DTYPES = {"gpt2_xl": (FLOAT32,), "llama_2_7b": (MIXED,), "vit_huge": (FLOAT32,)}
RANK_NUMBER_BYTES = 4
GIGA = 1e9
MODEL_S = 900  # at most, of one recording or one tracked job


@dataclass(frozen=True)
class Row:
    cell: dict
    parameters: int
    units: int  # calls of fully_shard
    tracked: dict  # bytes at the peak by the tracker's names
    predicted: dict  # likewise by ours

    @property
    def tracked_bytes(self):
        return self.tracked["Total"]

    @property
    def predicted_bytes(self):
        return sum(self.predicted.values())

    @property
    def off_bytes(self):
        return self.predicted_bytes - self.tracked_bytes

    @property
    def explained_bytes(self):
        """Each call of fully_shard that is given no mesh makes one. The tracked job has one, which
        is there before it is tracked.
        """
        return self.units * self.cell["ranks"] * RANK_NUMBER_BYTES


def units_of():
    """Returns architectures.UNITS without what that file imports."""
    tree = ast.parse((HERE / "architectures.py").read_text())
    (value,) = (
        node.value
        for node in tree.body
        if isinstance(node, ast.Assign) and node.targets[0].id == "UNITS"
    )
    return ast.literal_eval(value)


def output_of(command):
    done = subprocess.run(command, capture_output=True, text=True, timeout=MODEL_S)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(map(str, command))}: {done.stderr}")
    return done.stdout


def record(model, dtype, path):
    place = f"{HERE / 'architectures.py'}:{model}"
    command = [sys.executable, ROOT / "models/record_profile.py", place]
    command += ["--fake", "--dtype", dtype, "--units", units_of()[model], "--out", path]
    output_of(command)
    return json.loads(path.read_text())["memory"]


def predicted(profile, cell):
    command = [PROGRAM, "predict", "memory", profile, "--json", "--backend", "nccl"]
    command += ["--wrapper", "fsdp", "--world-size", str(cell["ranks"])]
    command += ["--strategy", cell["strategy"]]
    command += ["--accumulation-steps", str(cell["accumulation_steps"])]
    for field, dtype in zip(("param_dtype", "reduce_dtype"), cell["dtypes"], strict=True):
        command += ["--set", f"{field}={dtype}"]
    return json.loads(output_of(command))[0]["predicted_peak_by_category"]


def tracked(cell):
    said = output_of([sys.executable, HERE / "tracked.py", json.dumps(cell)])
    return json.loads(said.splitlines()[-1])


def measure(model, jobs=JOBS):
    """Returns a Row for each of the model's jobs."""
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for dtypes in DTYPES[model]:
            profile = Path(folder) / f"{model}_{dtypes[0]}.json"
            memory = record(model, dtypes[0], profile)
            blocks = sum(module["class"] == units_of()[model] for module in memory["modules"])
            parameters = sum(math.prod(entry["shape"]) for entry in memory["parameters"])
            for strategy, steps in jobs:
                cell = {
                    "model": model,
                    "ranks": RANKS,
                    "dtypes": dtypes,
                    "strategy": strategy,
                    "accumulation_steps": steps,
                }
                row = Row(cell, parameters, blocks + 1, tracked(cell), predicted(profile, cell))
                print(row_line(row), file=sys.stderr)
                found.append(row)
    return found


def stored():
    return [Row(**entry) for entry in storage.read(STORED)]


def track(*names):
    kept = stored()
    for model in names or DTYPES:
        kept = [row for row in kept if row.cell["model"] != model] + measure(model)
        order = list(DTYPES)
        kept.sort(key=lambda row: order.index(row.cell["model"]))
        storage.write(STORED, [vars(row) for row in kept])


def again():
    """Returns the models of which the tracker or the prediction says otherwise now."""
    return [
        model
        for model in DTYPES
        if measure(model) != [row for row in stored() if row.cell["model"] == model]
    ]


def row_line(row):
    cell = row.cell
    dtypes = " / ".join(cell["dtypes"])
    return (
        f"| {cell['model']} | {row.parameters / GIGA:.2f} G | {dtypes} | {cell['strategy']} "
        f"| {cell['accumulation_steps']} | {row.tracked_bytes} | {row.predicted_bytes} "
        f"| {row.off_bytes:+d} ({row.off_bytes / row.tracked_bytes:+.4%}) |"
    )


def made():
    """The lines between the page's marks."""
    return [
        "| model | parameters | gathered / reduced in | strategy | accumulation | tracker, bytes "
        "| predicted, bytes | off by |",
        "|:--|--:|:--|:--|--:|--:|--:|--:|",
        *map(row_line, stored()),
    ]


def pages():
    """Returns the text of the page, by its path."""
    readme = HERE / "README.md"
    return {readme: storage.between(readme.read_text(), (BEGIN, END), ["", *made(), ""])}


STEPS = {"track": track}
