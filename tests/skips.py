"""Says which test cases were skipped and why, and whether they may be.

usage: tests/skips.py DETAILS LOG [--allowed LIST]
  DETAILS   ctest's LastTest.log, what every test printed
  LOG       what ctest --output-log wrote, which tests skipped as a whole
  LIST      tests/skips.txt, which says what a line of it is
Exit status: 0; with --allowed 1 where a skipped case is on no line, or nothing ran.

A passing program leaves out single cases (GoogleTest, unittest), which ctest does not tell; and a
program that leaves out all of them ends with SKIP_RETURN_CODE.
"""

import argparse
import ast
import fnmatch
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

WHOLE = "(whole)"  # in place of a case: the test skipped as a whole

TEST_BEGINS = re.compile(r"^\d+/\d+ Test: (\S+)$")
OUTPUT_BEGINS = "Output:"
OUTPUT_ENDS = "<end of output>"
WHOLE_TEST = re.compile(r"^\s*\d+/\d+ Test\s+#\d+: (\S+) \.*\s*\*\*\*Skipped ")
GOOGLE_TEST = re.compile(r"^\[  SKIPPED \] (\w[^\s,]*\.[^\s,]+)")
GOOGLE_TEST_RUNS = "[ RUN      ] "
UNITTEST = re.compile(r"^\s*(\w+) \(([\w.]+)\)")
UNITTEST_SKIPPED = re.compile(r"\.\.\. skipped (['\"].*['\"])$")


@dataclass(frozen=True)
class Skip:
    test: str  # its name in ctest
    case: str
    reason: str

    def __str__(self):
        return f"{self.test}  {self.case}  {self.reason}"


@dataclass(frozen=True)
class Allowed:
    test: str  # these two are patterns
    case: str

    def covers(self, skip):
        return fnmatch.fnmatchcase(skip.test, self.test) and fnmatch.fnmatchcase(
            skip.case, self.case
        )


def outputs(details):
    """Returns what each test printed, as lines, by its name."""
    by_test, name, lines = {}, None, None
    for line in details.splitlines():
        if line.startswith(OUTPUT_ENDS):
            lines = None
        elif lines is not None:
            lines.append(line)
        elif begins := TEST_BEGINS.match(line):
            name = begins[1]
        elif line == OUTPUT_BEGINS and name is not None:
            lines = by_test[name] = []
    return by_test


def google_test_skips(lines):
    """Yields case and reason, which is printed between its first and its last line."""
    said, seen = [], set()
    for line in lines:
        if line.startswith(GOOGLE_TEST_RUNS):
            said = []
        elif skipped := GOOGLE_TEST.match(line):
            if skipped[1] not in seen:
                seen.add(skipped[1])
                yield skipped[1], " ".join(text for text in said[1:] if text)
        else:
            said.append(line)


def unittest_skips(lines):
    """Yields case and reason. The docstring of a case is a line of its own, behind its name."""
    case = ""
    for line in lines:
        if named := UNITTEST.match(line):
            method, owner = named[1], named[2].removeprefix("__main__.")
            case = owner if owner.endswith(f".{method}") else f"{owner}.{method}"
        if skipped := UNITTEST_SKIPPED.search(line):
            yield case, ast.literal_eval(skipped[1])


def skips(details, log):
    """Returns every Skip, in the order of ctest."""
    found = []
    by_test = outputs(details)
    for test, lines in by_test.items():
        for case, reason in [*google_test_skips(lines), *unittest_skips(lines)]:
            found.append(Skip(test, case, " ".join(reason.split())))
    for line in log.splitlines():
        if whole := WHOLE_TEST.match(line):
            said = [text for text in by_test.get(whole[1], []) if text.strip()]
            found.append(Skip(whole[1], WHOLE, said[-1] if said else ""))
    return found


def can_make_user_namespaces():
    return subprocess.run(["unshare", "-U", "-r", "true"], capture_output=True).returncode == 0


# The sections of a list: whether their lines hold here.
SECTIONS = {
    "always": lambda: True,
    "not root": lambda: os.geteuid() != 0,
    "no user namespaces": lambda: not can_make_user_namespaces(),
    "GRADSYNC_NO_ORACLES": lambda: bool(os.environ.get("GRADSYNC_NO_ORACLES")),
}


def allowed(text, holds=lambda section: SECTIONS[section]()):
    """Returns what a list allows here. Errors: ValueError with the line."""
    found, is_here = [], False
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        if line.startswith("["):
            section = line.strip("[]")
            if section not in SECTIONS:
                raise ValueError(f"line {number}: got [{section}], expected one of {[*SECTIONS]}")
            is_here = holds(section)
            continue
        words = re.split(r"\s{2,}", line.strip(), maxsplit=2)
        if len(words) < 3:
            raise ValueError(f"line {number}: got '{line}', expected TEST  CASE  why")
        if is_here:
            found.append(Allowed(words[0], words[1]))
    return found


def read(path):
    return path.read_text(errors="replace") if path.exists() else ""


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("details", type=Path)
    parser.add_argument("log", type=Path)
    parser.add_argument("--allowed", type=Path, metavar="LIST")
    options = parser.parse_args()
    log = read(options.log)
    found = skips(read(options.details), log)
    if options.allowed is None:
        if found:
            print(f"\n{len(found)} test cases were skipped:", *found, sep="\n")
        return 0
    if not log:
        print("no test ran", file=sys.stderr)
        return 1
    lines = allowed(options.allowed.read_text())
    refused = [skip for skip in found if not any(line.covers(skip) for line in lines)]
    for skip in refused:
        print(f"skipped, and not on {options.allowed}: {skip}", file=sys.stderr)
    return 1 if refused else 0


if __name__ == "__main__":
    sys.exit(main())
