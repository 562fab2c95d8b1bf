"""Bars: where a step of each rank went: own compute, copies, a late peer, or the wire."""

from __future__ import annotations

from typing import Any

import style
from matplotlib.patches import Patch
from run_data import Part, Run

# The name in the field: its colour and what it is called.
PARTS = {
    "own_compute_s": ("#3182BD", "own compute"),
    "recompute_s": ("#CAB2D6", "computing again"),
    "copy_s": ("#CC79A7", "copying reduced buckets"),
    "offload_s": ("#F0E442", "copying to the host and back"),
    "cast_s": ("#E377C2", "copying to another type"),
    "late_peer_s": ("#D55E00", "waiting for a late peer"),
    "wire_s": ("#E69F00", "waiting for the wire"),
}
BAR = 0.8
BETWEEN_CELLS = 0.5
BETWEEN_SETTINGS = 0.7  # more, and with the name of the setting
RARE = ("recompute_s", "offload_s", "cast_s")  # explained only where there is some
INCHES_OF_A_BAR = 0.19


def _waits(cell: dict[str, Any]) -> bool:
    """Whether the cell says where its steps went, and communicates: else they are own compute."""
    attribution = cell.get("attribution")
    return bool(attribution) and any(rank["collectives"] for rank in attribution["ranks"])


def _shown(part: Part) -> dict[str, list[dict[str, Any]]]:
    """The cells that say where their steps went, by setting; of a sweep, those of one."""
    shown = {
        setting: [cell for cell in part.cells_of(setting) if _waits(cell)]
        for setting in part.example_settings()
    }
    return {setting: cells for setting, cells in shown.items() if cells}


def _draw_rank(axes: Any, rank: dict[str, Any], y: float) -> None:
    left = 0.0
    for name, (colour, _) in PARTS.items():
        length = rank.get(name, 0.0)
        axes.barh(y, length, left=left, height=BAR, color=colour)
        left += length


def _setting_name(run: Run, part: Part, cell: dict[str, Any]) -> str:
    words = style.setting_words(part, cell["cell"])
    if part.has_several_topologies() or not words:
        words.insert(0, style.topology_label(run.context, cell, separator=", "))
    return ", ".join(words)


def _draw_part(axes: Any, run: Run, part: Part) -> None:
    y = 0.0
    ticks, names = [], []
    for cells in _shown(part).values():
        y += BETWEEN_SETTINGS
        title = {"fontsize": 8, "fontweight": "bold", "va": "center"}
        name = _setting_name(run, part, cells[0])
        axes.annotate(name, (0, y - BETWEEN_SETTINGS / 2), **title).set_in_layout(False)
        for cell in cells:
            ranks = cell["attribution"]["ranks"]
            y += BETWEEN_CELLS
            for rank in ranks:
                _draw_rank(axes, rank, y)
                ticks.append(y)
                first = rank is ranks[0]
                strategy = cell["strategy"].label + ", " if first else ""
                names.append(f"{strategy}rank {rank['rank']}")
                y += 1
    axes.set_yticks(ticks, names, fontsize=7)
    axes.tick_params(axis="y", length=0)
    axes.set_ylim(y, -BETWEEN_SETTINGS)
    axes.set_xlim(left=0)
    axes.grid(axis="x")
    axes.set_xlabel("seconds of the last timed step, mean over trials")
    axes.set_title(style.part_title(part), fontsize=9)


def _bars(part: Part) -> int:
    cells = [cell for cells in _shown(part).values() for cell in cells]
    return sum(len(cell["attribution"]["ranks"]) + 1 for cell in cells)


def _legend(parts: list[Part]) -> list[Any]:
    ranks = [
        rank
        for part in parts
        for cells in _shown(part).values()
        for cell in cells
        for rank in cell["attribution"]["ranks"]
    ]
    return [
        Patch(color=colour, label=label)
        for name, (colour, label) in PARTS.items()
        if name not in RARE or any(rank.get(name) for rank in ranks)
    ]


def draw(run: Run) -> Any | None:
    """Returns the figure, a panel per part, or None where no cell says where its steps went."""
    parts = [part for part in run.parts if _shown(part)]
    if not parts:
        return None
    heights = [0.9 + INCHES_OF_A_BAR * _bars(part) for part in parts]
    figure, axes = style.plt.subplots(
        len(parts), 1, figsize=(8, sum(heights) + 1), squeeze=False, height_ratios=heights
    )
    for panel, part in zip(axes[:, 0], parts, strict=True):
        _draw_part(panel, run, part)
    style.finish(figure, run, "Where a step went, by rank", _legend(parts))
    return figure
