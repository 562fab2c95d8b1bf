"""What a run left behind, read and checked: its cells, its trials, and the published table."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

REFERENCE = Path(__file__).resolve().parent.parent / "results/reference/slowdown_table.json"
RESULT_SCHEMA = "gradsync.result/1"
TRIAL_SCHEMA = "gradsync.trial/1"
SCHEMA = Path(__file__).resolve().parent.parent / "benchmarks/plans/plan.schema.json"
OPTIONS = json.loads(SCHEMA.read_text())["$defs"]["cells"]["properties"]
DEFAULTS = {name: option["default"][0] for name, option in OPTIONS.items()}


def written(wrapper: str) -> dict[str, Any]:
    """Returns what every cell has by now, and cells of older results mean where they lack it."""
    return {
        name: DEFAULTS[name]
        for name, option in OPTIONS.items()
        if "left_out" not in option and option.get("only_under", wrapper) == wrapper
    }


# How a cell does its work, and not which.
USUAL = {name: value for name, value in written("ddp").items() if "work" not in OPTIONS[name]}
TWIN = USUAL | {"model": "paced_bert_base_t4"}  # the guide's runs, re-enacted: all by default
TWIN_ROWS = {"t4_2x1": "multi_node", "t4_1x2": "single_node"}


LEGIBLE_ACCUMULATION = 4  # more micro-batches than this are hard to tell apart in a picture
MOST_SETTINGS = 8  # of a part, in one picture, where its fronts tell which of more to leave out
SWEEP = 3  # accumulations that differ in nothing else: too many for a picture of each


class DataError(Exception):
    """The directory does not hold a run; the message is one sentence with the file's name."""


@dataclass(frozen=True)
class Strategy:
    """A strategy of the run, as its result.json names it."""

    name: str
    label: str
    place: int  # in the order of tables, from 0


@dataclass
class Part:
    """Cells that ran under the same rules; times of different parts are not comparable."""

    name: str
    cells: list[dict[str, Any]] = field(default_factory=list)
    on_front: list[str] = field(default_factory=list)  # settings that no other betters

    def is_crowded(self) -> bool:
        """Whether a picture of all settings would be illegible, and fronts tell the best ones."""
        return bool(self.on_front) and len(self.settings()) > MOST_SETTINGS

    def has_several_topologies(self) -> bool:
        return len({cell["cell"]["topology"] for cell in self.cells}) > 1

    def paced(self) -> bool:
        return any(cell["timing"] == "paced" for cell in self.cells)

    def settings(self) -> list[str]:
        """Topologies and whatever else varies but the strategy, in the order of the cells."""
        return list(dict.fromkeys(setting_key(cell["cell"]) for cell in self.cells))

    def varying(self) -> list[str]:
        """Returns the parameters that differ inside this part, without topology and strategy."""
        names = dict.fromkeys(name for cell in self.cells for name in cell["cell"])
        return [
            name
            for name in names
            if name not in ("topology", "strategy") and len(self._values(name)) > 1
        ]

    def _values(self, name: str) -> set[str]:
        """Those of the cells that can have it: what one wrapper alone has, others leave out."""
        return {
            json.dumps(cell["cell"].get(name))
            for cell in self.cells
            if name in cell["cell"] or name == "memory_budget_bytes"
        }

    def sweeps(self) -> dict[str, dict[int, list[dict[str, Any]]]]:
        """The cells by all but strategy and accumulation, then by accumulation."""
        sweeps: dict[str, dict[int, list[dict[str, Any]]]] = {}
        for cell in self.cells:
            rest = {k: v for k, v in cell["cell"].items() if k != "accumulation_steps"}
            by_accumulation = sweeps.setdefault(setting_key(rest), {})
            by_accumulation.setdefault(cell["cell"]["accumulation_steps"], []).append(cell)
        return sweeps

    def example_settings(self) -> list[str]:
        """The settings that have times; of a sweep over accumulation the telling one alone, of a
        crowd those on its fronts."""
        examples = []
        for by_accumulation in self.sweeps().values():
            settings = {
                steps: setting_key(cells[0]["cell"]) for steps, cells in by_accumulation.items()
            }
            timed = {steps: key for steps, key in settings.items() if self.cells_of(key)}
            if len(timed) >= SWEEP:
                timed = {0: timed[telling_accumulation(timed)]}
            examples += timed.values()
        if self.is_crowded():
            return [setting for setting in examples if setting in self.on_front]
        return examples

    def cells_of(self, setting: str) -> list[dict[str, Any]]:
        """The cells of one setting that have times and ended well, from most to least synced."""
        chosen = [
            cell
            for cell in self.cells
            if setting_key(cell["cell"]) == setting
            and cell["status"] == "ok"
            and cell["step_s"] is not None
        ]
        return sorted(chosen, key=lambda cell: cell["strategy"].place)


