"""Lines: what accumulation costs in memory and in time, one line per way to synchronize."""

from __future__ import annotations

from typing import Any

import style
from matplotlib.lines import Line2D
from run_data import STRATEGIES, Run

MIB = 2**20
# How parameters are kept: the name in the field, the line that stands for it.
SHARDINGS = {
    "FULL_SHARD": "-",
    "SHARD_GRAD_OP": "--",
    "ddp": ":",
}
LEAST_POINTS = 2  # a line needs two accumulations

Line = tuple[str, str]  # sharding, strategy


def _sharding(cell: dict[str, Any]) -> str:
    if cell["wrapper"] != "fsdp":
        return cell["wrapper"]
    return "FULL_SHARD" if cell["reshard_after_forward"] else "SHARD_GRAD_OP"


def _lines(run: Run) -> dict[Line, list[dict[str, Any]]]:
    """The cells of each line by accumulation: those with a peak, or out of a budget."""
    lines: dict[Line, list[dict[str, Any]]] = {}
    for part in run.parts:
        for cell in part.cells:
            known = cell["peak_allocated_bytes"] is not None or cell["status"] == "oom"
            line = (_sharding(cell["cell"]), cell["cell"]["strategy"])
            if known and line[0] in SHARDINGS:
                lines.setdefault(line, []).append(cell)
    for cells in lines.values():
        cells.sort(key=lambda cell: cell["cell"]["accumulation_steps"])
    return {
        line: cells
        for line, cells in lines.items()
        if len({cell["cell"]["accumulation_steps"] for cell in cells}) >= LEAST_POINTS
    }


def _look(line: Line) -> dict[str, Any]:
    return {
        "linestyle": SHARDINGS[line[0]],
        "color": style.COLOURS[line[1]],
        "marker": "o",
        "markersize": 4,
    }


def _draw_peaks(axes: Any, lines: dict[Line, list[dict[str, Any]]]) -> None:
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
                axes.plot(*place, "x", color=style.COLOURS[line[1]], markersize=8)
    budgets = {
        cell["cell"].get("memory_budget_bytes") for cells in lines.values() for cell in cells
    }
    for budget in budgets - {None}:
        axes.axhline(budget / MIB, color=style.INK, linewidth=0.8)
    axes.set_xscale("log", base=2)
    axes.set_xticks(sorted(accumulations), [str(number) for number in sorted(accumulations)])
    axes.set_xlabel("micro-batches per optimizer step")
    axes.set_ylabel("peak of a rank's tensors, MiB")
    axes.set_ylim(bottom=0)
    axes.grid(axis="y")
    axes.set_title("Memory against accumulation")


def _draw_frontier(axes: Any, lines: dict[Line, list[dict[str, Any]]]) -> None:
    """Each line from its first accumulation, marked by a larger dot, to its last."""
    for line, cells in lines.items():
        timed = [cell for cell in cells if cell["status"] == "ok" and cell["micro_batch_s"]]
        if not timed:
            continue
        memory = [cell["peak_allocated_bytes"] / MIB for cell in timed]
        times = [cell["micro_batch_s"]["mean"] for cell in timed]
        axes.plot(memory, times, **_look(line))
        axes.plot(memory[0], times[0], "o", color=style.COLOURS[line[1]], markersize=8)
    axes.set_xlabel("peak of a rank's tensors, MiB")
    axes.set_ylabel("seconds per micro-batch")
    axes.set_xlim(left=0)
    axes.set_ylim(bottom=0)
    axes.grid()
    axes.set_title("Time against memory (large dot: fewest micro-batches)")


def _legend_entries(lines: dict[Line, list[dict[str, Any]]]) -> list[Any]:
    entries = [
        Line2D([], [], color=style.COLOURS[name], label=style.strategy_label(name))
        for name in STRATEGIES
        if any(strategy == name for _, strategy in lines)
    ]
    entries += [
        Line2D([], [], color=style.GREY, linestyle=dashes, label=name)
        for name, dashes in SHARDINGS.items()
        if any(sharding == name for sharding, _ in lines)
    ]
    if any(cell["status"] == "oom" for cells in lines.values() for cell in cells):
        entries.append(Line2D([], [], marker="x", linestyle="", color=style.INK, label="oom"))
    return entries


def draw(run: Run) -> Any | None:
    """Returns the figure, or None where no sharded cell was run at several accumulations."""
    lines = _lines(run)
    if not any(sharding != "ddp" for sharding, _ in lines):
        return None
    figure, (peaks, frontier) = style.plt.subplots(1, 2, figsize=(10.2, 4.4))
    _draw_peaks(peaks, lines)
    _draw_frontier(frontier, lines)
    first = next(iter(lines.values()))[0]
    where = style.topology_label(run.context, first, separator=", ")
    title = f"What accumulation costs under FSDP\n{first['cell']['model']}, {where}"
    style.finish(figure, run, title, _legend_entries(lines))
    return figure
