"""Points: memory against time over all ways to do the same work, and the front of those that no
other way beats in both."""

from __future__ import annotations

from itertools import zip_longest
from typing import Any

import style
from matplotlib.lines import Line2D
from run_data import DEFAULTS, OPTIONS, Run, Strategy

MIB = 2**20
MARKERS = {"DDP": "s", "FULL_SHARD": "o", "SHARD_GRAD_OP": "^"}
OTHER_MARKER = "D"
# How much of a point is filled: nothing is computed again, all is, some is.
FILLS = {"none": "full", "full": "none"}
SOME = "left"
MOST_COLUMNS = 3
RING = {"marker": "o", "fillstyle": "none", "color": style.INK, "markersize": 13, "linestyle": ""}
# The guide's table of memory: FSDP with every other lever where it is unless one pulls it.
GUIDES_STRATEGIES = ("no_sync", "sync_each_batch")
GUIDES_LEVERS = {name: DEFAULTS[name] for name, option in OPTIONS.items() if "lever" in option} | {
    "wrapper": "fsdp"
}
GUIDES_LEVERS.pop("strategy")


def _recomputes(cell: dict[str, Any]) -> str:
    again, kept = cell["activation_checkpointing"], cell["selective_checkpointing"]
    return again if kept == "none" else f"{again} but {kept}"


def _is_the_guides(cell: dict[str, Any]) -> bool:
    pulled = any(cell.get(lever, value) != value for lever, value in GUIDES_LEVERS.items())
    return cell["strategy"] in GUIDES_STRATEGIES and not pulled


def _look(cell: dict[str, Any], strategy: Strategy) -> dict[str, Any]:
    colour = style.colour(strategy)
    return {
        "marker": MARKERS.get(style.sharding_label(cell), OTHER_MARKER),
        "fillstyle": FILLS.get(_recomputes(cell), SOME),
        "color": colour,
        "markerfacecoloralt": "white",
        "markersize": 7,
        "linestyle": "",
    }


def _draw_front(axes: Any, points: list[dict[str, Any]]) -> None:
    """As a budget grows: the time of the fastest way in it."""
    front = [point for point in points if point["on_front"]]
    memory = [point["peak_allocated_bytes"] / MIB for point in front]
    times = [point["step_s"] for point in front]
    widest = max(point["peak_allocated_bytes"] for point in points) / MIB
    axes.step([*memory, widest], [*times, times[-1]], where="post", color=style.GREY, linewidth=1)


def _number_rows(front: list[dict[str, Any]], axes: Any) -> None:
    """Each point of the front has the number of its row in the page's table: left of it, where
    no way is as fast with less, and below, where no way is faster with as much, by turns.
    """
    left = {"xytext": (-7, 0), "ha": "right", "va": "center"}
    below = {"xytext": (0, -8), "ha": "center", "va": "top"}
    for number, point in enumerate(front, start=1):
        axes.annotate(
            str(number),
            (point["peak_allocated_bytes"] / MIB, point["step_s"]),
            textcoords="offset points",
            fontsize=8,
            **(left if number % 2 else below),
        )


def _draw_points(axes: Any, run: Run, front: dict[str, Any]) -> None:
    _draw_front(axes, front["points"])
    for point in front["points"]:
        place = (point["peak_allocated_bytes"] / MIB, point["step_s"])
        axes.plot(*place, **_look(point["cell"], run.strategies[point["cell"]["strategy"]]))
    for point in filter(lambda point: _is_the_guides(point["cell"]), front["points"]):
        axes.plot(point["peak_allocated_bytes"] / MIB, point["step_s"], markeredgewidth=0.8, **RING)
    _number_rows([point for point in front["points"] if point["on_front"]], axes)
    axes.margins(y=0.12)  # room for the lowest one's
    axes.set_xlabel("peak of a rank's tensors, MiB")
    axes.set_ylabel("seconds per optimizer step")
    axes.grid()
    axes.set_title(_work_of(run, front), fontsize=9)


def _work_of(run: Run, front: dict[str, Any]) -> str:
    cell = {"cell": front["cell"]}
    where = style.topology_label(run.context, cell, separator=", ")
    return f"accumulation {front['cell']['accumulation_steps']}, {where}"


def _legend(run: Run, fronts: list[dict[str, Any]]) -> list[Any]:
    cells = [point["cell"] for front in fronts for point in front["points"]]
    strategies = dict.fromkeys(run.strategies[cell["strategy"]] for cell in cells)
    entries = [
        Line2D([], [], color=style.colour(one), marker="o", linestyle="", label=one.label)
        for one in sorted(strategies, key=lambda one: one.place)
    ]
    ink = {"color": style.INK, "linestyle": ""}
    for sharding in dict.fromkeys(map(style.sharding_label, cells)):
        marker = MARKERS.get(sharding, OTHER_MARKER)
        entries.append(Line2D([], [], marker=marker, label=sharding, **ink))
    kept = dict.fromkeys(map(_recomputes, cells))
    if len(kept) > 1:
        for name in kept:
            fill = {"fillstyle": FILLS.get(name, SOME), "markerfacecoloralt": "white"}
            entries.append(Line2D([], [], marker="o", label=f"recomputes {name}", **fill, **ink))
    if any(map(_is_the_guides, cells)):
        entries.append(Line2D([], [], label="as in the guide's table", **RING))
    entries.append(
        Line2D([], [], color=style.GREY, label="fastest within a budget, by its row of the table")
    )
    return entries


def draw_all(run: Run) -> dict[str, Any]:
    """Returns a figure for each part with fronts, a panel for each of them, by file name."""
    figures = {}
    for part in run.parts:
        fronts = [front for front in run.fronts if front["part"] == part.name]
        if not fronts:
            continue
        columns = min(len(fronts), MOST_COLUMNS)
        rows = -(-len(fronts) // columns)
        size = (max(6.6, 5.1 * columns), 1.2 + 3.2 * rows)
        figure, axes = style.plt.subplots(rows, columns, figsize=size, squeeze=False)
        for panel, front in zip_longest(axes.flat, fronts):
            panel.set_axis_off() if front is None else _draw_points(panel, run, front)
        title = f"What buys memory, and at what price\n{style.part_title(part)}"
        style.finish(figure, run, title, _legend(run, fronts))
        figures["_".join(filter(None, ["pareto", part.name]))] = figure
    return figures
