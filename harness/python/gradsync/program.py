"""The program `gradsync`: it has or builds what a process is watched with, and judges what that
recorded. The package that pip installs brings it, and a command that becomes it.
"""

import functools
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent
CHECKOUT = PACKAGE.parents[2]
BUILD_S = 900  # of a library, once for each torch
JUDGE_S = 120


class Unwatchable(Exception):
    """Why a process cannot be watched: a sentence."""


@functools.cache
def path():
    """Returns the program's path: of GRADSYNC_PROGRAM, of this package as it is installed, of this
    checkout's build, or of PATH.

    Errors: Unwatchable.
    """
    named = os.environ.get("GRADSYNC_PROGRAM")
    built = CHECKOUT / "build" / "release" / "gradsync"
    found = [PACKAGE / "bin" / "gradsync", built, shutil.which("gradsync")]
    for place in [named] if named else found:
        if place and os.access(place, os.X_OK):
            return str(place)
    raise Unwatchable(
        f"there is no program {named or 'gradsync'}: build it, or name it in GRADSYNC_PROGRAM"
    )


def outside_environment():
    """Returns this process's environment without the variables that would watch the program too."""
    ours = ("LD_PRELOAD", "PYTHONPATH")
    return {name: value for name, value in os.environ.items() if name not in ours}


def said_by(*arguments, timeout_s):
    """Returns what the program printed. Errors: Unwatchable, with its last words."""
    command = [path(), *map(str, arguments)]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=timeout_s, env=outside_environment()
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Unwatchable(str(error)) from error
    if done.returncode != 0:
        raise Unwatchable((done.stderr.strip() or f"status {done.returncode}").splitlines()[-1])
    return done.stdout


@functools.cache
def prepared():
    """Returns what this Python's torch is watched with: paths by name, as `watch --prepare` prints
    them. Takes 20 s where no library was built for this torch before. Errors: Unwatchable.
    """
    said = said_by("watch", "--prepare", "--python", sys.executable, timeout_s=BUILD_S)
    return json.loads(said)


def judged(folder):
    """Returns (JSON as in results/schema/watch.schema.json, page) of a folder of events.

    Errors: Unwatchable.
    """
    page = said_by("report", folder, timeout_s=JUDGE_S)
    return seen(folder), page


def seen(folder):
    """Returns the JSON of it alone, also of a watching that still goes on. Errors: Unwatchable."""
    return json.loads(said_by("report", folder, "--format", "json", timeout_s=JUDGE_S))


def main():
    """The installed command `gradsync`: becomes the program, which asks this Python for its torch
    unless the environment names another.
    """
    program = str(PACKAGE / "bin" / "gradsync")
    environment = {"GRADSYNC_PYTHON": sys.executable} | os.environ
    try:
        os.execve(program, [program, *sys.argv[1:]], environment)
    except OSError as error:
        sys.exit(f"error: {program} cannot be started: {error.strerror}")
