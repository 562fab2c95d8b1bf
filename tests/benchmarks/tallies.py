"""Tests that count how much of what they judged was right, and say so at their end."""

import argparse
import json
import sys
import unittest
from dataclasses import asdict
from pathlib import Path


def total(tallies, kind):
    """Returns the sum of all tallies, which are of the dataclass `kind`."""
    fields = kind.__dataclass_fields__
    return kind(**{name: sum(getattr(t, name) for t in tallies.values()) for name in fields})


def parse(doc, option, read, default):
    """Returns the option as `read` reads it, the file of --tally or None, and unittest's words."""
    parser = argparse.ArgumentParser(description=doc, allow_abbrev=False, add_help=False)
    parser.add_argument(option, type=read, default=default, dest="value")
    parser.add_argument("--tally", type=Path)
    options, rest = parser.parse_known_args()
    return options.value, options.tally, rest


def run(rest, tallies, kind, text_of, file, by, **more):
    """Runs the tests, prints `text_of` each tally and of all, and writes them to `file` under the
    name `by`, behind `more`. Returns the exit status."""
    program = unittest.main(verbosity=2, argv=[sys.argv[0], *rest], exit=False)
    for name, tally in [*tallies.items(), ("all", total(tallies, kind))]:
        print(f"{name}: {text_of(tally)}", file=sys.stderr)
    if file:
        each = {name: asdict(tally) for name, tally in tallies.items()}
        content = {**more, by: each, "all": asdict(total(tallies, kind))}
        file.write_text(json.dumps(content, indent=1) + "\n")
    return 0 if program.result.wasSuccessful() else 1
