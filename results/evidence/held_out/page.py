"""A page of held-out cells, from its folder's predictions, measured steps and calibration."""

import hashlib
import itertools
import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from statistics import mean

import stored as storage

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[2] / "plot"))
from run_data import whole  # noqa: E402

OF_HUNDRED = 100
# This module makes the text between these lines of the page,
BEGIN, END = "<!-- held out -->", "<!-- end of held out -->"
# and between these the predictions of today's model for the same cells.
AGAIN = "<!-- again -->", "<!-- end of again -->"
SMALL_BYTES = 10_000_000  # buckets that count as small
# The fields that name a row; other fields in which a cell differs are given as "field=value".
NAMED = ("topology", "wrapper", "strategy", "accumulation_steps", "model", "scale")
OTHERS = ("bucket_cap_bytes", "compression", "gradient_as_bucket_view", "hybrid_shard")


def stored(name, folder=HERE):
    return storage.read(folder / name)


@dataclass(frozen=True)
class Row:
    cell: dict
    ranks: int
    predicted_s: float
    interval_s: tuple
    measured_s: float

    @property
    def error(self):
        return self.predicted_s / self.measured_s - 1

    @property
    def is_covered(self):
        low, high = self.interval_s
        return low <= self.measured_s <= high

    @property
    def family(self):
        if self.cell["wrapper"] == "fsdp":
            return "HSDP" if self.cell.get("hybrid_shard") else "FSDP"
        return "DDP, two ranks" if self.ranks == 2 else "DDP, more ranks"

    @property
    def options(self):
        said = [(name, self.cell.get(name)) for name in OTHERS]
        return " ".join(
            f"{name}={value}" for name, value in said if value not in (0, False, "none", None)
        )

    @property
    def all_but_strategy(self):
        return key({name: value for name, value in self.cell.items() if name != "strategy"})


def digest_of(file):
    return hashlib.sha256(storage.read_bytes(file)).hexdigest()


def key(cell):
    """Returns the same text for a cell of an older file, which left out later options."""
    return json.dumps(whole(cell), sort_keys=True)


def measured_s(trials):
    """Mean of every step that was timed; each is as long as its slowest rank's."""
    return mean(step for trial in trials for step in trial["step_s"])


def by_cell(trials):
    """The trials of each cell, by its key, in the order in which cells were run first."""
    cells = {}
    for trial in trials:
        cells.setdefault(key(trial["cell"]), []).append(trial)
    return cells


def measured_trials(folder):
    """Returns the trials of each cell that ended well, by the cell's key."""
    trials = stored("measured.json", folder)["trials"]
    return by_cell(trial for trial in trials if trial["status"] == "ok")


def apart_lines(folder):
    """How far launches of the same cell are apart; nothing where each had one."""
    apart = []
    for trials in measured_trials(folder).values():
        launches = [measured_s([trial]) for trial in trials]
        if len(launches) > 1:
            apart.append(OF_HUNDRED * (max(launches) / min(launches) - 1))
    if not apart:
        return []
    usual, most = mean(apart), max(apart)
    return [
        f"The longest launch of a cell took {usual:.1f} % longer than the shortest in the "
        f"mean over cells, {most:.1f} % at most: no prediction can be nearer than what is measured "
        "is to itself.",
        "",
    ]


def rows(folder=HERE):
    """Each predicted cell that was measured, the worst first; and the others, with the reason."""
    measured = stored("measured.json", folder)
    trials = measured_trials(folder)
    reasons = {
        key(cell["cell"]): f"{cell['status']}: {cell['reason']}" for cell in measured["cells"]
    }
    found, missing = [], []
    for predicted in stored("predictions.json", folder):
        of = trials.get(key(predicted["cell"]))
        if of is None:
            missing.append((predicted["cell"], reasons.get(key(predicted["cell"]), "not run")))
            continue
        found.append(
            Row(
                predicted["cell"],
                predicted["world_size"],
                predicted["step_s"],
                tuple(predicted["interval90_s"]),
                measured_s(of),
            )
        )
    return sorted(found, key=lambda row: -abs(row.error)), missing


def percent(share, digits=1):
    return f"{OF_HUNDRED * share:+.{digits}f} %"


def summary_lines(all_rows):
    families = sorted({row.family for row in all_rows})
    groups = [("all", all_rows)] + [(f, [r for r in all_rows if r.family == f]) for f in families]
    lines = [
        "| cells | number | mean error, without sign | mean error | worst | in the 90 % interval |",
        "|:--|--:|--:|--:|--:|--:|",
    ]
    for name, group in groups:
        size = f"{OF_HUNDRED * mean(abs(row.error) for row in group):.1f} %"
        worst = max(group, key=lambda row: abs(row.error))
        covered = sum(row.is_covered for row in group)
        lines.append(
            f"| {name} | {len(group)} | {size} | {percent(mean(r.error for r in group))} "
            f"| {percent(worst.error)} | {covered} of {len(group)} |"
        )
    return lines


def order_of_strategies(all_rows):
    """Of pairs that differ in their strategy alone and whose intervals do not meet: how many, and
    of how many the faster one was foretold."""
    pairs = right = 0
    for a, b in itertools.combinations(all_rows, 2):
        if a.all_but_strategy != b.all_but_strategy:
            continue
        if a.interval_s[0] <= b.interval_s[1] and b.interval_s[0] <= a.interval_s[1]:
            continue
        pairs += 1
        right += (a.predicted_s < b.predicted_s) == (a.measured_s < b.measured_s)
    return pairs, right


