"""Lines: what an example costs along an axis of a plan, a line per strategy and option."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import style
from matplotlib.lines import Line2D
from run_data import Part, Run, Strategy, in_order

LEAST_POINTS = 3  # fewer are told apart by bars
DASHES = ("-", "--", ":", "-.")  # the options of a line; more of them begin again
MS = 1e3
MIB = 2**20


def _topology(run: Run, cell: dict[str, Any]) -> dict[str, Any]:
    return run.context.get("topologies", {}).get(cell["cell"]["topology"], {})


def _rate(run: Run, cell: dict[str, Any]) -> float | None:
    return _topology(run, cell).get("inter_node_bits_per_s")


def _nodes(_: Run, cell: dict[str, Any]) -> int | None:
    return cell.get("nodes")


def _same_topology(run: Run, cell: dict[str, Any]) -> str:
    return style.topology_label(run.context, cell, separator=", ")


def _same_link(run: Run, cell: dict[str, Any]) -> str:
    rate = _rate(run, cell)
    return "links of no set rate" if rate is None else style.rate_text(rate)


def _same_nodes(run: Run, cell: dict[str, Any]) -> str:
    return f"{_nodes(run, cell)} nodes"


def _cap_text(cap_bytes: int) -> str:
    return "default" if cap_bytes == 0 else f"{cap_bytes / MIB:.4g} MiB"


@dataclass(frozen=True)
class Axis:
    """What a picture has from left to right; `field` is the cell's that makes the difference, and a
    panel holds what has the same `panel`. A line joins only values that are `on_scale`: between a
    size and a word there is nothing to interpolate."""

    name: str
    field: str
    label: str
    value: Callable[[Run, dict[str, Any]], Any]
    text: Callable[[Any], str] = str
    panel: Callable[[Run, dict[str, Any]], str] = _same_topology
    on_scale: Callable[[Any], bool] = lambda _: True


AXES = (
    Axis(
        "accumulation",
        "accumulation_steps",
        "micro-batches per optimizer step",
        lambda _, cell: cell["cell"]["accumulation_steps"],
    ),
    Axis(
        "bucket_cap",
        "bucket_cap_bytes",
        "cap of a bucket",
        lambda _, cell: cell["cell"].get("bucket_cap_bytes", 0),
        _cap_text,
        on_scale=lambda cap_bytes: cap_bytes > 0,
    ),
    Axis("nodes", "topology", "nodes", _nodes, panel=_same_link),
    Axis("link", "topology", "link between nodes", _rate, style.rate_text, panel=_same_nodes),
)


@dataclass
class Line:
    """Cells that differ in one axis alone, by its values."""

    panel: str
    strategy: Strategy
    options: str
    cells: dict[Any, dict[str, Any]]


def _lines(run: Run, part: Part, axis: Axis) -> list[Line]:
    """Those with enough points, from the strategy that synchronizes most to the one with least."""
    lines: dict[str, Line] = {}
    for cell in part.cells:
        if cell["status"] != "ok" or not cell.get("sample_s"):
            continue
        value = axis.value(run, cell)
        if value is None:
            continue
        rest = {name: of for name, of in cell["cell"].items() if name != axis.field}
        panel = axis.panel(run, cell)
        options = ", ".join(style.setting_words(part, cell["cell"], besides=(axis.field,)))
        line = Line(panel, cell["strategy"], options, {})
        lines.setdefault(json.dumps([rest, panel]), line).cells[value] = cell
    kept = [line for line in lines.values() if len(line.cells) >= LEAST_POINTS]
    return sorted(kept, key=lambda line: line.strategy.place)


def _law_of(run: Run, part: Part, line: Line) -> dict[Any, dict[str, Any]]:
    """The law's points for this line, by accumulation; empty where it has no law."""
    cell = next(iter(line.cells.values()))["cell"]
    shared = {k: v for k, v in cell.items() if k not in ("strategy", "accumulation_steps")}
    for law in run.laws:
        if law["part"] == part.name and law["cell"] == shared:
            return {
                point["accumulation_steps"]: point
                for point in law["points"]
                if point["strategy"] == line.strategy.name
            }
    return {}


