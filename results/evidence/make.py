#!/usr/bin/env python3
"""Makes and runs the evidence: measurements that prove the suite right, and pages of them.

    results/evidence/make.py text [ITEM]...        writes the pages from what is stored
    results/evidence/make.py again [ITEM]...       makes again what comes out alike on every machine
                                                   (external, full_size, gate_habits, releases,
                                                   second_opinion), an hour or more; exit status 1
                                                   where it is not as it is stored
    results/evidence/make.py ITEM STEP [WORD]...   runs a step; its module says what it takes

ITEM is a folder here: advise, external, full_size, gate_habits, gate_rates, held_out, on_paper,
peers, published, releases or second_opinion.
"""

import importlib
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
for folder in (ROOT / "benchmarks" / "peers", HERE):
    sys.path.insert(0, str(folder))

NAMES = (
    "advise",
    "external",
    "full_size",
    "gate_habits",
    "gate_rates",
    "held_out",
    "on_paper",
    "peers",
    "published",
    "releases",
    "second_opinion",
)
AGAIN = ("external", "full_size", "gate_habits", "releases", "second_opinion")


def item(name):
    return importlib.import_module(f"{name}.make")


def pages(name):
    """Returns the text of each page of an item, by its path, made from what is stored."""
    return item(name).pages()


def write_text(names):
    for name in names:
        for path, text in pages(name).items():
            path.write_text(text)


def again(names):
    """Returns the exit status."""
    status = 0
    for name in names:
        for difference in item(name).again():
            print(f"{name}: {difference}")
            status = 1
    return status


def main(arguments):
    """Returns the exit status."""
    match arguments:
        case ["text", *names] if all(name in NAMES for name in names):
            write_text(names or NAMES)
        case ["again", *names] if all(name in AGAIN for name in names):
            return again(names or AGAIN)
        case [name, step, *words] if name in NAMES and step in item(name).STEPS:
            return item(name).STEPS[step](*words)
        case [name, *_] if name in NAMES:
            sys.exit(f"{item(name).__doc__}\nSteps: {', '.join(item(name).STEPS)}")
        case _:
            sys.exit(__doc__)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