@dataclass
class Run:
    directory: Path
    context: dict[str, Any]
    plan: dict[str, Any]
    parts: list[Part]
    trials: list[dict[str, Any]]
    reference: dict[str, Any] | None
    laws: list[dict[str, Any]]
    fronts: list[dict[str, Any]]
    strategies: dict[str, Strategy]  # by name

    def trials_of(self, cell: dict[str, Any]) -> list[dict[str, Any]]:
        """The trials of this cell that ended well, in the order they ran."""
        chosen = [
            trial
            for trial in self.trials
            if trial["part"] == cell["part"]
            and trial["cell"] == cell["cell"]
            and trial["status"] == "ok"
        ]
        return sorted(chosen, key=lambda trial: trial["order"])

    def published(self, cell: dict[str, Any]) -> list[float] | None:
        """The runs behind the published number that this cell re-enacts, if it does."""
        row = TWIN_ROWS.get(cell["cell"]["topology"])
        twin = all(cell["cell"].get(name, value) == value for name, value in TWIN.items())
        if self.reference is None or row is None or not twin:
            return None
        return self.reference["raw_runs"][row].get(cell["cell"]["strategy"])


def whole(cell: dict[str, Any], without: Iterable[str] = ()) -> dict[str, Any]:
    """Returns a cell of any result with the fields of today's cells, without those in `without`."""
    of_today = written(cell["wrapper"]) | cell
    return {name: of_today[name] for name in sorted(of_today) if name not in without}


def in_order(strategies: Iterable[Strategy]) -> list[Strategy]:
    """Each once, as tables have them."""
    return sorted(set(strategies), key=lambda strategy: strategy.place)


def telling_accumulation(accumulations: Iterable[int]) -> int:
    """The one that stands for a sweep in a picture of one step: the largest that is legible."""
    steps = sorted(accumulations)
    return max((number for number in steps if number <= LEGIBLE_ACCUMULATION), default=steps[0])


def setting_key(cell: dict[str, Any]) -> str:
    return json.dumps({name: value for name, value in cell.items() if name != "strategy"})


def load(path: Path, what: str, schema: str | None = None) -> Any:
    """Returns the JSON in a file. Raises DataError where it is none, or has another schema."""
    try:
        document = json.loads(path.read_text())
    except FileNotFoundError:
        raise DataError(f"{path}: not found, expected {what}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path}: cannot be read: {error}") from None
    except json.JSONDecodeError as error:
        raise DataError(f"{path}: line {error.lineno} is no JSON: {error.msg}") from None
    own = document.get("schema") if isinstance(document, dict) else None
    if schema is not None and own != schema:
        raise DataError(f"{path}: field 'schema': got {own!r}, expected {schema!r}")
    return document


def _read_trials(path: Path) -> list[dict[str, Any]]:
    """One trial per line; a last line that a crash cut off is left out."""
    if not path.exists():
        raise DataError(f"{path}: not found, expected the trials of a run")
    trials: dict[tuple, dict[str, Any]] = {}
    lines = path.read_text().splitlines(keepends=True)
    for number, line in enumerate(lines, start=1):
        try:
            trial = json.loads(line)
        except json.JSONDecodeError as error:
            if number == len(lines) and not line.endswith("\n"):
                break
            raise DataError(f"{path}: line {number} is no JSON: {error.msg}") from None
        if not isinstance(trial, dict) or trial.get("schema") != TRIAL_SCHEMA:
            raise DataError(f"{path}: line {number} is no trial, expected schema {TRIAL_SCHEMA}")
        trial["cell"] = whole(trial["cell"])
        # A trial that was run again after --resume replaces its first try.
        key = (trial["part"], json.dumps(trial["cell"]), trial["launch"], trial["round"])
        trials[key] = trial
    return list(trials.values())


def _strategies(result: dict[str, Any]) -> dict[str, Strategy]:
    """By name; results of earlier versions name theirs in the cells alone."""
    in_cells = dict.fromkeys(cell["cell"]["strategy"] for cell in result["cells"])
    labels = {entry["name"]: entry["label"] for entry in result.get("strategies", [])}
    names = list(labels | dict.fromkeys(in_cells))
    return {name: Strategy(name, labels.get(name, name), place) for place, name in enumerate(names)}


def read(directory: Path) -> Run:
    """Returns the run in `directory`. Raises DataError where there is none."""
    result = load(directory / "result.json", "the results of a run", RESULT_SCHEMA)
    parts: dict[str, Part] = {}
    strategies = _strategies(result)
    for cell in result["cells"]:
        cell["cell"] = whole(cell["cell"])
        cell["strategy"] = strategies[cell["cell"]["strategy"]]
        parts.setdefault(cell["part"], Part(cell["part"])).cells.append(cell)
    for front in result.get("fronts", []):
        settings = parts[front["part"]].on_front
        for way in front["points"]:
            way["cell"] = whole(way["cell"])
        settings += [setting_key(way["cell"]) for way in front["points"] if way["on_front"]]
    for law in result.get("laws", []):
        law["cell"] = whole(law["cell"], without=("strategy", "accumulation_steps"))
    reference = load(REFERENCE, "the guide's table") if REFERENCE.exists() else None
    return Run(
        directory=directory,
        context=result["context"],
        plan=result["plan"],
        parts=list(parts.values()),
        trials=_read_trials(directory / "trials.jsonl"),
        reference=reference,
        laws=result.get("laws", []),
        fronts=result.get("fronts", []),
        strategies=strategies,
    )
