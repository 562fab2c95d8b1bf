"""Breaks the code on purpose, one place at a time, and expects a test to notice.

tests/mutations.json lists the places: in `file`, the text `find` (which occurs once) becomes
`replace`; then the ctest test `test` must fail, and where `case` is given, in that GoogleTest case.
`about` says in words what is broken. Each is tried on a copy of the tree in build/mutations, where
all of these tests pass first.

usage: tests/mutations.py [--only TEXT] [--list]      after harness/setup --tests --oracles
Exit status: 0 every mutation was noticed, 1 one survived or could not be tried, 2 usage.
"""

import argparse
import json
import os
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LIST = ROOT / "tests" / "mutations.json"
SCRATCH = ROOT / "build" / "mutations"
SOURCE = SCRATCH / "source"
BUILD = SCRATCH / "build"
TEST_TIMEOUT_S = 300


@dataclass(frozen=True)
class Mutation:
    about: str
    file: str
    find: str
    replace: str
    test: str
    case: str = ""

    def problem(self, text):
        """Returns why this mutation cannot be applied to the file's text, or ""."""
        if self.find == self.replace:
            return "changes nothing"
        count = text.count(self.find)
        return "" if count == 1 else f"its text occurs {count} times in {self.file}, not once"


def read_list(path=LIST):
    return [Mutation(**entry) for entry in json.loads(path.read_text())]


def tracked_files():
    listing = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True
    )
    return [name for name in listing.stdout.split("\0") if name and (ROOT / name).is_file()]


def write_if_changed(path, content, mode):
    """Keeps the time of an unchanged file, so that it is not compiled again."""
    if not path.exists() or path.read_bytes() != content:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    path.chmod(mode)


def copy_tree(place):
    names = set(tracked_files())
    for name in names:
        original = ROOT / name
        write_if_changed(place / name, original.read_bytes(), original.stat().st_mode)
    for path in place.rglob("*"):
        if path.is_file() and path.relative_to(place).as_posix() not in names:
            path.unlink()


def quiet(*command):
    """Returns (succeeded, output)."""
    done = subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    return done.returncode == 0, done.stdout


def configure():
    env = shlex.split((ROOT / "build" / "deps" / "env").read_text())
    definitions = [f"-D{setting}" for setting in env]
    return quiet(
        "cmake", "-S", str(SOURCE), "-B", str(BUILD), "-G", "Ninja",
        "-DCMAKE_BUILD_TYPE=Release", *definitions,
    )  # fmt: skip


def is_target(test):
    """A Python test has no target: nothing is built for it."""
    return quiet("ninja", "-C", str(BUILD), "-t", "query", test)[0]


def build(test):
    if not is_target(test):
        return True, ""
    return quiet("cmake", "--build", str(BUILD), "-j", str(os.cpu_count()), "--target", test)


def run(test):
    return quiet(
        "ctest", "--test-dir", str(BUILD), "-R", f"^{test}$", "--no-tests=error",
        "--output-on-failure", "--timeout", str(TEST_TIMEOUT_S),
    )  # fmt: skip


def verdict(mutation):
    """Applies one mutation and returns (noticed, what happened)."""
    path = SOURCE / mutation.file
    original = path.read_text()
    if problem := mutation.problem(original):
        return False, f"cannot be tried: {problem}"
    path.write_text(original.replace(mutation.find, mutation.replace))
    try:
        compiled, output = build(mutation.test)
        if not compiled:
            return False, "cannot be tried: does not compile\n" + output[-2000:]
        passed, output = run(mutation.test)
    finally:
        path.write_text(original)
    if passed:
        return False, f"SURVIVED {mutation.test}"
    if mutation.case and f"[  FAILED  ] {mutation.case}" not in output:
        return False, f"noticed by {mutation.test}, but not in {mutation.case}"
    return True, f"noticed by {mutation.test}"


def check_unbroken(tests):
    """Returns the complaint about the first test that fails on the unbroken tree, or ""."""
    for test in tests:
        for succeeded, output in (build(test), run(test)):
            if not succeeded:
                return f"{test} fails without any mutation\n{output[-2000:]}"
    return ""


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="those whose description holds this text")
    parser.add_argument("--list", action="store_true", help="print the list and end")
    arguments = parser.parse_args()
    mutations = [mutation for mutation in read_list() if arguments.only in mutation.about]
    if arguments.list:
        for mutation in mutations:
            print(f"{mutation.test}: {mutation.about}")
        return 0

    copy_tree(SOURCE)
    configured, output = configure()
    if not configured:
        print(f"mutations: configuring failed\n{output}", file=sys.stderr)
        return 1
    if complaint := check_unbroken(sorted({mutation.test for mutation in mutations})):
        print(f"mutations: {complaint}", file=sys.stderr)
        return 1

    survivors = 0
    for number, mutation in enumerate(mutations, 1):
        noticed, what = verdict(mutation)
        survivors += not noticed
        print(f"[{number}/{len(mutations)}] {mutation.about}: {what}", flush=True)
    print(f"mutations: {len(mutations) - survivors} of {len(mutations)} were noticed")
    return 1 if survivors or not mutations else 0


if __name__ == "__main__":
    sys.exit(main())
