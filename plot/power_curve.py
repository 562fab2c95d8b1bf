"""Draws how often the gate and today's habits flag a build: power_curve.py FILE.

FILE is the error_rates.json of a folder of stored turns, or of `gradsync gate --selftest`; the
picture goes beside it. Computes no statistic of its own: every point and interval is in the file.
"""

from __future__ import annotations

import argparse
import json
import sys
import textwrap
from pathlib import Path
from types import SimpleNamespace
from typing import Any

try:
    import matplotlib  # noqa: F401 - the modules below need it
except ImportError as error:
    sys.exit(f"error: {error}; install it with pip, or use the Python that set-up made ready")

import style
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from run_data import DataError

SCHEMA = "gradsync.gate_error_rates/1"
GATE_COLOUR = "#0072B2"
LOOKS = [(GATE_COLOUR, "o"), ("#D55E00", "s"), ("#E69F00", "^"), ("#CC79A7", "v")]
VERDICTS = {
    "regression": GATE_COLOUR,  # the share that the gate's line shows
    "undecided": "#F0E442",
    "unfit": style.GREY,
    "pass": "#009E73",
}
BAR = 0.7  # of the room that one share of extra work has
ABOVE = 1.06  # all shares: where a dotted line says what it is
ALARM_COLUMNS = 100  # of the lines below the curves
SPREAD = 0.0012  # between markers of one extra work, so that their intervals can be told apart

Replay = dict[str, Any]


def read(path: Path) -> dict[str, Any]:
    """Returns the error rates in the file. Raises DataError where there are none."""
    try:
        rates = json.loads(path.read_text())
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path}: cannot be read: {error}") from None
    except json.JSONDecodeError as error:
        raise DataError(f"{path}: line {error.lineno} is no JSON: {error.msg}") from None
    schema = rates.get("schema") if isinstance(rates, dict) else None
    if schema != SCHEMA:
        raise DataError(f"{path}: field 'schema': got {schema!r}, expected {SCHEMA!r}")
    if not shown(rates):
        raise DataError(f"{path}: field 'replays': got no gates, expected some that were replayed")
    return rates


def shown(rates: dict[str, Any]) -> list[Replay]:
    """The replay of each extra work that has gates, without reused starts where there is one."""
    chosen: dict[float, Replay] = {}
    for replay in rates["replays"]:
        if replay["flagged"][0]["gates"]["of"] == 0:
            continue
        if replay["starts_are"] == "independent" or replay["extra_work"] not in chosen:
            chosen[replay["extra_work"]] = replay
    return [chosen[extra_work] for extra_work in sorted(chosen)]


def _draw_line(
    axes: Any, replays: list[Replay], flagged: list[Any], shift: float, look: dict
) -> None:
    places = [replay["extra_work"] + shift for replay in replays]
    axes.plot(places, [rate["rate"] for rate in flagged], **look)
    for place, rate in zip(places, flagged, strict=True):
        if rate["ci95"] is not None:
            axes.plot([place, place], rate["ci95"], color=look["color"], linewidth=1)


def _look(number: int) -> dict[str, Any]:
    """How the gate is drawn (0), and the habits after it."""
    colour, marker = LOOKS[number]
    return {"color": colour, "marker": marker, "linewidth": 2 if number == 0 else 1}


def _work_labels(replays: list[Replay]) -> list[str]:
    return [f"{100 * replay['extra_work']:.3g} %" for replay in replays]


def _draw_power(axes: Any, rates: dict[str, Any], replays: list[Replay]) -> None:
    flaggers = len(replays[0]["flagged"])
    for number in range(flaggers):
        shift = SPREAD * (number - (flaggers - 1) / 2)
        flagged = [replay["flagged"][number]["rows"] for replay in replays]
        _draw_line(axes, replays, flagged, shift, {**_look(number), "markersize": 4})
    settings = rates["settings"]
    for name, words in (("margin", "margin"), ("smallest_effect", "smallest effect")):
        axes.axvline(settings[name], color=style.GREY, linewidth=0.8, linestyle=":")
        text = {"xytext": (3, 0), "textcoords": "offset points", "fontsize": 7, "va": "center"}
        axes.annotate(words, (settings[name], ABOVE), color=style.GREY, **text)
    axes.set_xticks([replay["extra_work"] for replay in replays], _work_labels(replays))
    axes.set_xlabel("extra work of the candidate")
    axes.set_ylabel("share of rows that are flagged")
    axes.set_ylim(-0.02, 1.1)
    axes.grid(axis="y")
    axes.set_title("Who flags a row")


def _draw_verdicts(axes: Any, replays: list[Replay]) -> None:
    for place, replay in enumerate(replays):
        bottom = 0.0
        for verdict, colour in VERDICTS.items():
            share = replay["verdicts"]["rows"][verdict]["rate"]
            axes.bar(place, share, BAR, bottom=bottom, color=colour)
            bottom += share
    axes.set_xticks(range(len(replays)), _work_labels(replays))
    axes.tick_params(axis="x", length=0)
    axes.set_xlabel("extra work of the candidate")
    axes.set_ylabel("share of rows")
    axes.set_ylim(0, 1)
    axes.set_title("What the gate says of a row")


def _interval_words(rate: dict[str, Any]) -> str:
    words = f"{rate['count']} of {rate['of']}"
    if rate["ci95"] is not None:
        low, high = (100 * end for end in rate["ci95"])
        words += f" [{low:.2g}, {high:.2g} %]"
    return words


def false_alarm_words(replays: list[Replay]) -> list[str]:
    """Lines: how many gates without any extra work each flagged; none where there were none."""
    nothing = [replay for replay in replays if replay["extra_work"] == 0]
    if not nothing:
        return []
    each = [f"{by['by']} {_interval_words(by['gates'])}" for by in nothing[0]["flagged"]]
    words = "Gates flagged without extra work: " + ", ".join(each)
    return textwrap.wrap(words, ALARM_COLUMNS)


def draw(rates: dict[str, Any]) -> Any:
    """Returns the figure."""
    replays = shown(rates)
    figure, axes = style.plt.subplots(1, 2, figsize=(10.4, 4.8), width_ratios=(3, 2))
    _draw_power(axes[0], rates, replays)
    _draw_verdicts(axes[1], replays)
    entries: list[Any] = [
        Line2D([], [], label=by["by"], **_look(number))
        for number, by in enumerate(replays[0]["flagged"])
    ]
    entries += [Patch(color=colour, label=verdict) for verdict, colour in VERDICTS.items()]
    # Below the axes: inside of them every place is where some curve may be.
    place = {"transform": axes[0].transAxes, "ha": "center", "va": "top", "fontsize": 7}
    axes[0].text(0.5, -0.18, "\n".join(false_alarm_words(replays)), **place)
    reused = any(replay["starts_are"] == "reused" for replay in replays)
    title = f"Error rates of the gate: {rates['name']}\n"
    title += "95 % intervals, of rows as if they were independent"
    title += ", where no start is used twice" if reused else ""
    run = SimpleNamespace(context=rates["context"], plan={"name": rates["context"].get("plan")})
    style.finish(figure, run, title, entries)
    return figure


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", metavar="FILE", type=Path, help="error rates, as JSON")
    file = parser.parse_args(arguments).file
    try:
        for path in style.save({"power_curve": draw(read(file))}, file.parent):
            print(path)
    except DataError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except OSError as error:
        print(f"error: {error.filename}: {error.strerror}", file=sys.stderr)
        return 5
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
