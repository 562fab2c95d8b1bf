"""Predicts what others published of their machines from a part of it.

    results/evidence/make.py external predict      predicted.json, with build/release (minutes;
                                                   GRADSYNC_PROGRAM: another program)

Each file of schema gradsync.external/1 is a set-up. Nobody publishes layer times, so a model is as
many equal layers as it has, forward a third of a micro-batch. One row gives what a micro-batch
computes and, where no rate of the link is stated, one more gives that: each is what makes the
model's step the row's. The others are predicted, and their values go into nothing.
"""

import json
import math
import os
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import stored as storage
import summary
from published.texts import wrapped

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
PROGRAM = os.environ.get("GRADSYNC_PROGRAM", str(ROOT / "build" / "release" / "gradsync"))
STORED = HERE / "predicted.json"
BEGIN, END = "<!-- external -->", "<!-- end of external -->"
FORWARD_SHARE = 1 / 3
TENSORS_PER_LAYER = 4
COSTS_NOTHING = 1e25  # bits/s
COMPUTE, INTRA, INTER = "gives compute", "gives intra rate", "gives inter rate"
RANGES = {COMPUTE: (1e-9, 1e6), INTRA: (1e4, COSTS_NOTHING), INTER: (1e4, COSTS_NOTHING)}
GRID, ROUNDS, MOST_SOLUTIONS, SETTLED = 32, 8, 25, 1e-9
# Publications do not say how far a number may be off. Shares, 1 sd.
DOUBT = {"compute": 0.03, "rate": 0.1, "host": 0, "pause": 0}
LINKS = {"schema": "gradsync.links/1", "source": "assumed", "doubt": DOUBT}
LINKS |= {"scatters_by_all_reduce": False, "gathers_half_late": False}
UNITS = {"samples/s": "/s", "samples/s/rank": "/s/rank", "s/step": "s"}
OF_HUNDRED = 100
SAME = 1e-4


@dataclass(frozen=True)
class Row:
    name: str  # of the set-up
    label: str
    unit: str
    several: bool  # machines
    published: float
    predicted: float
    interval90: tuple

    @property
    def error(self):
        return self.predicted / self.published - 1

    @property
    def is_covered(self):
        low, high = self.interval90
        return low <= self.published <= high


def set_ups():
    files = sorted(path for path in HERE.glob("*.json") if not path.name.endswith(".schema.json"))
    return [json.loads(path.read_text()) for path in files]


def profile_of(set_up, micro_batch_s):
    """Returns the model as a profile: its embeddings, where they are known, and equal layers."""
    layers, share = set_up["layers"], set_up.get("embedding_share", 0)
    elements = int(set_up["parameters"] * (1 - share) / layers / TENSORS_PER_LAYER)
    tensors = [("embeddings", 0, [int(set_up["parameters"] * share)])] if share else []
    each = [max(1, elements)] * TENSORS_PER_LAYER
    tensors += [(f"layer{i}", micro_batch_s / layers, each) for i in range(layers)]
    return {
        "schema": "gradsync.profile/1",
        "name": set_up["name"],
        "about": set_up["about"],
        "source": set_up["address"],
        "dtype": "float32",
        "optimizer_s": 0,
        "buffers": [],
        "layers": [
            {
                "name": name,
                "forward_s": seconds * FORWARD_SHARE,
                "backward_s": seconds * (1 - FORWARD_SHARE),
                "parameters": [
                    {"name": f"{name}.{i}", "shape": [count]} for i, count in enumerate(counts)
                ],
            }
            for name, seconds, counts in tensors
        ],
    }


def topology_of(row, known):
    """Returns the row's machines with the rates that are known of their links."""
    topology = {"schema": "gradsync.topology/1"}
    topology |= {name: row[name] for name in ("nodes", "ranks_per_node")}
    for field, role in (("intra_node", INTRA), ("inter_node", INTER)):
        if row["nodes"] > 1 or field == "intra_node":
            topology[field] = {"rate": f"{known[role]:.6f}bps"}
    return topology


def options_of(set_up, row):
    halves = set_up["bytes_per_element"] == 2
    options = {"wrapper": set_up["wrapper"], "strategy": row.get("strategy", "baseline")}
    options |= {"accumulation_steps": row.get("accumulation_steps", 1)}
    if set_up["wrapper"] == "fsdp":
        dtype = "bfloat16" if halves else "float32"
        options |= {"param_dtype": dtype, "reduce_dtype": dtype}
        options |= {"hybrid_shard": row.get("is_hybrid", False)}
    elif halves:
        options["compression"] = "fp16"
    return options


def predicted(set_up, row, cases):
    """Returns what is predicted of the row with each of `cases`, by what they take for known."""
    with tempfile.TemporaryDirectory(prefix="gradsync_external_") as place:
        cells = {name: [value] for name, value in options_of(set_up, row).items()}
        cells |= {"model": [], "topology": []}
        for number, known in enumerate(cases):
            for axis, content in (
                ("model", profile_of(set_up, known[COMPUTE])),
                ("topology", topology_of(row, known)),
            ):
                text = json.dumps(content)
                name = next((n for n in cells[axis] if (Path(place) / n).read_text() == text), "")
                if not name:
                    name = f"{axis}{number}.json"
                    (Path(place) / name).write_text(text)
                    cells[axis].append(name)
        plan = {"schema": "gradsync.plan/1", "name": "external", "cells": cells}
        files = {"plan.json": plan, "links.json": LINKS}
        for name, content in files.items():
            (Path(place) / name).write_text(json.dumps(content))
        command = [PROGRAM, "predict", "step", "--plan", f"{place}/plan.json"]
        command += ["--links", f"{place}/links.json", "--json"]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(done.stdout)  # one axis has several values, or none has


