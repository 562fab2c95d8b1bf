"""Adds one of each thing that the suite has many of, in a copy of the tree, and uses them.

What is one list each stays one list: tests/additions.json adds a strategy, a model, an option of
cells, a field of plans, columns, a memory category and a wrapper of models, each in no more places
than its "most". A place is a new file, or one text put before another that stands in its file once.
The copy, in build/additions, is built; a plan that uses all of them must run well, and tables, csv,
result.json and pictures must show them; and watch must see what a job does under the wrapper.

usage: tests/additions.py      after harness/setup --tests
Exit status: 0 all of it works, 1 something does not.
"""

import csv
import io
import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import mutations

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "benchmarks"))

import predict_test  # noqa: E402

LIST = ROOT / "tests" / "additions.json"
SCRATCH = ROOT / "build" / "additions"
SOURCE = SCRATCH / "source"
BUILD = SCRATCH / "build"
VENV = ROOT / "build" / "deps" / "venv" / "bin"
PLAN = {
    "schema": "gradsync.plan/1",
    "name": "added",
    "cells": {
        "topology": ["1x2"],
        "model": ["bert_tiny", "added_model"],
        "strategy": ["baseline", "added", "no_sync"],
        "accumulation_steps": [4],
        "added_option": [False, True],
    },
    "added_field": 2,
    "steps": 3,
    "warmup_steps": 3,
    "timeout_s": 300,
}


@dataclass(frozen=True)
class Edit:
    """The `whole` text of a new file, by lines; or `insert`, put before the text `before`."""

    file: str
    whole: tuple = ()
    before: str = ""
    insert: str = ""

    def problem(self, text):
        """Returns why this cannot be done to the file's text, None without a file; or ""."""
        if self.whole:
            return "" if text is None else f"{self.file} is there already"
        count = 0 if text is None else text.count(self.before)
        return (
            "" if count == 1 else f"{self.before!r} occurs {count} times in {self.file}, not once"
        )

    def done_to(self, text):
        if self.whole:
            return "\n".join(self.whole) + "\n"
        return text.replace(self.before, self.insert + self.before)


@dataclass(frozen=True)
class Addition:
    what: str
    most: int  # places
    edits: tuple


def read_list(path=LIST):
    return [
        Addition(entry["what"], entry["most"], tuple(Edit(**edit) for edit in entry["edits"]))
        for entry in json.loads(path.read_text())
    ]


def text_of(path):
    return path.read_text() if path.exists() else None


def problems(addition, root=ROOT):
    """Returns why the addition is not what it says, each in a sentence."""
    found = [edit.problem(text_of(root / edit.file)) for edit in addition.edits]
    if len(addition.edits) > addition.most:
        found.append(f"{len(addition.edits)} places, {addition.most} at most")
    return [f"{addition.what}: {problem}" for problem in found if problem]


def add(addition):
    for edit in addition.edits:
        path = SOURCE / edit.file
        path.write_text(edit.done_to(text_of(path)))


def call(*command, env=None):
    return subprocess.run(
        command, capture_output=True, text=True, stdin=subprocess.DEVNULL, env=env
    )


def build():
    places = {"BUILD_DEPS": ROOT / "build" / "deps", "BUILD_FOLDER": BUILD}
    environment = os.environ | {name: str(path) for name, path in places.items()}
    command = [SOURCE / "harness/cmake/build", "release", "gradsync", "gradsync-rank"]
    return subprocess.run(command, env=environment, stdin=subprocess.DEVNULL).returncode == 0