def _draw_line(
    axes: Any, axis: Axis, line: Line, places: dict[Any, int], dashes: str, law: Any
) -> None:
    colour = style.colour(line.strategy)
    values = sorted(line.cells)
    x = [places[value] for value in values]
    means = [line.cells[value]["sample_s"]["mean"] * MS for value in values]
    held_out = {value for value, point in law.items() if point["held_out"]}
    if not law:
        joined = [i for i, value in enumerate(values) if axis.on_scale(value)]
        axes.plot(
            [x[i] for i in joined], [means[i] for i in joined], color=colour, linestyle=dashes
        )
    for place, value, mean in zip(x, values, means, strict=True):
        interval = line.cells[value]["sample_s"]["ci95"]
        if interval is not None:
            axes.plot([place, place], [end * MS for end in interval], color=colour)
        face = "white" if value in held_out else colour
        axes.plot(place, mean, "o", color=colour, markerfacecolor=face, markersize=5)
    if law:
        of_a_step = {
            value: cell["sample_s"]["mean"] / cell["step_s"]["mean"]
            for value, cell in line.cells.items()
        }
        fitted = [law[value]["law_s"] * of_a_step[value] * MS for value in values]
        axes.plot(x, fitted, color=colour, linestyle=dashes, linewidth=1)


def _legend_entries(lines: list[Line], looks: dict[str, str], with_law: bool) -> list[Any]:
    entries: list[Any] = [
        Line2D([], [], color=style.colour(strategy), marker="o", label=strategy.label)
        for strategy in in_order(line.strategy for line in lines)
    ]
    if len(looks) > 1:
        entries += [
            Line2D([], [], color=style.GREY, linestyle=dashes, label=words)
            for words, dashes in looks.items()
        ]
    if with_law:
        hollow = {"markerfacecolor": "white", "color": style.INK, "linestyle": ""}
        entries.append(Line2D([], [], color=style.INK, linewidth=1, label="fitted law"))
        entries.append(Line2D([], [], marker="o", label="not fitted", **hollow))
    return entries


def _draw(run: Run, part: Part, axis: Axis, lines: list[Line]) -> Any:
    panels = list(dict.fromkeys(line.panel for line in lines))
    looks = {
        words: DASHES[number % len(DASHES)]
        for number, words in enumerate(dict.fromkeys(line.options for line in lines))
    }
    size = (max(6.6, 4.6 * len(panels)), 4.4)
    figure, axes = style.plt.subplots(1, len(panels), figsize=size, squeeze=False)
    with_law = False
    for panel, name in zip(axes[0], panels, strict=True):
        here = [line for line in lines if line.panel == name]
        values = sorted({value for line in here for value in line.cells})
        places = {value: place for place, value in enumerate(values)}
        for line in here:
            law = _law_of(run, part, line) if axis.name == "accumulation" else {}
            with_law = with_law or bool(law)
            _draw_line(panel, axis, line, places, looks[line.options], law)
        panel.set_xticks(range(len(values)), [axis.text(value) for value in values])
        panel.set_xlabel(axis.label)
        panel.set_ylabel("milliseconds per example")
        panel.set_ylim(bottom=0)
        panel.grid(axis="y")
        panel.set_title(name)
    title = f"What an example costs\n{style.part_title(part)}"
    style.finish(figure, run, title, _legend_entries(lines, looks, with_law))
    return figure


def draw_all(run: Run) -> dict[str, Any]:
    """Returns a figure for each part and each axis along which it has a line, by file name."""
    figures = {}
    for part in run.parts:
        for axis in AXES:
            lines = _lines(run, part, axis)
            if lines:
                words = ["sweep", part.name, axis.name]
                name = re.sub(r"[^A-Za-z0-9_]+", "_", "_".join(word for word in words if word))
                figures[name] = _draw(run, part, axis, lines)
    return figures
