"""Breaks the code on purpose, one place at a time, and expects a test to notice.

tests/mutations.json lists the places: in `file`, the text `find` (which occurs once) becomes
`replace`; then the ctest test `test` must fail, and where `case` is given, in that GoogleTest case.
`about` says in words what is broken. Each is tried on a copy of the tree in build/mutations, where
its test passes first.

tests/mutations_noticed.txt keeps a digest of each mutation that a test noticed and of the file it
broke. A run leaves these out and goes on with the others, so that it can be ended at any time;
--all tries every one.

usage: tests/mutations.py [--only TEXT] [--all] [--list]      after harness/setup --tests --oracles
Exit status: 0 every mutation was noticed, 1 one survived or could not be tried, 2 usage.
"""

import argparse
import hashlib
import itertools
import json
import os
import subprocess
import sys
from dataclasses import astuple, dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LIST = ROOT / "tests" / "mutations.json"
NOTICED = ROOT / "tests" / "mutations_noticed.txt"
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

    def digest(self, text):
        """Returns what changes with this mutation and with its file's text."""
        return hashlib.sha256(json.dumps([astuple(self), text]).encode()).hexdigest()[:12]


def read_list(path=LIST):
    return [Mutation(**entry) for entry in json.loads(path.read_text())]


def digest_of(mutation):
    file = ROOT / mutation.file
    return mutation.digest(file.read_text() if file.exists() else "")


def read_noticed():
    return set(NOTICED.read_text().split())


def write_noticed(digests):
    """Keeps those of mutations as they are now, so that the record does not grow."""
    current = {digest_of(mutation) for mutation in read_list()}
    NOTICED.write_text("".join(f"{digest}\n" for digest in sorted(digests & current)))


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


def quiet(*command, env=None):
    """Returns (succeeded, output)."""
    done = subprocess.run(
        command,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    return done.returncode == 0, done.stdout


def build(*targets):
    """Configures and builds; what is restored after a mutation comes from a compiler cache."""
    places = {"BUILD_DEPS": ROOT / "build" / "deps", "BUILD_FOLDER": BUILD}
    environment = os.environ | {name: str(path) for name, path in places.items()}
    return quiet(SOURCE / "harness/cmake/build", "mutations", *targets, env=environment)


def build_test(test):
    """A Python test has no target: nothing is built for it."""
    is_target, _ = quiet("ninja", "-C", str(BUILD), "-t", "query", test)
    return build(test) if is_target else (True, "")


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
        compiled, output = build_test(mutation.test)
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


def unbroken_complaint(test):
    """Returns how the test fails on the unbroken tree, or ""."""
    for succeeded, output in (build_test(test), run(test)):
        if not succeeded:
            return f"cannot be tried: {test} fails without any mutation\n{output[-2000:]}"
    return ""


def try_all(mutations):
    """Tries each, test by test, and returns how many were noticed. Each is recorded at once."""
    noticed_before = read_noticed()
    count = 0
    number = itertools.count(1)
    in_order = sorted(mutations, key=lambda mutation: mutation.test)
    for test, group in itertools.groupby(in_order, lambda mutation: mutation.test):
        complaint = unbroken_complaint(test)
        for mutation in group:
            noticed, what = (False, complaint) if complaint else verdict(mutation)
            count += noticed
            if noticed:
                noticed_before.add(digest_of(mutation))
                write_noticed(noticed_before)
            print(f"[{next(number)}/{len(mutations)}] {mutation.about}: {what}", flush=True)
    return count


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="those whose description holds this text")
    parser.add_argument("--all", action="store_true", help="also those that were noticed before")
    parser.add_argument("--list", action="store_true", help="print the list and end")
    arguments = parser.parse_args()
    chosen = [mutation for mutation in read_list() if arguments.only in mutation.about]
    if arguments.list:
        for mutation in chosen:
            print(f"{mutation.test}: {mutation.about}")
        return 0
    if not chosen:
        print(f"mutations: no description holds {arguments.only!r}", file=sys.stderr)
        return 2

    noticed = set() if arguments.all else read_noticed()
    mutations = [mutation for mutation in chosen if digest_of(mutation) not in noticed]
    before = len(chosen) - len(mutations)
    count = 0
    if mutations:
        copy_tree(SOURCE)
        configured, output = build("gradsync_build_info")
        if not configured:
            print(f"mutations: configuring failed\n{output}", file=sys.stderr)
            return 1
        count = try_all(mutations)
    print(f"mutations: {before + count} of {len(chosen)} were noticed, {before} of them before")
    return 0 if count == len(mutations) else 1


if __name__ == "__main__":
    sys.exit(main())
