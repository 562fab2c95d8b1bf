"""Chooses the tests that a change can break: of the rooms that changed and of those above them.

A room is a folder of harness/, models/ or benchmarks/. The includes say which are above which
(tests/layering_test.py). A test of benchmarks/ or bugs/ runs the program: on a job of Python's,
which takes harness/watch and what is below it, or with ranks of ours, which takes the rooms of a
run. The checks of sources always run. A file that no rule knows, like a CMakeLists.txt, chooses
all tests.

usage: tests/changed.py BUILD [BASE]
Prints what it chose and why to stderr. To stdout: what ctest's -E leaves out, "all" or "none".
BASE: a commit; by default where this branch left origin/main, or HEAD~ where it has not.
Uncommitted and new files count, too.
"""

import json
import re
import subprocess
import sys
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

from layering_test import LAYERS, ROOT, includes, layer_of, sources

CHECKS = "source_checks"
# Jobs that are watched, held or take turns: Python's torch beside the program, and no rank of ours.
JOBS = re.compile(
    "watch|judge|equal_|bugs|search_(of_)?job|gate_jobs|gate_counts|demo|callbacks|plugin|public_sync|ci_counts"
)
JOB_ROOMS = {"watch", "python"}
RUN_ROOMS = {"session", "run", "predict"}
# Files above runs: no run needs them, only these tests do.
GATES = re.compile("gate|arm_|search")
# A file -> folders below tests/, or tests, that read it. The checks of sources read all.
READERS = {
    "*.md": set(),
    "tests/mutations*": set(),
    "tests/additions*": set(),
    "tests/nightly*": set(),
    "tests/source_checks/*": set(),
    "tests/layering_test.py": set(),
    "tests/changed.py": set(),
    "tests/dearest.py": set(),
    "tests/skips*": set(),
    "results/evidence/*": {"results"},
    "results/*": {"results", "harness/gate", "harness/report", "harness/results", "plot"},
    "plot/*": {"plot", "program_output_test"},
    "models/*.py": {"models", "models/memory", "models/profiles"},
    "benchmarks/demo/*": {"program_demo_test"},
    "benchmarks/peers/*": {"peers_test"},
}


@dataclass(frozen=True)
class Test:
    name: str
    folder: str  # below tests/
    command: str


def room_of(path):
    """Returns the folder of harness/, "models" or "benchmarks" that a source is in, or None."""
    top = path.split("/")[0]
    return layer_of(path) or (top if top in ("models", "benchmarks") else None)


def closure(rooms, uses):
    """Returns rooms and all that they stand on."""
    found, open_ = set(), set(rooms)
    while open_:
        found |= open_
        open_ = {below for room in open_ for below in uses.get(room, ())} - found
    return found


def uses_of(files):
    """Returns which rooms each room includes, of (path, text) of sources."""
    uses = {"python": {"watch"}}
    for path, text in files:
        rooms = {room_of(included) for is_quoted, included in includes(text) if is_quoted}
        uses.setdefault(room_of(path), set()).update(rooms - {None})
    return uses


def stands_on(test, uses, included):
    """Returns the rooms whose change can break a test; its folder's sources name those included."""
    if test.folder in ("benchmarks", "bugs", "harness/python", CHECKS):
        apart = {"gate", "arms"} if GATES.search(test.name) else set()
        if JOBS.search(test.name):
            return closure(JOB_ROOMS, uses) | apart
        if test.folder == "harness/python":
            apart = {"python"}
        return closure(RUN_ROOMS, uses) - {"watch", "gate", "arms"} | apart
    own = test.folder.split("/")[1 if test.folder.startswith("harness/") else 0]
    return closure(included | {own}, uses)


def reads(path):
    """Returns the folders and tests that READERS has for a file, or None."""
    return next((rooms for glob, rooms in READERS.items() if fnmatch(path, glob)), None)


