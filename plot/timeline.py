"""One step in time: what each rank computed, and which bucket was on the wire meanwhile."""

from __future__ import annotations

from typing import Any

import style
import timelines
from matplotlib.patches import Patch
from run_data import Part, Run

PHASES = {
    "forward": ("#9ECAE1", None),
    "backward": ("#3182BD", None),
    "recompute": ("#CAB2D6", None),
    "wait": ("#FFFFFF", "////"),
    "copy": ("#CC79A7", None),
    "offload": ("#F0E442", None),
    "cast": ("#E377C2", None),
    "optimizer": ("#009E73", None),
}
LABELS = {
    "wait": "wait for communication",
    "recompute": "backward, computing again",
    "offload": "copy to the host and back",
    "cast": "copy to another type",
}
RARE = ("recompute", "offload", "cast")  # explained only where there is some
BUCKETS = ("#E69F00", "#F5D08A")  # neighbours differ, so that each bucket can be seen
LANE = 0.8
TALL_LANE = 2.0  # of communication, where many collectives are in flight at once
CROWDED = 3
GAP = 0.15  # between the lanes of a rank; between ranks it is three times as wide
SHARDED_REDUCTION = "reduce_scatter"  # FSDP's, of a unit
SHOWN = ("baseline", "sync_each_batch", "no_sync", "pipelined")


def _bar(
    axes: Any, span: dict[str, Any], lane: float, colour: str, hatch: str | None = None, height=LANE
) -> None:
    axes.barh(
        lane,
        span["end_s"] - span["start_s"],
        left=span["start_s"],
        height=height,
        color=colour,
        hatch=hatch,
        edgecolor=style.GREY if hatch else "white",
        linewidth=0.4,
    )


def _rows(events: list[dict[str, Any]]) -> list[int]:
    """A row for each event such that no two in flight at once share one; as few as possible."""
    ends: list[float] = []
    rows = []
    for event in events:
        row = next((i for i, end in enumerate(ends) if end <= event["start_s"]), len(ends))
        ends[row : row + 1] = [event["end_s"]]
        rows.append(row)
    return rows


def _colour(event: dict[str, Any]) -> str:
    if event["bucket"] >= 0:
        return BUCKETS[event["bucket"] % 2]
    return BUCKETS[0] if event["op"] == SHARDED_REDUCTION else style.GREY


def _draw_communication(axes: Any, rank: dict[str, Any], top: float, room: float) -> None:
    events = sorted(rank["timeline_events"], key=lambda event: event["start_s"])
    rows = _rows(events)
    height = room / (max(rows, default=0) + 1)
    for event, row in zip(events, rows, strict=True):
        _bar(axes, event, top + height * (row + 0.5), _colour(event), height=0.92 * height)


def _lane_name(rank: dict[str, Any]) -> str:
    sharded = any(event["op"] == SHARDED_REDUCTION for event in rank["timeline_events"])
    return "collectives" if sharded else "all_reduce"


def _lane_height(trials: list[dict[str, Any]]) -> float:
    """The height of a communication lane, one for all panels of a figure."""
    ranks = [rank for trial in trials for rank in trial["ranks"]]
    deepest = max(len(set(_rows(rank["timeline_events"]))) for rank in ranks)
    return TALL_LANE if deepest > CROWDED else LANE


def _mark_micro_batches(axes: Any, rank: dict[str, Any]) -> None:
    seen = set()  # under FSDP a forward is in pieces, between the gathers it waits for
    for phase in rank["timeline_phases"]:
        if phase["phase"] == "forward" and phase["micro_batch"] not in seen:
            seen.add(phase["micro_batch"])
            line = {"color": style.GREY, "linewidth": 0.7, "zorder": 0}
            style.mark_micro_batch(axes, phase["micro_batch"], phase["start_s"], line)


