"""Draws the pictures of one run: plot.py DIR writes DIR/plots/*.png and *.svg.

Reads result.json and trials.jsonl, never logs, and computes no statistic of its own: every bar and
interval is a number of result.json, every dot a step of trials.jsonl.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

try:
    import matplotlib  # noqa: F401 - the modules below need it
except ImportError as error:
    sys.exit(f"error: {error}; install it with pip, or use the Python that set-up made ready")

import attribution
import idle
import memory
import run_data
import slowdown
import step_memory
import steps
import style
import sweep
import timeline


def draw_all(run: run_data.Run) -> dict[str, object]:
    """Returns the figures by file name, without those for which the run has no numbers."""
    figures = {
        "slowdown": slowdown.draw(run),
        "steps": steps.draw(run),
        "idle": idle.draw(run),
        "attribution": attribution.draw(run),
    }
    figures.update(memory.draw_all(run))
    figures.update(sweep.draw_all(run))
    figures.update(timeline.draw_all(run))
    figures.update(step_memory.draw_all(run))
    return {name: figure for name, figure in figures.items() if figure is not None}


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("directory", metavar="DIR", type=Path, help="a run's results")
    directory = parser.parse_args(arguments).directory
    try:
        run = run_data.read(directory)
        figures = draw_all(run)
        if not figures:
            print("nothing to draw: no cell of this run has times", file=sys.stderr)
        for path in style.save(figures, directory / "plots"):
            print(path)
    except run_data.DataError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except OSError as error:
        print(f"error: {error.filename}: {error.strerror}", file=sys.stderr)
        return 5
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
