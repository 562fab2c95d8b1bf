"""Draws what a gate found: forest.py GATE.json writes forest.png and forest.svg beside it.

Reads the JSON that `gradsync gate ... --json` prints (schema gradsync.gate/1). It computes nothing.
Rows: how much slower the candidate is, with 95 % intervals, beside the margin and the smallest
effect. Claims: the ratio of each, with what it must be.
"""

from __future__ import annotations

import sys
import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import style
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from run_data import load

SCHEMA = "gradsync.gate/1"
# Okabe and Ito's, as all of this suite's colours.
VERDICTS = {
    "pass": "#009E73",
    "regression": "#D55E00",
    "undecided": "#E69F00",
    "unfit": style.GREY,
}
MEASURES = {  # name in the field: label, marker, how far below the row's line
    "low": ("low quantile", "o", -0.14),
    "mean": ("mean", "s", 0.14),
}
CONTROL_OFFSET = 0.36
INCHES_OF_A_ROW = 0.42
INCHES_OF_A_TITLE_LINE = 0.175
TITLE_COLUMNS = 80  # letters of the title in a line
TITLE_LINES = 2  # of each side
PERCENT = 100


@dataclass
class Gate:
    """What a gate found, with the names by which style.finish asks for its provenance."""

    found: dict[str, Any]

    @property
    def context(self) -> dict[str, Any]:
        return self.found["candidate"]["context"]

    @property
    def plan(self) -> dict[str, Any]:
        return {"name": self.found["plan"]}


def read(path: Path) -> Gate:
    """Returns the gate in `path`. Raises DataError where there is none."""
    return Gate(load(path, "the JSON of a gate", SCHEMA))


def _draw_interval(axes: Any, y: float, value: float, ci95: Any, **look: Any) -> None:
    if ci95 is not None:
        axes.plot(ci95, [y, y], color=look["color"], linewidth=look.pop("linewidth", 1.6))
    else:
        look.pop("linewidth", None)
    axes.plot(value, y, linestyle="", **look)