def _draw_cell(axes: Any, cell: dict[str, Any], trial: dict[str, Any], room: float) -> float:
    """Draws two lanes for each rank, returns the end of the step in seconds."""
    ticks, names = [], []
    top = 0.0
    end = 0.0
    for rank in trial["ranks"]:
        for phase in rank["timeline_phases"]:
            colour, hatch = PHASES.get(phase["phase"], (style.GREY, None))
            _bar(axes, phase, top + LANE / 2, colour, hatch)
            end = max(end, phase["end_s"])
        below = top + LANE + GAP
        _draw_communication(axes, rank, below, room)
        ticks += [top + LANE / 2, below + room / 2]
        names += [f"rank {rank['rank']}", _lane_name(rank)]
        top = below + room + 3 * GAP
    axes.set_ylim(top - 2 * GAP, -GAP)
    _mark_micro_batches(axes, trial["ranks"][0])
    axes.set_yticks(ticks, names)
    axes.tick_params(axis="y", length=0)
    axes.axvline(end, color=style.INK, linewidth=1)
    axes.annotate(
        f"{end:.3f} s",
        (end, 0.5),
        xycoords=("data", "axes fraction"),
        xytext=(4, 0),
        textcoords="offset points",
        va="center",
        fontsize=8,
    )
    axes.set_title(cell["strategy"].label, pad=12)
    return end


def _example(run: Run, cell: dict[str, Any]) -> dict[str, Any] | None:
    """The last trial of the cell that kept a step in detail."""
    for recorded in reversed(run.trials_of(cell)):
        trial = timelines.steps_of(run.directory, recorded)
        if trial["ranks"] and all(rank["timeline_phases"] for rank in trial["ranks"]):
            return trial
    return None


def _legend(trials: list[dict[str, Any]]) -> list[Any]:
    ranks = [rank for trial in trials for rank in trial["ranks"]]
    seen = {phase["phase"] for rank in ranks for phase in rank["timeline_phases"]}
    entries = [
        Patch(facecolor=colour, hatch=hatch, edgecolor=style.GREY, label=LABELS.get(name, name))
        for name, (colour, hatch) in PHASES.items()
        if name not in RARE or name in seen
    ]
    plain = all(_lane_name(rank) == "all_reduce" for rank in ranks)
    label = "all_reduce of a bucket, in flight" if plain else "reduce_scatter of a unit, in flight"
    entries.append(Patch(facecolor=BUCKETS[0], edgecolor=style.GREY, label=label))
    if any(event["bucket"] < 0 for rank in ranks for event in rank["timeline_events"]):
        entries.append(Patch(color=style.GREY, label="other collective"))
    return entries


def _draw(run: Run, part: Part, setting: str) -> Any | None:
    shown = [cell for cell in part.cells_of(setting) if cell["cell"]["strategy"] in SHOWN]
    examples = [(cell, _example(run, cell)) for cell in shown]
    examples = [(cell, trial) for cell, trial in examples if trial is not None]
    if not examples:
        return None
    trials = [trial for _, trial in examples]
    room = _lane_height(trials)
    ranks = max(len(trial["ranks"]) for trial in trials)
    panel_inches = 0.75 + 0.36 * ranks * (LANE + room + 4 * GAP)
    figure, axes = style.plt.subplots(
        len(examples), 1, sharex=True, squeeze=False,
        figsize=(9, 1.5 + len(examples) * panel_inches),
    )  # fmt: skip
    ends = [
        _draw_cell(panel, cell, trial, room)
        for panel, (cell, trial) in zip(axes.flat, examples, strict=True)
    ]
    axes.flat[-1].set_xlim(0, max(ends) * 1.07)
    axes.flat[-1].set_xlabel("seconds since the step began; dotted: a micro-batch begins")
    where = [style.topology_label(run.context, examples[0][0], separator=", ")]
    where += style.setting_words(part, examples[0][0]["cell"])
    title = "One timed step, computation against communication\n"
    title += f"{', '.join(where)}; {style.part_title(part)}"
    style.finish(figure, run, title, _legend(trials))
    return figure


def draw_all(run: Run) -> dict[str, Any]:
    """Returns a figure per part and setting, by file name; of a sweep over accumulation, one."""
    figures: dict[str, Any] = {}
    for part in run.parts:
        for setting in part.example_settings():
            cell = part.cells_of(setting)[0]["cell"]
            figures[style.picture_name("timeline", part, cell)] = _draw(run, part, setting)
    return figures
