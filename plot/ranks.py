"""Draws a predicted step against the number of ranks, by strategy: ranks.py FILE.

FILE is what `gradsync predict step --nodes ... --json` printed; the picture goes beside it. Bands
are the intervals of 90 %; a dot marks the first number of ranks at which a step waits for longer
than it computes. Computes nothing else of its own.
"""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import style
from matplotlib.lines import Line2D
from run_data import DataError, Strategy, load

WHAT = "what gradsync predict step --json printed"
BAND = 0.2  # how much of its colour an interval shows

Row = dict[str, Any]


def read(path: Path) -> list[Row]:
    """Returns the rows that were predicted. Raises DataError where there are none."""
    rows = load(path, WHAT)
    if not isinstance(rows, list) or not all(
        isinstance(row, dict) and {"step_s", "world_size", "cell"} <= row.keys() for row in rows
    ):
        raise DataError(f"{path}: got other JSON, expected {WHAT}")
    predicted = [row for row in rows if row["step_s"] is not None]
    if not predicted:
        raise DataError(f"{path}: got no step that was predicted, expected some")
    return predicted


def name_of(row: Row, rows: list[Row]) -> str:
    """The strategy, and what else tells its line from others."""
    axes = [axis for axis in row["cell"] if len({repr(r["cell"].get(axis)) for r in rows}) > 1]
    others = [axis for axis in axes if axis != "strategy"]
    words = [style.parameter_words(axis, row["cell"].get(axis)) for axis in others]
    return ", ".join([row["cell"]["strategy"], *words])


def lines_of(rows: list[Row]) -> dict[str, list[Row]]:
    """The rows of each line by its name, by ranks."""
    lines: dict[str, list[Row]] = {}
    for row in sorted(rows, key=lambda row: row["world_size"]):
        lines.setdefault(name_of(row, rows), []).append(row)
    return lines


def first_dominated(line: list[Row]) -> Row | None:
    """The first number of ranks at which the step waits for longer than it computes."""
    return next((row for row in line if row["exposed_s"] > row["compute_s"]), None)


def words_of(name: str, line: list[Row]) -> str:
    row = first_dominated(line)
    if row is None:
        return f"{name}: computes longer than it waits"
    return f"{name}: waits longer than it computes from {row['world_size']} ranks on"


def _looks(lines: dict[str, list[Row]]) -> dict[str, dict[str, Any]]:
    """A strategy's own colour; its further lines are dashed and dotted."""
    looks, seen = {}, {}
    for place, (name, line) in enumerate(lines.items()):
        strategy = line[0]["cell"]["strategy"]
        seen[strategy] = seen.get(strategy, -1) + 1
        colour = style.colour(Strategy(strategy, strategy, place))
        dashes = ("-", "--", ":", "-.")[seen[strategy] % 4]
        looks[name] = {"color": colour, "linestyle": dashes}
    return looks


def draw(rows: list[Row]) -> Any:
    """Returns the figure."""
    lines = lines_of(rows)
    looks = _looks(lines)
    figure, axes = style.plt.subplots(figsize=(7.2, 4.6))
    for name, line in lines.items():
        ranks = [row["world_size"] for row in line]
        axes.plot(ranks, [row["step_s"] for row in line], marker=".", **looks[name])
        low, high = zip(*(row["interval90_s"] for row in line), strict=True)
        axes.fill_between(ranks, low, high, color=looks[name]["color"], alpha=BAND, linewidth=0)
        if row := first_dominated(line):
            axes.plot(row["world_size"], row["step_s"], "o", color=looks[name]["color"])
    every = sorted({row["world_size"] for row in rows})
    axes.set_xscale("log", base=2)
    axes.set_xticks(every, [str(count) for count in every])
    axes.minorticks_off()
    axes.set_ylim(bottom=0)
    axes.set_xlabel("ranks")
    axes.set_ylabel("predicted s/step")
    axes.grid(axis="y")
    entries = [
        Line2D([], [], label=words_of(name, line), **looks[name]) for name, line in lines.items()
    ]
    axes.legend(handles=entries, loc="best", fontsize=8)
    models = ", ".join(dict.fromkeys(row["cell"]["model"] for row in rows))
    run = SimpleNamespace(context={}, plan={})
    style.finish(figure, run, f"{models}: predicted, not measured; 90 % intervals")
    return figure


def pictures(path: Path) -> tuple[dict[str, Any], Path]:
    return {"ranks": draw(read(path))}, path.parent


def main(arguments: list[str]) -> int:
    return style.run(arguments, __doc__, ("FILE", WHAT), pictures, "no rows")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
