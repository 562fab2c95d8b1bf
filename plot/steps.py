"""Every timed step as it was measured: a strip per cell, launch after launch.

Drawn as the difference from the cell's mean, because strategies differ by far more than the steps
of one strategy do; the mean itself stands below each strip.
"""

from __future__ import annotations

from typing import Any

import style
from run_data import Part, Run

STRIP = 0.76  # width of a strip, where its neighbour's centre is 1 away
LEAST_RANGE = 1.0  # per cent up and down: a quiet run must not look like a wild one


def _draw_strip(axes: Any, run: Run, cell: dict[str, Any], x: float) -> float:
    """Draws the steps of one cell; returns the largest difference from their mean, in per cent."""
    steps = [(trial["launch"], step) for trial in run.trials_of(cell) for step in trial["step_s"]]
    steps = [(launch, step) for launch, step in steps if step is not None]
    mean = cell["step_s"]["mean"]
    places = [x + STRIP * ((i + 0.5) / len(steps) - 0.5) for i in range(len(steps))]
    differences = [100 * (step / mean - 1) for _, step in steps]
    colour = style.colour(cell["strategy"])
    # Launches alternate between filled and hollow dots, so that neighbours differ.
    fills = [colour if launch % 2 == 0 else "white" for launch, _ in steps]
    axes.scatter(places, differences, s=14, linewidths=0.9, edgecolors=colour, c=fills, zorder=3)
    axes.plot([x - STRIP / 2, x + STRIP / 2], [0, 0], color=style.INK, linewidth=0.8, zorder=1)
    return max(map(abs, differences))


def _draw_setting(axes: Any, run: Run, part: Part, setting: str) -> None:
    cells = part.cells_of(setting)
    largest = max(_draw_strip(axes, run, cell, x) for x, cell in enumerate(cells))
    labels = [f"{cell['strategy'].label}\n{cell['step_s']['mean']:#.4g} s" for cell in cells]
    axes.set_xticks(range(len(cells)), labels, fontsize=8)
    axes.tick_params(axis="x", length=0)
    axes.set_xlim(-0.6, len(cells) - 0.4)
    reach = 1.1 * max(largest, LEAST_RANGE)
    axes.set_ylim(-reach, reach)
    axes.grid(axis="y")
    where = [style.topology_label(run.context, cells[0], separator=", ")]
    where += style.setting_words(part, cells[0]["cell"])
    axes.set_title(f"{', '.join(where)}\n{style.part_title(part)}", fontsize=8.5)


def draw(run: Run) -> Any | None:
    """Returns the figure, a panel per setting (of a sweep over accumulation, one), or None where no
    cell has a time."""
    panels = [(part, setting) for part in run.parts for setting in part.example_settings()]
    if not panels:
        return None
    columns = min(2, len(panels))
    rows = -(-len(panels) // columns)
    figure, axes = style.plt.subplots(
        rows, columns, figsize=(max(6.6, 5.2 * columns), 2.9 * rows + 0.8), squeeze=False
    )
    for panel, (part, setting) in zip(axes.flat, panels, strict=False):
        _draw_setting(panel, run, part, setting)
    for unused in axes.flat[len(panels) :]:
        unused.set_visible(False)
    for row in axes:
        row[0].set_ylabel("step, % from the cell's mean")
    title = (
        "Every timed step (slowest rank), in the order it ran; launches alternate filled, hollow"
    )
    style.finish(figure, run, title)
    return figure