def rule(path, tests, below):
    """Returns which of the tests a change of one file chooses, or None: not known.

    below: test -> the rooms that it stands on.
    """
    folder, _, name = path.rpartition("/")
    room = room_of(path)
    if name == "CMakeLists.txt" or name.endswith((".cmake", ".in")):
        return None
    if (readers := reads(path)) is not None:
        return [test for test in tests if test.folder in readers or test.name in readers]
    if path.startswith("tests/"):
        named = [test for test in tests if path in test.command]
        within = [test for test in tests if f"{folder}/".startswith(f"tests/{test.folder}/")]
        return named or within or None
    if room == "benchmarks" and name.endswith((".cpp", ".h")):
        of_jobs = bool(JOBS.search(name))
        return [
            t for t in tests if t.folder == "benchmarks" and bool(JOBS.search(t.name)) == of_jobs
        ]
    if room in LAYERS or room == "python" or name.endswith((".cpp", ".h")):
        return [test for test in tests if room in below[test]]
    if room:  # plans, topologies, gates and profiles
        return [test for test in tests if "plan" in below[test]]
    return None


def chosen(paths, tests, uses, included):
    """Returns (the tests to run, in ctest's order; files that no rule knows).

    included: folder below tests/ -> rooms that its sources name.
    """
    below = {test: stands_on(test, uses, included.get(test.folder, set())) for test in tests}
    found = {test for test in tests if test.folder == CHECKS and not JOBS.search(test.name)}
    unknown = []
    for path in paths:
        picked = rule(path, tests, below)
        if picked is None:
            unknown.append(path)
        found.update(picked or [])
    return [test for test in tests if test in found], unknown


def tests_of(listing):
    """Returns ctest's tests, of what it prints as json-v1."""
    graph = listing["backtraceGraph"]
    tests = []
    for entry in listing["tests"]:
        node = graph["nodes"][entry["backtrace"]]
        while "parent" in node and "command" in graph["nodes"][node["parent"]]:
            node = graph["nodes"][node["parent"]]
        folder = Path(graph["files"][node["file"]]).parent.as_posix().partition("/tests/")[2]
        tests.append(Test(entry["name"], folder, " ".join(entry.get("command", ()))))
    return tests


def included_by_tests():
    """Returns folder below tests/ -> rooms that its sources include."""
    found = {}
    for file in (ROOT / "tests").rglob("*"):
        if file.suffix in {".h", ".cpp"}:
            rooms = {room_of(path) for is_quoted, path in includes(file.read_text()) if is_quoted}
            for folder in file.relative_to(ROOT / "tests").parents:
                found.setdefault(folder.as_posix(), set()).update(rooms - {None})
    return found


def git(*arguments):
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"tests/run: error: git {' '.join(arguments)}: {done.stderr.strip()}")
    return done.stdout


def default_base():
    head = git("rev-parse", "HEAD").strip()
    done = subprocess.run(
        ["git", "merge-base", "HEAD", "origin/main"], cwd=ROOT, capture_output=True, text=True
    )
    base = done.stdout.strip()
    return "HEAD~" if done.returncode or base == head else base


def changed_files(base):
    names = git("diff", "--name-only", "--no-renames", base)
    return sorted({*names.splitlines(), *git("ls-files", "-o", "--exclude-standard").splitlines()})


def main(build, base=None):
    base = base or default_base()
    paths = changed_files(base)
    if not paths:
        print(f"tests/run: nothing changed since {base}", file=sys.stderr)
        return print("none")
    listing = subprocess.run(
        ["ctest", "--test-dir", build, "--show-only=json-v1"], check=True, capture_output=True
    )
    tests = tests_of(json.loads(listing.stdout))
    found, unknown = chosen(paths, tests, uses_of(sources()), included_by_tests())
    if unknown:
        print(f"tests/run: all tests, since {unknown[0]} can change any", file=sys.stderr)
        return print("all")
    folders = sorted({test.folder for test in found})
    print(
        f"tests/run: {len(paths)} files changed since {base}: {len(found)} of {len(tests)} tests,"
        f" of {', '.join(folders)}",
        file=sys.stderr,
    )
    left_out = [test.name for test in tests if test not in set(found)]
    print(f"^({'|'.join(left_out)})$" if left_out else "all")


if __name__ == "__main__":
    main(*sys.argv[1:])
