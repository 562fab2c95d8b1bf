"""Draws the pictures of one run: plot.py DIR writes DIR/plots/*.png and *.svg.

Reads result.json and trials.jsonl, never logs, and computes no statistic of its own: every bar and
interval is a number of result.json, every dot a step of trials.jsonl.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import attribution
import idle
import memory
import pareto
import run_data
import slowdown
import step_memory
import steps
import style
import sweep
import timeline


def draw_all(run: run_data.Run) -> dict[str, Any]:
    """Returns the figures by file name, without those for which the run has no numbers."""
    figures = {
        "slowdown": slowdown.draw(run),
        "steps": steps.draw(run),
        "idle": idle.draw(run),
        "attribution": attribution.draw(run),
    }
    figures.update(memory.draw_all(run))
    figures.update(pareto.draw_all(run))
    figures.update(sweep.draw_all(run))
    figures.update(timeline.draw_all(run))
    figures.update(step_memory.draw_all(run))
    return {name: figure for name, figure in figures.items() if figure is not None}


def pictures(directory: Path) -> tuple[dict[str, Any], Path]:
    return draw_all(run_data.read(directory)), directory / "plots"


def main(arguments: list[str]) -> int:
    return style.run(
        arguments, __doc__, ("DIR", "a run's results"), pictures, "no cell of this run has times"
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
