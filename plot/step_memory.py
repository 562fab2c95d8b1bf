"""One step in memory: what a rank held at each moment, by category.

A picture per sharding (or whatever else varies) of each part, no_sync beside sync_each_batch on
the same axes. Of a sweep over accumulation one is shown: small enough that each micro-batch can be
seen, large enough that something is accumulated.
"""

from __future__ import annotations

from typing import Any

import style
import timelines
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator
from run_data import Part, Run, setting_key, telling_accumulation

MIB = 2**20
GIB = 2**30
# From the bottom up: what stays, what comes and goes, what is in dispute between the strategies.
CATEGORIES = {
    "sharded_parameter": "#4D4D4D",
    "optimizer_state": "#9A9A9A",
    "other": "#D0D0D0",
    "gathered_parameter": "#56B4E9",
    "communication": "#CC79A7",
    "activation": "#009E73",
    "sharded_gradient": "#F0E442",
    "unsharded_gradient": "#D55E00",
}
SHOWN = ("no_sync", "sync_each_batch")
SECONDS = "seconds since the step began; dotted: a micro-batch begins"
TURNS = "changes of memory, 0 to 1; dotted: a micro-batch begins"
HEADROOM = 1.08  # above the highest point or the budget
LEAST_GIB = 4  # below it the axes are labelled in MiB
LEAST_WIDTH = 8.0  # inches: for the title and the legend of a single panel

Point = dict[str, Any]


def _points(run: Run, cell: dict[str, Any]) -> list[Point]:
    """What was recorded of the cell's last trial that has it; nothing where none has."""
    for trial in reversed(run.trials_of(cell)):
        if points := timelines.memory_of(run.directory, trial):
            return points
    return []


def _places(points: list[Point], timed: bool) -> list[float]:
    """Where each point is drawn: at its second, or where times mean nothing at its turn, 0 to 1."""
    if timed:
        return [point["at_s"] for point in points]
    return [turn / max(1, len(points) - 1) for turn in range(len(points))]


def colours(timelines: list[list[Point]]) -> dict[str, str]:
    """Returns the colours of categories, from the bottom up; others are gray, at the top."""
    held = {name for points in timelines for point in points for name in point["bytes"]}
    return CATEGORIES | dict.fromkeys(sorted(held - CATEGORIES.keys()), style.GREY)


def _heights(points: list[Point]) -> list[int]:
    return [sum(point["bytes"].values()) for point in points]


def _mark_micro_batches(axes: Any, points: list[Point], places: list[float]) -> None:
    seen = {-1}
    for point, place in zip(points, places, strict=True):
        if point["micro_batch"] in seen:
            continue
        seen.add(point["micro_batch"])
        line = {"color": style.INK, "linewidth": 0.8}
        style.mark_micro_batch(axes, point["micro_batch"], place, line)


def _draw_points(axes: Any, points: list[Point], places: list[float], unit: int) -> None:
    below = [0.0] * len(points)
    for category, colour in colours([points]).items():
        above = [
            under + point["bytes"].get(category, 0) / unit
            for under, point in zip(below, points, strict=True)
        ]
        axes.fill_between(places, below, above, step="post", color=colour, linewidth=0)
        below = above
    _mark_micro_batches(axes, points, places)
    top = max(_heights(points)) / unit
    axes.axhline(top, color=style.INK, linewidth=0.6, linestyle="--")


def _say_what_ended_it(axes: Any, cell: dict[str, Any]) -> None:
    """An oom leaves no record: its word and its place stand where the picture would be."""
    lines = [cell["status"]]
    if place := cell.get("oom_place"):
        lines += [f"micro-batch {place['micro_batch']}", place["phase"]]
        lines += [f"unit {place['unit']}"] if "unit" in place else []
    words = "\n".join(lines)
    centre = {"ha": "center", "va": "center", "transform": axes.transAxes}
    axes.text(0.5, 0.5, words, fontsize=10, color=style.INK, **centre)


def _strategy_title(cell: dict[str, Any], points: list[Point], unit: int, name: str) -> str:
    title = cell["strategy"].label
    return f"{title}: peak {max(_heights(points)) / unit:.1f} {name}" if points else title