def complaints_of_a_run(program, out):
    """Runs PLAN; returns what is not there of what was added, each in a sentence."""
    plan = out.parent / "plan.json"
    plan.write_text(json.dumps(PLAN))
    run = call(program, "run", plan, "--out", out)
    if run.returncode != 0:
        return [f"the run ended with {run.returncode}: {run.stderr[-2000:]}"]
    result = json.loads((out / "result.json").read_text())
    rows = list(csv.DictReader(io.StringIO(call(program, "report", out, "--format", "csv").stdout)))
    added = [cell for cell in result["cells"] if cell["cell"]["strategy"] == "added"]
    counts = {
        cell["cell"]["strategy"]: cell["collectives_per_step"]["all_reduce"]["count"]
        for cell in result["cells"]
        if cell["cell"]["model"] == "bert_tiny" and not cell["cell"].get("added_option", False)
    }
    refused = call(program, "run", plan, "--out", out, "--set", "cells.added_option=7", "--force")
    no_count = call(program, "run", plan, "--out", out, "--set", "added_field=0", "--force")
    too_long = call(
        program, "run", plan, "--out", out, "--set", "cells.sequence_length=201", "--force"
    )
    pipeline = call(program, "run", plan, "--out", out, "--set", "cells.wrapper=fsdp", "--force")
    shown = {
        "every cell is ok": all(cell["status"] == "ok" for cell in result["cells"]),
        "list strategies names it": "added" in call(program, "list", "strategies").stdout,
        "list models names it": "added_model" in call(program, "list", "models").stdout,
        "what it cannot do is refused": too_long.returncode == 2
        and "added_model" in too_long.stderr,
        "its collectives are twice those of no_sync": counts["added"] == 2 * counts["no_sync"],
        "the table has its label": "added, twice a step" in run.stdout,
        "the table has the column, with its meaning": run.stdout.count("added head") > 1,
        "the table tells rows by the option": "added_option" in run.stdout,
        "csv has the column": all(row["added_column"] == "1" for row in rows),
        "csv has the option": {row["added_option"] for row in rows} == {"false", "true"},
        "list options names it": "added_option" in call(program, "list", "options").stdout,
        "result.json names the strategy": {"name": "added", "label": "added, twice a step"}
        in result["strategies"],
        "bytes are counted in the category": all(
            cell["peak_by_category"].get("added_category", 0) > 0 for cell in added
        ),
        "pictures are drawn": any((out / "plots").glob("*.png")),
        "a wrong value is refused": refused.returncode == 2 and "added_option" in refused.stderr,
        "the plan's field acts": "warn: added 2 times" in run.stdout,
        "a wrong value of it is refused": no_count.returncode == 2
        and "added_field" in no_count.stderr,
        "a wrapper that it does not run under is refused": pipeline.returncode == 2
        and "added" in pipeline.stderr,
    }
    return [f"not so: {what}" for what, is_so in shown.items() if not is_so]


def complaints_of_predictions(program, place):
    """Returns which prediction does not refuse the option that it has never heard of."""
    profile = place / "blocks.json"
    profile.write_text(json.dumps(predict_test.recorded(2)))
    plan = place / "plan.json"
    plan.write_text(json.dumps(PLAN))
    twin = "paced_bert_base_t4"
    asked = {
        "memory": ("predict", "memory", "bert_tiny"),
        "a recorded job": ("predict", "memory", profile),
        "a step": ("predict", "step", twin, "--topology", "t4_2x1", "--strategy", "baseline"),
        "a paced model": ("run", plan, "--dry-run", "--set", f"model={twin}"),
    }
    complaints = []
    for what, command in asked.items():
        refused = call(program, *command, "--set", "cells.added_option=true")
        if refused.returncode != 2 or "added_option" not in refused.stderr:
            complaints.append(f"{what} is predicted without the option: {refused.stdout}")
        elsewise = call(program, *command, "--set", "cells.added_option=false")
        if elsewise.returncode != 0:
            complaints.append(f"{what} is not predicted at the default: {elsewise.stderr}")
    return complaints


def complaints_of_watch(program, place):
    """Watches the job of the added wrapper, with and without no_sync, on two ranks."""
    watch = SOURCE / "tests" / "harness" / "watch"
    environment = os.environ | {"PYTHONPATH": f"{watch / 'jobs'}:{watch}", "OMP_NUM_THREADS": "1"}
    torchrun = (VENV / "torchrun", "--nproc-per-node=2", "--no-python", VENV / "python")
    job = ("-c", "import added_parallel; added_parallel.train()")
    file = place / "watched.json"
    complaints = []
    for word, expected in (("at_once", "more_than_once"), ("deferred", "once_per_step")):
        done = call(program, "watch", "--json", file, "--", *torchrun, *job, word, env=environment)
        watched = json.loads(file.read_text()) if file.exists() else {}
        seen = [verdict["kind"] for verdict in watched.get("verdicts", ())]
        if seen != [expected] or watched["wrappers"] != ["AddedParallel"]:
            complaints.append(f"watch says {seen} of {word}, not {expected}: {done.stderr[-2000:]}")
        file.unlink(missing_ok=True)
    return complaints


def main():
    additions = read_list()
    found = [problem for addition in additions for problem in problems(addition)]
    if not found:
        mutations.copy_tree(SOURCE)
        for addition in additions:
            add(addition)
        if not build():
            found = ["what was added does not compile"]
    if not found:
        with tempfile.TemporaryDirectory(prefix="gradsync_additions_") as place:
            found = complaints_of_a_run(BUILD / "gradsync", Path(place) / "run")
            found += complaints_of_predictions(BUILD / "gradsync", Path(place))
            found += complaints_of_watch(BUILD / "gradsync", Path(place))
    for problem in found:
        print(f"additions: {problem}", file=sys.stderr)
    for addition in additions:
        print(f"additions: {addition.what}: {len(addition.edits)} places")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