def row_line(row):
    low, high = row.interval_s
    return (
        f"| {row.cell['topology']} | {row.ranks} | {row.cell['wrapper']} | {row.cell['strategy']} "
        f"| {row.cell['accumulation_steps']} | {row.options} | {row.predicted_s:.3f} "
        f"| [{low:.3f}, {high:.3f}] | {row.measured_s:.3f} | {percent(row.error)} "
        f"| {'' if row.is_covered else 'outside'} |"
    )


def again_lines(folder, steps):
    """Returns the lines of the second block. `steps`: the seconds now predicted for each cell."""
    all_rows, _ = rows(folder)
    families = sorted({row.family for row in all_rows})
    groups = [("all", all_rows)] + [(f, [r for r in all_rows if r.family == f]) for f in families]
    small = [r for r in all_rows if 0 < r.cell.get("bucket_cap_bytes", 0) < SMALL_BYTES]
    lines = [
        "| cells | number | mean error, without sign, as committed | now | worst, as committed "
        "| now |",
        "|:--|--:|--:|--:|--:|--:|",
    ]
    for name, group in [*groups, ("buckets of 1 and 8 MB", small)]:
        before = [row.error for row in group]
        now = [steps[key(row.cell)] / row.measured_s - 1 for row in group]
        means = [f"{OF_HUNDRED * mean(map(abs, each)):.1f} %" for each in (before, now)]
        worst = [percent(max(each, key=abs)) for each in (before, now)]
        lines.append(
            f"| {name} | {len(group)} | {means[0]} | {means[1]} | {worst[0]} | {worst[1]} |"
        )
    return lines


def left_over_lines(calibration):
    """Returns the lines on the calibration cells of a model that computes: their errors."""
    if "left_over" not in calibration:
        return []
    lines = [
        "What the calibration cells themselves leave over:",
        "",
        "| topology | wrapper | strategy | accumulation | with these constants, s | measured, s "
        "| error |",
        "|:--|:--|:--|--:|--:|--:|--:|",
    ]
    for row in calibration["left_over"]:
        cell, predicted_s, measured_s = row["cell"], row["predicted_s"], row["measured_s"]
        lines.append(
            f"| {cell['topology']} | {cell['wrapper']} | {cell['strategy']} "
            f"| {cell['accumulation_steps']} | {predicted_s:.3f} | {measured_s:.3f} "
            f"| {percent(predicted_s / measured_s - 1)} |"
        )
    return [*lines, ""]


def with_summary(readme, folders):
    """Returns the page with a row of each folder, by what its cells are."""
    lines = ["", "| cells | number | mean error | worst | in the 90 % interval |"]
    lines.append("|:--|--:|--:|--:|--:|")
    for what, folder in folders.items():
        found, _ = rows(folder)
        link = os.path.relpath(folder / "README.md", readme.parent)
        size = f"{OF_HUNDRED * mean(abs(row.error) for row in found):.1f} %"
        covered = sum(row.is_covered for row in found)
        lines.append(
            f"| [{what}]({link}) | {len(found)} | {size} | {percent(found[0].error)} "
            f"| {covered} of {len(found)} |"
        )
    return storage.between(readme.read_text(), (BEGIN, END), [*lines, ""])


def with_again(page, folder, steps):
    """The page, with the stretch of the model of today made again."""
    return storage.between(page, AGAIN, ["", *again_lines(folder, steps), ""])


def text(folder=HERE):
    """The page, with what lies between its marks made again."""
    all_rows, missing = rows(folder)
    pairs, right = order_of_strategies(all_rows)
    measured = stored("measured.json", folder)
    calibration = stored("calibration.json", folder)
    links = stored("links.json", folder)
    context = measured["context"]
    constants = [
        f"`{name}` {links[name]:.3g} (sd over launches {spread:.2g})"
        for name, spread in calibration["spread"].items()
    ]
    lines = [
        "",
        *summary_lines(all_rows),
        "",
        f"Strategies whose intervals do not meet, all else the same: {pairs} pairs, of {right} the "
        "faster one was foretold.",
        "",
        f"Predictions committed {measured['predictions']['committed']}, measured from "
        f"{context['start_time']} to {context['end_time']}, on {context['cpus']} processors whose "
        f"load average was {context['load_1min']} before and {context['load_after']} after.",
        "",
        f"Constants: {'; '.join(constants)}.",
        "",
        *apart_lines(folder),
        *left_over_lines(calibration),
        f"Not measured: {len(missing)} of {len(all_rows) + len(missing)}.",
        *(f"- {cell['topology']}, {cell['strategy']}: {reason}" for cell, reason in missing),
        "",
        "## Every cell, the worst first",
        "",
        "| topology | ranks | wrapper | strategy | accumulation | options | predicted, s "
        "| 90 % interval | measured, s | error | |",
        "|:--|--:|:--|:--|--:|:--|--:|:--|--:|--:|:--|",
        *map(row_line, all_rows),
        "",
    ]
    return storage.between((folder / "README.md").read_text(), (BEGIN, END), lines)
