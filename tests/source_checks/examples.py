"""The examples of the pages, and what bash makes of them in a folder where nothing can happen.

Examples are the blocks of ```sh, the commands of README.md's tables, and `benchmarks/run PLAN`
in the middle of sentences. Every program has a stand-in, which only notes what it was called with.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from pages import ROOT, below, fenced, pages

sys.path.insert(0, str(ROOT / "results" / "evidence"))
import stored

PUBLISHED = ROOT / "results" / "published"
INLINE = re.compile(r"`(benchmarks/run [^`]*)`")
ROW = re.compile(r"^\|[^|]*\| `([^`]+)` \|", re.MULTILINE)
STAND_IN = """#!/bin/bash
mapfile -d '' -t variables </proc/$$/environ
printf '%s\\0' "$#" "$0" "$@" "${#variables[@]}" "${variables[@]}" >>"$CALLS"
"""


class Call(NamedTuple):
    program: str
    arguments: tuple
    variables: tuple  # "NAME=VALUE", of this call alone

    def __str__(self):
        return " ".join((*self.variables, self.program, *self.arguments))


class ShellError(AssertionError):
    """bash does not understand an example, or there is no such program."""


def examples():
    """Yields (page, what a shell is to read)."""
    for path, text in pages().items():
        for block in fenced(text, "sh"):
            yield path, block
        for command in INLINE.findall(text):
            yield path, re.sub(r"\s+", " ", command)
    for command in ROW.findall(pages()["README.md"]):
        yield "README.md", command


def scripts():
    """Returns the paths of the tree's programs that need no build."""
    files = (path for path in below("*") if path.is_file())
    return [path.relative_to(ROOT) for path in files if os.access(path, os.X_OK)]


# For a model that is one block of one weight.
COUNTED = dict.fromkeys(
    ("saved_bytes", "output_bytes", "forward_high_bytes", "backward_high_bytes"), 4
)
MEMORY = {
    "recorded_on": "fake",
    "dtype": "float32",
    "batch_bytes": 4,
    "buffers_bytes": [],
    "parameters": [{"name": "block.weight", "shape": [1], "trains": True}],
    "modules": [
        {"name": "", "class": "Model", **COUNTED},
        {"name": "block", "class": "Block", **COUNTED},
    ],
    "units": [],
    "forward": [["in", 0], ["in", 1], ["hold", 4, 4], ["out", 1], ["out", 0]],
    "backward_first": [["in", 0], ["in", 1], ["hold", 4, 0], ["gradient", 0, 4]],
    "backward_later": [["in", 0], ["in", 1], ["hold", 4, -4], ["gradient", 0, 4]],
}


# What a program of nccl-tests prints, of two ranks on a host each.
NCCL = """# Collective test starting: all_reduce_perf
# Using devices
#  Rank  0 Group  0 Pid   4242 on     host-a device  0 [0x10] NVIDIA H100
#  Rank  1 Group  0 Pid   4243 on     host-b device  0 [0x10] NVIDIA H100
#       size  count  type  redop  root   time   algbw   busbw #wrong
       65536  16384 float    sum    -1  100.0    0.66    0.66      0
    67108864  16777216 float sum    -1  6700.   10.02   10.02      0
"""


def make_stand_in(path):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(STAND_IN)
    path.chmod(0o755)


def add_timelines(run):
    """Gives the first trial those of one rank of a run of `smoke`: what is published has none."""
    line = Path(__file__).with_name("timelines_line.json").read_bytes()
    (run / "timelines.jsonl").write_bytes(line)
    trials = run / "trials.jsonl"
    first, rest = trials.read_text().split("\n", 1)
    where = {"timelines_at": {"offset": 0, "bytes": len(line)}}
    trials.write_text(json.dumps(json.loads(first) | where) + "\n" + rest)


def fill(tree):
    """What examples take for granted: finished runs, watched jobs, files of one's own."""
    for run in ("results/runs/smoke_20260101T000000Z_0123abc", "results/runs/RUN", "A", "B"):
        (tree / run).parent.mkdir(parents=True, exist_ok=True)
        stored.unpack(PUBLISHED / "slowdown_table", tree).rename(tree / run)
    add_timelines(tree / "results/runs/RUN")
    seen = stored.read(PUBLISHED / "saving" / "seen.json")["launches"]
    for name, way in (("watched", "improper"), ("before", "improper"), ("after", "no_sync")):
        (tree / f"{name}.json").write_text(json.dumps(seen[way][0]))
    rates = tree / "results" / "gate" / "FOLDER" / "error_rates.json"
    rates.parent.mkdir(parents=True)
    shutil.copy(ROOT / "results" / "gate" / "quiet_drawn" / "error_rates.json", rates)
    for plan in (ROOT / "results/evidence").rglob("*plan.json"):
        copied = tree / plan.relative_to(ROOT)
        copied.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(plan, copied)
    profile = json.loads((ROOT / "models/profiles/paced_bert_base_t4.json").read_text())
    for name in ("my_model.json", "bert_mini_recorded.json"):
        (tree / name).write_text(json.dumps(profile | {"memory": MEMORY}))
    (tree / "nccl.txt").write_text(NCCL)
    (tree / "my_model.py").write_text("def build():\n    return None, None, None\n")


class Sandbox:
    """Where examples are read, and `tree`, like a checkout after use, where they are run."""

    def __init__(self, place, programs):
        """`programs`: those that are built, by path, and those from elsewhere, by name."""
        self.tree = Path(place) / "tree"
        self._elsewhere = Path(place) / "elsewhere"
        self._calls = Path(place) / "calls"
        for script in scripts():
            make_stand_in(self.tree / script)
        for program in programs:
            make_stand_in((self.tree if "/" in program else self._elsewhere) / program)
        fill(self.tree)

    def calls_of(self, example):
        """Returns what the example calls. Errors: ShellError."""
        self._calls.write_bytes(b"")
        done = subprocess.run(
            ["/bin/bash", "--noprofile", "--norc", "-eu", "-c", example],
            cwd=self.tree,
            env={"PATH": str(self._elsewhere), "CALLS": str(self._calls)},
            capture_output=True,
            text=True,
        )
        if done.returncode != 0 or done.stderr:
            raise ShellError(done.stderr)
        return list(self._noted())

    def _noted(self):
        words = iter(self._calls.read_bytes().decode().split("\0")[:-1])
        usual = ("PATH=", "CALLS=", "PWD=", "OLDPWD=", "SHLVL=", "_=")
        for count in words:
            program = next(words).removeprefix(f"{self._elsewhere}/")
            arguments = tuple(next(words) for _ in range(int(count)))
            variables = [next(words) for _ in range(int(next(words)))]
            own = tuple(sorted(each for each in variables if not each.startswith(usual)))
            yield Call(program, arguments, own)
