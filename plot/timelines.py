"""The timelines of a trial, which lie beside it: timelines.jsonl, the part that its line names.

Column by column there; a list of objects here, as earlier versions had them in the trial itself.
"""

import json
from pathlib import Path
from typing import Any

FILE = "timelines.jsonl"


def _part(directory: Path, trial: dict[str, Any], name: str) -> dict[str, Any] | None:
    """What the file has for the trial; None where nothing was recorded, or it was not kept."""
    part = trial.get(name)
    if part is None or not (directory / FILE).exists():
        return None
    with (directory / FILE).open("rb") as file:
        file.seek(part["offset"])
        line = file.read(part["bytes"])
    return json.loads(line) if len(line) == part["bytes"] else None


def _rows(columns: dict[str, list[Any]]) -> list[dict[str, Any]]:
    return [
        dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)
    ]


def steps_of(directory: Path, trial: dict[str, Any]) -> dict[str, Any]:
    """Returns the trial, each rank with timeline_start_s, timeline_events, timeline_phases."""
    line = _part(directory, trial, "timelines_at") or {"ranks": []}
    kept = {
        rank["rank"]: {
            "timeline_start_s": rank["start_s"],
            "timeline_events": _rows(rank["events"]),
            "timeline_phases": _rows(rank["phases"]),
        }
        for rank in line["ranks"]
    }
    nothing = {"timeline_events": [], "timeline_phases": []}
    ranks = [nothing | rank | kept.get(rank["rank"], {}) for rank in trial["ranks"]]
    return trial | {"ranks": ranks}


def memory_of(directory: Path, trial: dict[str, Any]) -> list[dict[str, Any]]:
    """Returns what rank 0's tensors held from each instant on; [] where it was not recorded."""
    for rank in trial["ranks"]:
        if rank.get("memory_timeline"):
            return rank["memory_timeline"]
    line = _part(directory, trial, "memory_timeline_at")
    if line is None:
        return []
    columns = line["points"]
    held = [{} for _ in columns["at_s"]]
    for category, column in columns["bytes"].items():
        for point, value in zip(held, column, strict=True):
            if value is not None:
                point[category] = value
    return _rows(columns | {"bytes": held})
