"""Bars: seconds per step of every strategy, by topology, with the 95 % intervals that there are."""

from __future__ import annotations

from statistics import mean
from typing import Any

import style
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from run_data import Part, Run, in_order

BAR = 0.8  # of the room that one strategy has
INCHES_OF_A_GROUP = 1.2  # at least, for a setting's bars and the label below them
FEW_GROUPS = 2  # more have smaller labels
BESIDE = 0.27  # from a bar's middle to the published value


def _error_bars(cell: dict[str, Any]) -> list[list[float]] | None:
    step = cell["step_s"]
    if step["ci95"] is None:
        return None
    low, high = step["ci95"]
    # The mean of a skewed sample may lie outside its own percentile interval by rounding.
    return [[max(0.0, step["mean"] - low)], [max(0.0, high - step["mean"])]]


def _draw_published(axes: Any, x: float, runs: list[float]) -> None:
    """The published mean and the runs behind it, beside our interval so that both can be seen."""
    axes.plot([x, x], [min(runs), max(runs)], color=style.INK, linewidth=0.8)
    axes.plot([x] * len(runs), runs, "_", color=style.INK, markersize=6, markeredgewidth=1)
    axes.plot(x, mean(runs), "D", color="white", markeredgecolor=style.INK, markersize=5)


def _draw_cell(axes: Any, run: Run, cell: dict[str, Any], x: float) -> float:
    """Draws one bar with what belongs to it; returns the height that is taken."""
    step = cell["step_s"]
    axes.bar(
        x,
        step["mean"],
        width=BAR,
        color=style.colour(cell["strategy"]),
        yerr=_error_bars(cell),
        error_kw={"elinewidth": 1.2, "capsize": 3, "ecolor": style.INK},
    )
    top = max(step["mean"], (step["ci95"] or [0, 0])[1])
    runs = run.published(cell)
    if runs:
        _draw_published(axes, x + BESIDE, runs)
        top = max(top, *runs)
    if cell["slowdown"] is not None:
        axes.annotate(
            f"{cell['slowdown']['ratio']:.2f}×",
            (x, top),
            xytext=(0, 5),
            textcoords="offset points",
            ha="center",
            fontsize=8,
        )
    return top


def _setting_label(run: Run, part: Part, cell: dict[str, Any]) -> str:
    words = [word.replace(" ", "\n") for word in style.setting_words(part, cell["cell"])]
    if part.has_several_topologies() or not words:
        words.insert(0, style.topology_label(run.context, cell))
    return "\n".join(words)


def _draw_part(axes: Any, run: Run, part: Part) -> None:
    x = 0.0
    top = 0.0
    centres, labels = [], []
    for setting in part.settings():
        cells = part.cells_of(setting)
        if not cells:
            continue
        for offset, cell in enumerate(cells):
            top = max(top, _draw_cell(axes, run, cell, x + offset))
        centres.append(x + (len(cells) - 1) / 2)
        labels.append(_setting_label(run, part, cells[0]))
        x += len(cells) + 0.8
    axes.set_xticks(centres, labels, fontsize=8 if len(labels) > FEW_GROUPS else None)
    axes.tick_params(axis="x", length=0)
    axes.set_ylim(0, top * 1.13)
    axes.set_ylabel("seconds per optimizer step")
    axes.grid(axis="y")
    axes.set_title(style.part_title(part).replace(": ", "\n", 1), fontsize=9)


def _legend_entries(run: Run, parts: list[Part]) -> list[Any]:
    cells = [cell for part in parts for cell in part.cells]
    entries: list[Any] = [
        Patch(color=style.colour(strategy), label=strategy.label)
        for strategy in in_order(cell["strategy"] for cell in cells)
    ]
    if any(run.published(cell) for cell in cells):
        diamond = {"color": "white", "markeredgecolor": style.INK, "linestyle": ""}
        entries.append(Line2D([], [], marker="D", label="published mean", **diamond))
        entries.append(
            Line2D([], [], marker="_", color=style.INK, linestyle="", label="published runs")
        )
    return entries


def draw(run: Run) -> Any | None:
    """Returns the figure, a panel per part, or None where no cell has a time. A crowd is compared
    by its fronts (pareto.py)."""
    parts = [
        part
        for part in run.parts
        if not part.is_crowded() and any(part.cells_of(s) for s in part.settings())
    ]
    if not parts:
        return None
    groups = [sum(bool(part.cells_of(s)) for s in part.settings()) for part in parts]
    widths = [max(5.2, INCHES_OF_A_GROUP * number) for number in groups]
    size = (max(6.6, sum(widths) + 0.6), 4.6)
    figure, axes = style.plt.subplots(
        1, len(parts), figsize=size, squeeze=False, width_ratios=widths
    )
    for panel, part in zip(axes[0], parts, strict=True):
        _draw_part(panel, run, part)
    drawn = [cell for part in parts for s in part.settings() for cell in part.cells_of(s)]
    interval = ", 95 % interval" if any(cell["step_s"]["ci95"] for cell in drawn) else ""
    title = f"What synchronizing every micro-batch costs\nmean step{interval}, × no_sync"
    style.finish(figure, run, title, _legend_entries(run, parts))
    return figure
