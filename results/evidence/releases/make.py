"""What releases of training libraries make of gradient accumulation, and what changed when.

    results/evidence/make.py releases measure [LIBRARY[==RELEASE]]...    seen.json

Each release is installed beside the torch of build/deps into build/releases, and runs the job of
jobs/ under `gradsync watch --json`, with two ranks on gloo. `measure` does not run again what
seen.json has, and prints the board.
"""

import contextlib
import json
import os
import platform
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from datetime import date
from pathlib import Path

import stored
from releases import board, trainers
from releases.libraries import NEEDED, NEEDED_TOO, POLICIES, RELEASES

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
PROGRAM = os.environ.get("GRADSYNC_PROGRAM", str(ROOT / "build" / "release" / "gradsync"))
PYTHON = os.environ.get("GRADSYNC_TEST_PYTHON", str(ROOT / "build/deps/venv/bin/python"))
PLACE = ROOT / "build" / "releases"
FORKED_RANKS = ROOT / "tests" / "benchmarks" / "forked_ranks.py"
SEEN = HERE / "seen.json"
NOW = PLACE / "seen.json"
BEGIN, END = "<!-- board -->", "<!-- end of board -->"
TRAINERS = "<!-- trainers -->", "<!-- end of trainers -->"
RAISED = re.compile(r"[\w.]+(Error|Exception)\b")  # a traceback's last line
DEADLINE_S = 300
MOST_RUNS = 3  # of one job
RANKS = 2
WITH_ALL_IT_NEEDS = ("transformers",)
BUILT_BESIDE_TORCH = ("deepspeed",)  # which its set-up imports
# What Megatron-core 0.14 and newer compile of CUDA's when they are imported, where it is there.
OF_EXTENSIONS = {
    "TORCH_CUDA_ARCH_LIST": "8.0",  # of no GPU torch would ask in vain
    "TORCH_EXTENSIONS_DIR": str(PLACE / "extensions"),
}
DEEPSPEED_ON_CPU = {"DS_ACCELERATOR": "cpu", "DS_BUILD_OPS": "0", "LOCAL_SIZE": str(RANKS)}


