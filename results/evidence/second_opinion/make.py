"""Compares the planner's closed form with SimGrid, message by message.

    results/evidence/make.py second_opinion simulate    simulated.json; needs libsimgrid-dev

GRADSYNC_SECOND_OPINION: another program than build/release/bin/print_second_opinion, which knows
the cases. Seconds of SimGrid are stored; those of the closed form are computed again each time.
"""

import json
import math
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import stored as storage

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
PROGRAM = os.environ.get(
    "GRADSYNC_SECOND_OPINION", str(ROOT / "build" / "release" / "bin" / "print_second_opinion")
)
PROFILE = ROOT / "models" / "profiles" / "paced_bert_base_t4.json"
STORED = HERE / "simulated.json"
OF_HUNDRED = 100
AGREES = 0.02  # within so much
SAME = 1e-6
# What names a case.
NAMES = ("what", "nodes", "ranks_per_node")
BEGIN, END = "<!-- second opinion -->", "<!-- end of second opinion -->"


@dataclass(frozen=True)
class Row:
    case: dict
    closed_form_s: float
    simulated_s: float

    @property
    def error(self):
        return self.closed_form_s / self.simulated_s - 1

    @property
    def agrees(self):
        return abs(self.error) <= AGREES


def name_of(case):
    return tuple(case[name] for name in NAMES)


def printed(*options):
    command = [PROGRAM, PROFILE, *options]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def simulated():
    """Seconds by SimGrid, by case; None where it is not there."""
    return {name_of(case): case["simulated_s"] for case in printed()}


def stored():
    return {name_of(case): case["simulated_s"] for case in storage.read(STORED)}


def simulate():
    now = simulated()
    if None in now.values():
        sys.exit("make.py: error: this program was built where SimGrid is not (libsimgrid-dev)")
    named = (dict(zip(NAMES, name, strict=True)) | {"simulated_s": now[name]} for name in now)
    storage.write(STORED, list(named))


def again():
    """Returns the cases of which SimGrid says otherwise now; none where it is not there."""
    now = simulated()
    if None in now.values():
        print("second_opinion: there is no SimGrid (libsimgrid-dev)", file=sys.stderr)
        return []
    return [name for name, s in stored().items() if not math.isclose(now[name], s, rel_tol=SAME)]


def rows():
    """Each case, the worst first."""
    seconds = stored()
    found = [
        Row(case, case["closed_form_s"], seconds[name_of(case)])
        for case in printed("--closed-form-only")
    ]
    return sorted(found, key=lambda row: -abs(row.error))


def machines_text(case):
    nodes, ranks = case["nodes"], case["ranks_per_node"]
    return f"{nodes} x {ranks}"


def row_line(row):
    return (
        f"| {row.case['what']} | {machines_text(row.case)} | {1e3 * row.simulated_s:.3f} "
        f"| {1e3 * row.closed_form_s:.3f} | {OF_HUNDRED * row.error:+.2f} % |"
    )


def made():
    """The lines between the page's marks."""
    all_rows = rows()
    agree = sum(row.agrees for row in all_rows)
    return [
        f"{agree} of {len(all_rows)} agree within {OF_HUNDRED * AGREES:.0f} %; the worst first:",
        "",
        "| communication | nodes x ranks | SimGrid, ms | closed form, ms | closed form is off by |",
        "|:--|:--|--:|--:|--:|",
        *map(row_line, all_rows),
    ]


def pages():
    """Returns the text of the page, by its path."""
    readme = HERE / "README.md"
    return {readme: storage.between(readme.read_text(), (BEGIN, END), ["", *made(), ""])}


STEPS = {"simulate": simulate}
