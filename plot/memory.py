"""Lines: what accumulation costs in memory and in time, one line per way to synchronize."""

from __future__ import annotations

import json
import re
from typing import Any

import style
from matplotlib.lines import Line2D
from run_data import DEFAULTS, OPTIONS, Run, Strategy, in_order

MIB = 2**20
# How parameters are kept: the name in the field, the line that stands for it.
SHARDINGS = {
    "FULL_SHARD": "-",
    "SHARD_GRAD_OP": "--",
    "DDP": ":",
}
LEAST_POINTS = 2  # a line needs two accumulations

Line = tuple[str, Strategy]  # sharding, strategy


Lines = dict[Line, list[dict[str, Any]]]
# Parameters that a line, a point on it or a mark stands for; all others tell pictures apart.
DRAWN = (
    "accumulation_steps",
    "memory_budget_bytes",
    "reshard_after_forward",
    "strategy",
    "wrapper",
)
# Those that DDP's cells lack, as it would have them.
UNSHARDED = {
    name: DEFAULTS[name]
    for name, option in OPTIONS.items()
    if "only_under" in option and name not in DRAWN
}


def _picture_of(cell: dict[str, Any]) -> str:
    parameters = UNSHARDED | {name: cell[name] for name in cell if name not in DRAWN}
    return json.dumps(parameters, sort_keys=True)


def _has_line(cells: list[dict[str, Any]]) -> bool:
    return len({cell["cell"]["accumulation_steps"] for cell in cells}) >= LEAST_POINTS


def _pictures(run: Run) -> list[Lines]:
    """The lines of each picture, of the cells with a peak or out of a budget, by accumulation."""
    pictures: dict[str, Lines] = {}
    for cell in (cell for part in run.parts for cell in part.cells):
        has_peak = cell["peak_allocated_bytes"] is not None or cell["status"] == "oom"
        if has_peak and style.sharding_label(cell["cell"]) in SHARDINGS:
            line = (style.sharding_label(cell["cell"]), cell["strategy"])
            lines = pictures.setdefault(_picture_of(cell["cell"]), {})
            lines.setdefault(line, []).append(cell)
    kept = []
    for lines in pictures.values():
        for cells in lines.values():
            cells.sort(key=lambda cell: cell["cell"]["accumulation_steps"])
        long = {line: cells for line, cells in lines.items() if _has_line(cells)}
        if any(sharding != "DDP" for sharding, _ in long):
            kept.append(long)
    return kept


def _look(line: Line) -> dict[str, Any]:
    return {
        "linestyle": SHARDINGS[line[0]],
        "color": style.colour(line[1]),
        "marker": "o",
        "markersize": 4,
    }


def _draw_peaks(axes: Any, lines: Lines) -> None:
    accumulations: set[int] = set()
    for line, cells in lines.items():
        fits = [cell for cell in cells if cell["status"] == "ok"]
        axes.plot(
            [cell["cell"]["accumulation_steps"] for cell in fits],
            [cell["peak_allocated_bytes"] / MIB for cell in fits],
            **_look(line),
        )
        for cell in cells:
            accumulations.add(cell["cell"]["accumulation_steps"])
            budget = cell["cell"].get("memory_budget_bytes")
            if cell["status"] == "oom" and budget:
                place = (cell["cell"]["accumulation_steps"], budget / MIB)
                axes.plot(*place, "x", color=style.colour(line[1]), markersize=8)
    budgets = {
        cell["cell"].get("memory_budget_bytes") for cells in lines.values() for cell in cells
    }
    for budget in budgets - {None}:
        axes.axhline(budget / MIB, color=style.INK, linewidth=0.8)
        text = {"xytext": (3, 2), "textcoords": "offset points", "fontsize": 7}
        axes.annotate(f"budget {budget / MIB:.1f} MiB", (1, budget / MIB), **text)
    axes.set_xscale("log", base=2)
    axes.set_xticks(sorted(accumulations), [str(number) for number in sorted(accumulations)])
    axes.set_xlabel("micro-batches per optimizer step")
    axes.set_ylabel("peak of a rank's tensors, MiB")
    axes.set_ylim(bottom=0)
    axes.grid(axis="y")
    axes.set_title("Memory against accumulation")


def _draw_frontier(axes: Any, lines: Lines) -> None:
    """Each line from its first accumulation, marked by a larger dot, to its last."""
    for line, cells in lines.items():
        timed = [cell for cell in cells if cell["status"] == "ok" and cell["micro_batch_s"]]
        if not timed:
            continue
        memory = [cell["peak_allocated_bytes"] / MIB for cell in timed]
        times = [cell["micro_batch_s"]["mean"] for cell in timed]
        axes.plot(memory, times, **_look(line))
        axes.plot(memory[0], times[0], "o", color=style.colour(line[1]), markersize=8)
    axes.set_xlabel("peak of a rank's tensors, MiB")
    axes.set_ylabel("seconds per micro-batch")
    axes.set_xlim(left=0)
    axes.set_ylim(bottom=0)
    axes.grid()
    axes.set_title("Time against memory (large dot: fewest micro-batches)")


def _legend_entries(lines: Lines) -> list[Any]:
    entries = [
        Line2D([], [], color=style.colour(strategy), label=strategy.label)
        for strategy in in_order(strategy for _, strategy in lines)
    ]
    entries += [
        Line2D([], [], color=style.GREY, linestyle=dashes, label=name)
        for name, dashes in SHARDINGS.items()
        if any(sharding == name for sharding, _ in lines)
    ]
    if any(cell["status"] == "oom" for cells in lines.values() for cell in cells):
        entries.append(Line2D([], [], marker="x", linestyle="", color=style.INK, label="oom"))
    return entries


def _differing(pictures: list[Lines]) -> list[str]:
    """Returns the parameters in which the pictures differ, without the topology."""
    cells = [next(iter(lines.values()))[0]["cell"] for lines in pictures]
    names = dict.fromkeys(name for cell in cells for name in cell if name not in DRAWN)
    return [
        name
        for name in names
        if name != "topology" and len({cell.get(name, UNSHARDED.get(name)) for cell in cells}) > 1
    ]


def _draw(run: Run, lines: Lines, words: list[str]) -> Any:
    timed = any(cell["micro_batch_s"] for cells in lines.values() for cell in cells)
    panels = 2 if timed else 1
    figure, axes = style.plt.subplots(
        1, panels, figsize=(max(6.6, 5.1 * panels), 4.4), squeeze=False
    )
    _draw_peaks(axes[0][0], lines)
    if timed:
        _draw_frontier(axes[0][1], lines)
    first = next(iter(lines.values()))[0]
    where = style.topology_label(run.context, first, separator=", ")
    title = "What accumulation costs under FSDP\n"
    title += ", ".join([first["cell"]["model"], where, *words])
    style.finish(figure, run, title, _legend_entries(lines))
    return figure


def draw_all(run: Run) -> dict[str, Any]:
    """Returns a figure for all cells that can share one, by file name; a cell without shards or of
    a single accumulation is in none."""
    pictures = _pictures(run)
    differing = _differing(pictures)
    figures = {}
    for lines in pictures:
        cell = next(iter(lines.values()))[0]["cell"]
        words = [style.parameter_words(name, cell.get(name)) for name in differing]
        name = "memory" if len(pictures) == 1 else "_".join(["memory", cell["topology"], *words])
        figures[re.sub(r"[^A-Za-z0-9_]+", "_", name)] = _draw(run, lines, words)
    return figures
