"""Draws how often the gate flags a build: power_curve.py FILE.

FILE is the error_rates.json of a folder of stored turns, or of `gradsync gate selftest`; the
picture goes beside it. Computes no statistic of its own: every point and interval is in the file.
"""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import style
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from run_data import DataError, load

SCHEMA = "gradsync.gate_error_rates/2"
GATE_COLOUR = "#0072B2"
LOOK = {"color": GATE_COLOUR, "marker": "o", "linewidth": 2}
VERDICTS = {
    "regression": GATE_COLOUR,  # the share that the gate's line shows
    "undecided": "#F0E442",
    "unfit": style.GREY,
    "pass": "#009E73",
}
BAR = 0.7  # of the room that one share of extra work has
ABOVE = 1.06  # all shares: where a dotted line says what it is

Replay = dict[str, Any]


def read(path: Path) -> dict[str, Any]:
    """Returns the error rates in the file. Raises DataError where there are none."""
    rates = load(path, "the error rates of a gate", SCHEMA)
    if not shown(rates):
        raise DataError(f"{path}: field 'replays': got no gates, expected some that were replayed")
    return rates


def shown(rates: dict[str, Any]) -> list[Replay]:
    """The replays that have gates, by extra work."""
    with_gates = [replay for replay in rates["replays"] if replay["gates"] > 0]
    return sorted(with_gates, key=lambda replay: replay["extra_work"])


def flagged(replay: Replay) -> dict[str, Any]:
    """How often the gate flags the row with extra work, or without any flags any row. Files of
    earlier versions have others in these lists, behind the gate."""
    return (replay["found"] or replay["false_alarms"])[0]["gates"]


def _work_labels(replays: list[Replay]) -> list[str]:
    return [f"{100 * replay['extra_work']:.3g} %" for replay in replays]


def _draw_power(axes: Any, rates: dict[str, Any], replays: list[Replay]) -> None:
    places = [replay["extra_work"] for replay in replays]
    axes.plot(places, [flagged(replay)["rate"] for replay in replays], markersize=4, **LOOK)
    for place, replay in zip(places, replays, strict=True):
        if flagged(replay)["ci95"] is not None:
            axes.plot([place, place], flagged(replay)["ci95"], color=GATE_COLOUR, linewidth=1)
    settings = rates["settings"]
    for name, words in (("margin", "margin"), ("smallest_effect", "smallest effect")):
        axes.axvline(settings[name], color=style.GREY, linewidth=0.8, linestyle=":")
        text = {"xytext": (3, 0), "textcoords": "offset points", "fontsize": 7, "va": "center"}
        axes.annotate(words, (settings[name], ABOVE), color=style.GREY, **text)
    axes.set_xticks(places, _work_labels(replays))
    axes.set_xlabel("extra work in one row; 0 %: in none")
    axes.set_ylabel("share of gates that flag it")
    axes.set_ylim(-0.02, 1.1)
    axes.grid(axis="y")
    axes.set_title("Is it flagged (0 %: any row)")


def _draw_verdicts(axes: Any, replays: list[Replay]) -> None:
    for place, replay in enumerate(replays):
        bottom = 0.0
        for verdict, colour in VERDICTS.items():
            share = replay["verdicts"][verdict]["rate"]
            axes.bar(place, share, BAR, bottom=bottom, color=colour)
            bottom += share
    axes.set_xticks(range(len(replays)), _work_labels(replays))
    axes.tick_params(axis="x", length=0)
    axes.set_xlabel("extra work in one row; 0 %: in none")
    axes.set_ylabel("share of gates")
    axes.set_ylim(0, 1)
    axes.set_title("What the gate says of it")


def _interval_words(rate: dict[str, Any]) -> str:
    low, high = (100 * end for end in rate["ci95"])
    return f"{100 * rate['rate']:.1f} % [{low:.1f}, {high:.1f}]"


def _gates_words(replays: list[Replay]) -> str:
    """ "30 gates", "20 to 30 gates": of each replay."""
    counts = sorted(replay["gates"] for replay in replays)
    numbers = f"{counts[0]}" if counts[0] == counts[-1] else f"{counts[0]} to {counts[-1]}"
    return f"{numbers} gate{'' if counts[-1] == 1 else 's'}"


def false_alarm_words(replays: list[Replay]) -> str:
    """Says how often gates without any extra work were flagged; "" where there were none."""
    nothing = [replay for replay in replays if replay["extra_work"] == 0]
    if not nothing:
        return ""
    rate = _interval_words(flagged(nothing[0]))
    return f"Flagged without extra work ({_gates_words(nothing)}): {rate}"


def draw(rates: dict[str, Any]) -> Any:
    """Returns the figure."""
    replays = shown(rates)
    figure, axes = style.plt.subplots(1, 2, figsize=(10.4, 4.8), width_ratios=(3, 2))
    _draw_power(axes[0], rates, replays)
    _draw_verdicts(axes[1], replays)
    entries: list[Any] = [Line2D([], [], label="gate", **LOOK)]
    entries += [Patch(color=colour, label=verdict) for verdict, colour in VERDICTS.items()]
    # Below the axes: inside of them every place is where some curve may be.
    place = {"transform": axes[0].transAxes, "ha": "center", "va": "top", "fontsize": 7}
    axes[0].text(0.5, -0.18, false_alarm_words(replays), **place)
    title = f"Error rates of the gate: {rates['name']}\n"
    title += (
        f"95 % intervals over gates, {_gates_words(replays)} of each; no start in two of a rate"
    )
    run = SimpleNamespace(context=rates["context"], plan={"name": rates["context"].get("plan")})
    style.finish(figure, run, title, entries)
    return figure


def pictures(path: Path) -> tuple[dict[str, Any], Path]:
    return {"power_curve": draw(read(path))}, path.parent


def main(arguments: list[str]) -> int:
    return style.run(arguments, __doc__, ("FILE", "error rates, as JSON"), pictures, "no rates")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
