"""Bars: how much of a step each rank stands idle, on the way from one process to DDP; and lines:
how far the replicas of those ways drift apart that do not synchronize them."""

from __future__ import annotations

from typing import Any

import style
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from run_data import Run

ENGINES = ("ddp", "fsdp")
RANK_COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7")
ROW = 0.8  # of which the bars of a row's ranks take this much


def _way(cell: dict[str, Any]) -> str:
    return f"{cell['cell']['wrapper']}, {cell['strategy'].label}"


def _rows(run: Run) -> list[dict[str, Any]]:
    """The cells with an idle share, of the parts in which some way is not one of the engines."""
    rows = []
    for part in run.parts:
        if all(cell["cell"]["wrapper"] in ENGINES for cell in part.cells):
            continue
        rows += [cell for cell in part.cells if cell["status"] == "ok" and cell.get("idle_share")]
    return rows


def _theory(cell: dict[str, Any]) -> float | None:
    """The share of equal stages; of one in which a transfer takes no time."""
    parameters = cell["cell"]
    stages = len(cell["idle_share"]["by_rank"])
    if parameters["wrapper"] != "pipeline":
        return None
    if parameters["strategy"] == "pipelined":
        return (stages - 1) / (parameters["accumulation_steps"] + stages - 1)
    return 1 - 1 / stages


def _draw_idle(axes: Any, run: Run, rows: list[dict[str, Any]]) -> None:
    labels = []
    for place, cell in enumerate(rows):
        shares = cell["idle_share"]["by_rank"]
        height = ROW / len(shares)
        for rank, share in enumerate(shares):
            y = place + (rank - (len(shares) - 1) / 2) * height
            axes.barh(y, 100 * share, height, color=RANK_COLOURS[rank % len(RANK_COLOURS)])
        theory = _theory(cell)
        if theory is not None:
            ends = [place - ROW / 2, place + ROW / 2]
            axes.plot([100 * theory] * 2, ends, color=style.INK, linewidth=1.4)
        where = style.topology_label(run.context, cell, separator=", ")
        labels.append(f"{_way(cell)}\n{cell['cell']['model']}, {where}")
    axes.set_yticks(range(len(rows)), labels, fontsize=7)
    axes.invert_yaxis()
    axes.set_xlim(0, 100)
    axes.grid(axis="x")
    axes.set_xlabel("share of a step with nothing to compute, %")
    axes.set_title("Idle, by rank")


def _draw_distance(axes: Any, cells: list[dict[str, Any]]) -> None:
    for cell in cells:
        distances = cell["parameter_distance"]["after_step"]
        steps = range(len(distances) + 1)
        look = {"marker": "o", "markersize": 3, "linewidth": 1.2}
        alike = ": 0 after every step" if not any(distances) else ""
        axes.plot(steps, [0, *distances], label=_way(cell) + alike, **look)
    axes.set_xlabel("steps from a common start")
    axes.set_ylabel("|p − q| / |q|, rank 0's parameters q")
    axes.set_ylim(bottom=0)
    axes.grid()
    axes.legend(fontsize=7)
    axes.set_title("Distance between replicas")


def draw(run: Run) -> Any | None:
    """Returns the figure, or None where no part of the run is on that way."""
    rows = _rows(run)
    if not rows:
        return None
    apart: dict[str, dict[str, Any]] = {}
    for cell in rows:
        if cell.get("parameter_distance"):
            apart.setdefault(_way(cell), cell)  # the same on every topology
    panels = 2 if apart else 1
    figure, axes = style.plt.subplots(
        1,
        panels,
        figsize=(6.6 if panels == 1 else 11.0, max(3.2, 0.46 * len(rows) + 1.5)),
        squeeze=False,
    )
    _draw_idle(axes[0][0], run, rows)
    if apart:
        _draw_distance(axes[0][1], list(apart.values()))
    ranks = max(len(cell["idle_share"]["by_rank"]) for cell in rows)
    entries: list[Any] = [
        Patch(color=RANK_COLOURS[rank % len(RANK_COLOURS)], label=f"rank {rank}")
        for rank in range(ranks)
    ]
    if any(_theory(cell) is not None for cell in rows):
        entries.append(Line2D([], [], color=style.INK, linewidth=1.4, label="equal stages, theory"))
    style.finish(figure, run, "Who waits on the road to DDP", entries)
    return figure
