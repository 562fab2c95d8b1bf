"""Runs jobs of the set, and says what a checker makes of each.

run.py --list
run.py [--bug NAME]... [--kind KIND]... [--fixed | --wrong] [--checker NAME] [--json FILE]
"""

import argparse
import importlib
import json
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[1:1] = [str(HERE), str(HERE / "jobs")]

import launch  # noqa: E402
import table  # noqa: E402
import truth  # noqa: E402

CHECKERS = sorted(file.stem for file in (HERE / "checkers").glob("*.py"))


def parsed():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--list", action="store_true", help="say what there is, and run nothing")
    parser.add_argument("--bug", action="append", default=[], help="a job's name")
    parser.add_argument("--kind", action="append", default=[], help="a module's name")
    parser.add_argument("--fixed", action="store_true", help="only as the jobs should be")
    parser.add_argument("--wrong", action="store_true", help="only as they should not be")
    parser.add_argument("--every", type=int, default=1, help="one of so many jobs")
    parser.add_argument("--checker", choices=CHECKERS, default="proof")
    parser.add_argument("--json", type=Path, help="write there what was said, in words")
    parser.add_argument("--keep", action="store_true", help="keep how all were judged, in said/")
    return parser.parse_args()


def chosen(options):
    """Returns the jobs, each with whether it is to be right."""
    everything = truth.jobs()
    for name in options.bug:
        if name not in everything:
            sys.exit(f"run.py: --bug: no job is called {name}; --list names them")
    found = []
    for number, job in enumerate(everything.values()):
        is_named = job.name in options.bug or job.kind in options.kind
        if number % options.every or not (is_named or not (options.bug or options.kind)):
            continue
        if job.wrong is not None and not options.fixed:
            found.append((job, False))
        if not options.wrong:
            found.append((job, True))
    return found


def run(jobs, checker):
    """Yields for each job its words and what was said."""
    for job, is_fixed in jobs:
        kind, text = checker.check(job, is_fixed)
        yield job, is_fixed, kind, text


def main():
    options = parsed()
    if options.list:
        for job in truth.jobs().values():
            print(f"{job.kind:16} {job.name:44} {job.year or '':4} {job.thread}")
        return 0
    checker = importlib.import_module(f"checkers.{options.checker}")
    launch.import_torch()
    counts, kept = {}, []
    for job, is_fixed, kind, text in run(chosen(options), checker):
        counts[kind] = counts.get(kind, 0) + 1
        words = " ".join(job.words(is_fixed))
        print(f"{kind:10} {words}" + "".join(f"\n    {line}" for line in text.splitlines()))
        sys.stdout.flush()
        kept.append({"job": words, "said": kind, "text": text})
    print(", ".join(f"{count} {kind}" for kind, count in sorted(counts.items())))
    if options.keep:
        kept_before = table.kept(options.checker)
        judged = {each["job"]: each["said"] for each in kept if each["said"] != "passed over"}
        table.keep(options.checker, kept_before | judged)
    if options.json:
        options.json.write_text(json.dumps(kept, indent=1) + "\n")
    return int(bool(counts.keys() & {"failed", "differs", "accused"}))


if __name__ == "__main__":
    sys.exit(main())