def converted(set_up, row, value):
    """Returns the unit's value as seconds of a step, or those in the unit: the same either way."""
    if set_up["unit"] == "s/step":
        return value
    of_a_rank = set_up["micro_batch_size"] * row.get("accumulation_steps", 1)
    ranks = row["nodes"] * row["ranks_per_node"] if set_up["unit"] == "samples/s" else 1
    return of_a_rank * ranks / value


def solved(set_up, row, known):
    """Returns what the row gives: with it the row's own step comes out, or an end is reached."""
    low, high = RANGES[row["role"]]
    grows = row["role"] == COMPUTE
    wanted_s = converted(set_up, row, row["value"])
    for _ in range(ROUNDS):
        values = [low * (high / low) ** (i / (GRID + 1)) for i in range(GRID + 2)]
        rows = predicted(set_up, row, [known | {row["role"]: value} for value in values[1:-1]])
        below = sum((each["step_s"] > wanted_s) != grows for each in rows)
        low, high = values[below], values[below + 1]
    return math.sqrt(low * high)


def known_of(set_up):
    """Each given row once more until none changes what another one told."""
    known = {COMPUTE: 1.0, INTRA: COSTS_NOTHING, INTER: COSTS_NOTHING}
    for role, field in ((INTRA, "intra_rate"), (INTER, "inter_rate")):
        if field in set_up:
            known[role] = 1e9 * float(set_up[field].removesuffix("Gbps"))
    for _ in range(MOST_SOLUTIONS):
        before_s = known[COMPUTE]
        for row in set_up["rows"]:
            if row["role"] in RANGES:
                known[row["role"]] = solved(set_up, row, known)
        if abs(known[COMPUTE] / before_s - 1) < SETTLED:
            break
    return known


def rows_of(set_up):
    known = known_of(set_up)
    for row in set_up["rows"]:
        if row["role"] == "predicted":
            (found,) = predicted(set_up, row, [known])
            value, *ends = (
                converted(set_up, row, s) for s in (found["step_s"], *found["interval90_s"])
            )
            of = (set_up["name"], row["label"], UNITS[set_up["unit"]], row["nodes"] > 1)
            yield Row(*of, row["value"], value, tuple(sorted(ends)))


def predict():
    rows = [vars(row) for set_up in set_ups() for row in rows_of(set_up)]
    storage.write(STORED, rows)


def again():
    """Returns the rows that are predicted otherwise now."""
    was = {(row.name, row.label): row.predicted for row in stored()}
    now = [row for set_up in set_ups() for row in rows_of(set_up)]
    return [
        f"{row.name} {row.label}: was {was.get((row.name, row.label))}, is {row.predicted}"
        for row in now
        if not math.isclose(was.get((row.name, row.label), 0), row.predicted, rel_tol=SAME)
    ]


def stored():
    """Returns the rows, the worst first."""
    rows = [Row(**entry) for entry in storage.read(STORED)]
    return sorted(rows, key=lambda row: -abs(row.error))


def median_error(rows):
    return f"{OF_HUNDRED * median(abs(row.error) for row in rows):.1f} %"


def made():
    """The lines between the page's marks."""
    rows = stored()
    heads = "set-up", "predicted row", "holds it", "published", "predicted", "error"
    cells = [[*heads, "90 % interval"]]
    for row in rows:
        low, high = row.interval90
        cells.append(
            [
                *(row.name, row.label, "yes" if row.is_covered else "no"),
                *(f"{row.published:.4g} {row.unit}", f"{row.predicted:.4g}"),
                *(f"{OF_HUNDRED * row.error:+.1f} %", f"[{low:.4g}, {high:.4g}]"),
            ]
        )
    several = [row for row in rows if row.several]
    single = [row for row in rows if not row.several]
    words = (
        f"{len(rows)} rows of {len(set_ups())} set-ups: the median error is {median_error(rows)}, "
        f"the worst {OF_HUNDRED * abs(rows[0].error):.1f} %; {sum(r.is_covered for r in rows)} lie "
        f"in their intervals, which cover compute that is {OF_HUNDRED * DOUBT['compute']:g} % and "
        f"rates that are {OF_HUNDRED * DOUBT['rate']:g} % off (1 sd), both assumed: no source says "
        f"how far its numbers may be off. The median error of the {len(several)} rows of several "
        f"machines is {median_error(several)}; of the {len(single)} rows of one machine, where "
        f"little is left to predict, {median_error(single)}."
    )
    return [summary.markdown(cells, left=3), "", wrapped(words)]


def pages():
    """Returns the text of the page, by its path."""
    readme = HERE / "README.md"
    return {readme: storage.between(readme.read_text(), (BEGIN, END), ["", *made(), ""])}


STEPS = {"predict": predict}