def _effects(row: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """The measures of a row that have an effect, by name."""
    times = row["times"] or {}
    return [(name, times[name]) for name in MEASURES if times.get(name)]


def _draw_row(axes: Any, y: int, row: dict[str, Any]) -> None:
    colour = VERDICTS[row["verdict"]]
    for name, measure in _effects(row):
        _, marker, offset = MEASURES[name]
        effect = measure["effect"]
        ends = effect["ci95"] and [PERCENT * end for end in effect["ci95"]]
        _draw_interval(
            axes,
            y + offset,
            PERCENT * effect["value"],
            ends,
            color=colour,
            marker=marker,
            markersize=5,
            markerfacecolor=colour if name == "low" else "white",
        )
        control = measure["control"]
        if name == "low" and control:
            ends = control["ci95"] and [PERCENT * end for end in control["ci95"]]
            grey = {"color": style.GREY, "marker": "d", "markersize": 3.5, "linewidth": 0.8}
            _draw_interval(axes, y + CONTROL_OFFSET, PERCENT * control["value"], ends, **grey)


def _word(row: dict[str, Any]) -> str:
    """The verdict as it stands beside the row, and what it rests on where that is no effect."""
    if row["counts"] and row["counts"]["differences"]:
        return f"{row['verdict']}: counts"
    return row["verdict"]


def _prepare(axes: Any, entries: list[dict[str, Any]], words: list[str]) -> None:
    """Names on the left, verdicts on the right, the first entry at the top."""
    places = range(len(entries))
    axes.set_yticks(places, [entry["name"] for entry in entries], fontsize=8)
    axes.set_ylim(len(entries) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="x")
    for y, entry, word in zip(places, entries, words, strict=True):
        axes.annotate(
            word,
            (1.01, y),
            xycoords=("axes fraction", "data"),
            va="center",
            fontsize=8,
            fontweight="bold",
            color=VERDICTS[entry["verdict"]],
        )


def _draw_rows(axes: Any, gate: Gate, rows: list[dict[str, Any]]) -> None:
    settings = gate.found["settings"]
    for y, row in enumerate(rows):
        _draw_row(axes, y, row)
    axes.axvline(0, color=style.INK, linewidth=0.8)
    margin = settings.get("margin")
    if margin is not None:
        axes.axvline(PERCENT * margin, color=style.INK, linestyle="--", linewidth=0.9)
    for name, dashes in (("smallest_effect", ":"), ("mean_smallest_effect", (0, (1, 4)))):
        if settings.get(name) is not None:
            axes.axvline(PERCENT * settings[name], color=style.INK, linestyle=dashes, linewidth=1.1)
    _prepare(axes, rows, [_word(row) for row in rows])
    axes.set_xlabel("candidate slower than baseline, %")
    axes.set_title("Rows: effect with its 95 % interval")


def _draw_claims(axes: Any, claims: list[dict[str, Any]]) -> None:
    for y, claim in enumerate(claims):
        colour = VERDICTS[claim["verdict"]]
        ratio = claim["ratio"]
        if ratio:
            look = {"color": colour, "marker": "o", "markersize": 5}
            _draw_interval(axes, y, ratio["ratio"], ratio["ci95"], **look)
        for end, marker in zip(claim["allowed"], (">", "<"), strict=True):
            if end is not None:
                axes.plot([end, end], [y - 0.3, y + 0.3], color=style.INK, linewidth=0.9)
                axes.plot(end, y - 0.3, marker, color=style.INK, markersize=3)
    _prepare(axes, claims, [claim["verdict"] for claim in claims])
    axes.set_xlabel("ratio of step times")
    axes.set_title("Claims: ratio with its 95 % interval, and what it must be")


def _legend_entries(gate: Gate, rows: list[dict[str, Any]], claims: list[Any]) -> list[Any]:
    present = {entry["verdict"] for entry in [*rows, *claims]}
    entries: list[Any] = [
        Patch(color=colour, label=name) for name, colour in VERDICTS.items() if name in present
    ]
    for name, (label, marker, _) in MEASURES.items():
        if any(name in dict(_effects(row)) for row in rows):
            face = style.INK if name == "low" else "white"
            look = {"color": style.INK, "markerfacecolor": face, "markersize": 5}
            entries.append(Line2D([], [], marker=marker, label=label, **look))
    if any(measure["control"] for row in rows for name, measure in _effects(row) if name == "low"):
        entries.append(Line2D([], [], marker="d", color=style.GREY, label="control", markersize=4))
    lines = {"margin": "--", "smallest_effect": ":", "mean_smallest_effect": (0, (1, 4))}
    for name, dashes in lines.items():
        share = gate.found["settings"].get(name)
        if rows and share is not None:
            label = f"{name.replace('_', ' ')} {PERCENT * share:g} %"
            entries.append(Line2D([], [], color=style.INK, linestyle=dashes, label=label))
    return entries


def _fitting(name: str) -> list[str]:
    """A build or a command in as many lines as there is room for; what is left out are dots."""
    return textwrap.wrap(name, TITLE_COLUMNS, max_lines=TITLE_LINES, placeholder=" ...")


def _title(gate: Gate) -> str:
    verdict = "passed" if gate.found["verdict"] == "pass" else "not passed"
    baseline, candidate = gate.found["baseline"]["name"], gate.found["candidate"]["name"]
    both = f"{baseline} against {candidate}"
    lines = [both]
    if len(both) > TITLE_COLUMNS:
        lines = [*_fitting(baseline), *_fitting(f"against {candidate}")]
    return "\n".join([f"Gate {gate.found['plan']}: {verdict}", *lines])


def draw(gate: Gate) -> Any | None:
    """Returns the figure, or None where no row has an effect and no claim a ratio. A row without an
    effect beside others that have one is its word alone."""
    rows = gate.found["rows"] if any(_effects(row) for row in gate.found["rows"]) else []
    claims = gate.found["claims"] if any(c["ratio"] for c in gate.found["claims"]) else []
    panels = [entries for entries in (rows, claims) if entries]
    if not panels:
        return None
    heights = [0.9 + INCHES_OF_A_ROW * len(entries) for entries in panels]
    title = _title(gate)
    height = sum(heights) + 0.75 + INCHES_OF_A_TITLE_LINE * len(title.splitlines())
    figure, axes = style.plt.subplots(
        len(panels), 1, figsize=(8.4, height), squeeze=False, height_ratios=heights
    )
    if rows:
        _draw_rows(axes[0][0], gate, rows)
    if claims:
        _draw_claims(axes[-1][0], claims)
    style.finish(figure, gate, title, _legend_entries(gate, rows, claims))
    return figure


def pictures(path: Path) -> tuple[dict[str, Any], Path]:
    figure = draw(read(path))
    return ({} if figure is None else {"forest": figure}), path.parent


def main(arguments: list[str]) -> int:
    return style.run(
        arguments,
        __doc__,
        ("GATE.json", "what gradsync gate ... --json printed"),
        pictures,
        "no row has an effect, no claim a ratio",
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