def _chosen(run: Run, part: Part) -> dict[str, list[dict[str, Any]]]:
    """The cells of each picture by its setting, the strategies of one accumulation."""
    chosen = {}
    for setting, by_accumulation in part.sweeps().items():
        shown = {
            steps: [
                cell
                for cell in cells
                if cell["cell"]["wrapper"] == "fsdp" and cell["cell"]["strategy"] in SHOWN
            ]
            for steps, cells in by_accumulation.items()
        }
        recorded = {
            steps: cells
            for steps, cells in shown.items()
            if any(_points(run, cell) for cell in cells)
        }
        if recorded:
            steps = telling_accumulation(recorded)
            order = {name: turn for turn, name in enumerate(SHOWN)}
            chosen[setting] = sorted(
                recorded[steps], key=lambda cell: order[cell["cell"]["strategy"]]
            )
    return chosen


def _legend(all_points: list[list[Point]]) -> list[Any]:
    held = {name for points in all_points for point in points for name in point["bytes"]}
    return [
        Patch(color=colour, label=name.replace("_", " "))
        for name, colour in reversed(colours(all_points).items())
        if name in held
    ]


def _unit_of(cells: list[dict[str, Any]], timelines: list[list[Point]]) -> tuple[float, int, str]:
    """The height of the axes in bytes, and the unit in which they are labelled."""
    top = max(max(_heights(points), default=0) for points in timelines)
    top = max(top, *(cell["cell"].get("memory_budget_bytes") or 0 for cell in cells))
    return (HEADROOM * top, GIB, "GiB") if top >= LEAST_GIB * GIB else (HEADROOM * top, MIB, "MiB")


def _draw_budget(axes: Any, budget: int, unit: int, name: str) -> None:
    axes.axhline(budget / unit, color=style.INK, linewidth=1.4)
    text = {"xytext": (3, 2), "textcoords": "offset points", "fontsize": 7}
    axes.annotate(f"budget {budget / unit:.1f} {name}", (0, budget / unit), **text)


def _title(run: Run, part: Part, cell: dict[str, Any]) -> str:
    parameters = cell["cell"]
    words = [parameters["model"], style.topology_label(run.context, cell, separator=", ")]
    words.append(style.parameter_words("accumulation_steps", parameters["accumulation_steps"]))
    words.append(style.sharding_label(parameters))
    said = ("accumulation_steps", "memory_budget_bytes")
    words += [word for word in style.setting_words(part, parameters, said) if word not in words]
    return "Memory of a rank over one step that is not timed\n" + ", ".join(words)


def _draw(run: Run, part: Part, cells: list[dict[str, Any]]) -> Any:
    timelines = [_points(run, cell) for cell in cells]
    recorded = [cell for cell, points in zip(cells, timelines, strict=True) if points]
    timed = all(cell["step_s"] is not None for cell in recorded)
    height, unit, name = _unit_of(cells, timelines)
    size = (max(4.4 * len(cells) + 0.6, LEAST_WIDTH), 4.2)
    figure, axes = style.plt.subplots(
        1, len(cells), figsize=size, squeeze=False, sharex=True, sharey=True
    )
    for panel, cell, points in zip(axes[0], cells, timelines, strict=True):
        if points:
            _draw_points(panel, points, _places(points, timed), unit)
        else:
            _say_what_ended_it(panel, cell)
        if cell["cell"].get("memory_budget_bytes"):
            _draw_budget(panel, cell["cell"]["memory_budget_bytes"], unit, name)
        panel.set_title(_strategy_title(cell, points, unit, name), pad=12)
        panel.set_xlabel(SECONDS if timed else TURNS)
        panel.xaxis.set_major_locator(MaxNLocator(5))
        panel.grid(axis="y")
    axes[0][0].set_ylim(0, height / unit)
    axes[0][0].set_xlim(0, max(_places(points, timed)[-1] for points in timelines if points) * 1.03)
    axes[0][0].set_ylabel(f"rank 0's tensors, {name}; dashed: the peak")
    style.finish(figure, run, _title(run, part, cells[0]), _legend(timelines))
    return figure


def draw_all(run: Run) -> dict[str, Any]:
    """Returns a figure per part and setting under FSDP, by file name; of a crowd, of its fronts."""
    return {
        style.picture_name("step_memory", part, cells[0]["cell"]): _draw(run, part, cells)
        for part in run.parts
        for cells in _chosen(run, part).values()
        if not part.is_crowded() or setting_key(cells[0]["cell"]) in part.on_front
    }