def installed(library, release):
    """Returns the folder that has this release; None and the reason where it cannot be fetched."""
    folder = PLACE / f"{library}-{release}"
    if folder.exists():
        return folder, None
    unfinished = folder.with_suffix(".unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    options = [] if library in WITH_ALL_IT_NEEDS else ["--no-deps"]
    tools = PLACE / "tools"
    pip = [PYTHON, "-m", "pip", "--disable-pip-version-check", "install"]
    pip += ["--quiet", "--no-compile"]
    packages = [f"{library}=={release}", *NEEDED.get(library, ())]
    if library not in NEEDED and options:
        packages = missing(pip, [*packages, *NEEDED_TOO.get(library, ())])
    if library in BUILT_BESIDE_TORCH:
        options += ["--no-build-isolation"]
        if not tools.exists():
            subprocess.run([*pip, "--target", tools, "wheel", "setuptools"], check=True)
    result = subprocess.run(
        [*pip, *options, "--target", unfinished, *packages],
        env=os.environ | DEEPSPEED_ON_CPU | {"PYTHONPATH": str(tools)},
        capture_output=True,
        text=True,
    )
    if result.returncode != 0:
        shutil.rmtree(unfinished, ignore_errors=True)
        return None, result.stderr.strip().splitlines()[-1][:200]
    unfinished.rename(folder)
    return folder, None


def missing(pip, packages):
    """Returns these packages and what they need beside those of build/deps, as pip resolves it."""
    torch = f"torch=={versions_of(PLACE)['torch']}"
    result = subprocess.run(
        [*pip, "--dry-run", "--report", "-", torch, *packages],
        capture_output=True,
        check=True,
        text=True,
    )
    found = [each["metadata"] for each in json.loads(result.stdout)["install"]]
    return [f"{each['name']}=={each['version']}" for each in found]


def free_port():
    with socket.socket() as finder:
        finder.bind(("127.0.0.1", 0))
        return finder.getsockname()[1]


def environment(folder):
    return (
        os.environ
        | DEEPSPEED_ON_CPU
        | OF_EXTENSIONS
        | {
            "PYTHONPATH": str(folder),
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(free_port()),
            "OMP_NUM_THREADS": "1",
            "LOCAL_WORLD_SIZE": str(RANKS),
            "ACCELERATE_USE_CPU": "true",
            "TRANSFORMERS_OFFLINE": "1",
            "CUDA_VISIBLE_DEVICES": "",
        }
    )


def objects_in(text):
    """Returns what the ranks printed, by rank."""
    found = {}
    for begin in re.finditer(r'\{"rank"', text):
        fields, _ = json.JSONDecoder().raw_decode(text, begin.start())
        found[fields["rank"]] = fields
    return [found[rank] for rank in sorted(found)]


def end(job):
    """Ends what is left of it."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(job.pid, signal.SIGKILL)


def output_of(command, env, place):
    """Returns (what it printed, its errors), without the tree's place; all that it started ends."""
    job = subprocess.Popen(
        command,
        cwd=place,
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    late = ""
    try:
        out, errors = job.communicate(timeout=DEADLINE_S)
    except subprocess.TimeoutExpired:
        end(job)
        out, errors = job.communicate()
        late = f"\nran longer than {DEADLINE_S} s"
    finally:
        end(job)
    return out.replace(f"{ROOT}/", ""), errors.replace(f"{ROOT}/", "") + late


def kept(watched):
    """Returns what the board needs of a watched job."""
    step = watched["per_step"]
    fields = ("micro_batches", "synchronized", "collectives")
    return {
        "kind": watched["verdicts"][0]["kind"],
        "sentence": watched["verdicts"][0]["sentence"],
        "fails": watched["has_excess"],
        "per_step": {name: step[name] for name in fields} if step else None,
    }


def run(folder, library, wrapper, policy):
    """Returns what is seen of one job, which runs again where its ranks read other parameters."""
    runs, found = 1, run_once(folder, library, wrapper, policy)
    while board.is_torn(found) and runs < MOST_RUNS:
        runs, found = runs + 1, run_once(folder, library, wrapper, policy)
    return found | ({"runs": runs} if runs > 1 else {})


def run_once(folder, library, wrapper, policy):
    """Returns what is seen of one job."""
    with tempfile.TemporaryDirectory(prefix="gradsync_release_") as place:
        file = Path(place) / "watched.json"
        job = [
            PYTHON,
            FORKED_RANKS,
            str(RANKS),
            HERE / "jobs" / f"with_{library.replace('-', '_')}.py",
        ]
        more = [place] if library == "transformers" else []
        out, errors = output_of(
            [PROGRAM, "watch", "--json", file, "--quiet", "--", *job, wrapper, policy, *more],
            environment(folder),
            place,
        )
        watched = kept(json.loads(file.read_text())) if file.exists() else None
    ranks = objects_in(out)
    failure = None if len(ranks) == RANKS else cause(errors)
    return {"watched": watched, "ranks": ranks, "failure": failure}


def cause(errors):
    """Returns the last line that tells of an error, else the last."""
    lines = [line for line in errors.splitlines() if line.strip()]
    raised = [line for line in lines if RAISED.match(line)]
    return (raised or lines or ["it printed nothing"])[-1][:300]


def versions_of(folder):
    """Of all that takes part."""
    names = ("torch", "numpy", *RELEASES)
    text = (
        "import importlib.metadata as m, json, sys\n"
        "found = {}\n"
        f"for name in {names!r}:\n"
        "    try: found[name] = m.version(name)\n"
        "    except m.PackageNotFoundError: pass\n"
        "print(json.dumps(found))"
    )
    printed = subprocess.run(
        [PYTHON, "-c", text], env=environment(folder), check=True, capture_output=True, text=True
    )
    return json.loads(printed.stdout)


def wanted(words):
    """Yields (library, release) for each that is asked for; all where none is."""
    for library, releases in RELEASES.items():
        for release in releases:
            names = (library, f"{library}=={release}")
            if not words or any(name in words for name in names):
                yield library, release


def measure(file, words):
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    seen = stored.read(file) if stored.exists(file) else {"releases": []}
    done = {(r["library"], r["release"]) for r in seen["releases"]}
    for library, release in wanted(words):
        if (library, release) in done:
            continue
        began = time.monotonic()
        folder, reason = installed(library, release)
        entry = {"library": library, "release": release, "date": str(date.today())}
        entry |= {"python": platform.python_version(), "not_installed_because": reason}
        install_s = time.monotonic() - began
        cells = []
        if folder:
            entry["with"] = versions_of(folder)
            for wrapper, policies in POLICIES[library].items():
                for policy in policies:
                    found = run(folder, library, wrapper, policy)
                    cells.append({"wrapper": wrapper, "policy": policy} | found)
                    print(library, release, wrapper, policy, board.word(cells[-1]), flush=True)
        entry |= {"install_s": round(install_s, 1), "cells": cells}
        entry["total_s"] = round(time.monotonic() - began, 1)
        seen["releases"].append(entry)
        unfinished = file.with_suffix(".unfinished")
        stored.write(unfinished, seen)
        stored.packed(unfinished).rename(stored.packed(file))
    return seen


def pages():
    """Returns the text of each page, by its path."""
    releases = in_order(stored.read(SEEN))
    readme, of_trainers = HERE / "README.md", HERE.parent / "trainers.md"
    lines = ["", board.text(releases)]
    rows = ["", trainers.text(releases), ""]
    return {
        readme: stored.between(readme.read_text(), (BEGIN, END), lines),
        of_trainers: stored.between(of_trainers.read_text(), TRAINERS, rows),
    }


def in_order(seen):
    """As the releases are listed, however they were measured."""
    place = {(x, r): i for i, (x, r) in enumerate(wanted(()))}
    known = [r for r in seen["releases"] if (r["library"], r["release"]) in place]
    return sorted(known, key=lambda r: place[r["library"], r["release"]])


def again():
    """Returns what releases do otherwise now than seen.json says."""
    stored.packed(NOW).unlink(missing_ok=True)
    now = measure(NOW, ())
    print(board.text(in_order(now)))
    return board.differences(stored.read(SEEN), now)


STEPS = {"measure": lambda *words: print(board.text(in_order(measure(SEEN, words))))}
