#!/usr/bin/env python3
"""Makes the figures that the documents print: measures them, keeps their data, writes the text.

    results/published/make.py [--text] [FIGURE]...

A figure is a command of gradsync, kept here as a folder with its raw steps (trials.jsonl without
timelines) and what was made of them (result.json); and a stretch of a document between a line
"<!-- published: FIGURE -->" and "<!-- end of published -->", written from that data alone. Without
FIGURE all are made again, one after the other; with --text nothing is measured. Measuring needs a
clean commit and a program built from it (GRADSYNC_PROGRAM: another than build/release's), and a
machine that does nothing else.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
PROGRAM = os.environ.get("GRADSYNC_PROGRAM", str(ROOT / "build" / "release" / "gradsync"))
TIMELINES = ("timeline_events", "timeline_phases", "memory_timeline")


@dataclass(frozen=True)
class Figure:
    """`command` follows `gradsync`; `text` makes the document's lines of a page and a result."""

    command: tuple
    document: str
    text: object


def report(folder, form, program=PROGRAM):
    """Returns what `gradsync report` makes of the raw steps in a folder."""
    command = [program, "report", folder, "--format", form]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def part_of(page, name):
    """Returns the section of a page about one part of its plan."""
    return re.search(rf"^## {name}\n(.*?)(?=^## |\Z)", page, re.MULTILINE | re.DOTALL).group(1)


def first_table(text):
    """Returns the first Markdown table, without a line feed at its end."""
    return re.search(r"^\|.*?(?=\n\n|\Z)", text, re.MULTILINE | re.DOTALL).group(0).rstrip("\n")


def sentences(text):
    """Returns the closing sentences of a part: what was found."""
    return [line for line in text.splitlines() if line.startswith("On ")]


def measured_on(context, command):
    """Returns the caption's clause on how and where."""
    return (
        f"`gradsync {' '.join(command)}`, {context['cpu_model']}, {context['cpus']} CPUs, "
        f"torch {context['torch']}, {context['start_time'][:10]}, commit {context['commit']}"
    )


def wrapped(text, width=105):
    """Returns a paragraph in lines of at most `width` characters; no line begins with a unit."""
    lines = [""]
    for word in text.replace(" %", "\0%").split():
        if lines[-1] and len(lines[-1]) + 1 + len(word) > width:
            lines.append("")
        lines[-1] += (" " if lines[-1] else "") + word
    return "\n".join(lines).replace("\0", " ")


def slowdown_table(page, result, command):
    part = part_of(page, "guides_machines")
    inside, judged, error = re.search(
        r"(\d+) of (\d+) measured means lie inside.*?error over the cells ([0-9.]+) %",
        part,
        re.DOTALL,
    ).groups()
    cells = [cell for cell in result["cells"] if cell["part"] == "guides_machines"]
    steps = sorted({cell["step_s"]["n"] for cell in cells})
    launches = sorted({cell["launches"] for cell in cells})
    caption = (
        "The guide's two machines re-enacted on two cores: BERT-base at a T4's pace, real DDP, "
        f"real traffic on shaped links ({measured_on(result['context'], command)}). s/step is "
        f"elapsed time ± the sd of {' to '.join(map(str, steps))} single steps in "
        f"{' to '.join(map(str, launches))} launches; slowdowns have 95 % intervals over launches."
    )
    worth = (
        f"{inside} of {judged} means lie inside the 95 % interval of the guide's three raw runs; "
        f"the mean absolute error is {error} %. That is worth less than it sounds: three "
        "parameters were fitted to that table, only five of its eight cells are measurements of "
        "their own, intervals of three runs are wide, and 10 ms of engine time were taken off the "
        "links ([the fit](models/profiles/README.md))."
    )
    found = " ".join(sentences(part))
    return "\n\n".join([wrapped(caption), first_table(part), wrapped(worth), wrapped(found)])


FIGURES = {"slowdown_table": Figure(("run", "slowdown_table"), "README.md", slowdown_table)}


def text_of(name, program=PROGRAM):
    """Returns the text of a figure, made from its folder."""
    figure, folder = FIGURES[name], HERE / name
    result = json.loads(report(folder, "json", program))
    return figure.text(report(folder, "markdown", program), result, figure.command)


def place_of(name):
    """Returns the pattern of a figure's place in its document; group 2 is its text."""
    return re.compile(
        rf"(<!-- published: {name} -->\n\n)(.*?)(\n\n<!-- end of published -->)", re.DOTALL
    )


def write_text(name):
    document = ROOT / FIGURES[name].document
    text = text_of(name)
    new, places = place_of(name).subn(lambda m: m[1] + text + m[3], document.read_text())
    if places != 1:
        sys.exit(f"{document}: {places} places for figure {name}, expected 1")
    document.write_text(new)


def without_timelines(trial):
    for rank in trial["ranks"]:
        for name in TIMELINES:
            rank[name] = []
    return trial


def measure(name):
    if subprocess.run(["git", "status", "--porcelain"], cwd=ROOT, capture_output=True).stdout:
        sys.exit("the tree has changes: a figure is made from a clean commit")
    with tempfile.TemporaryDirectory(prefix="gradsync_published_") as place:
        out = Path(place) / "run"
        command = [PROGRAM, *FIGURES[name].command, "--out", out]
        subprocess.run(command, check=True, stdout=sys.stderr)
        folder = HERE / name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        result = json.loads((out / "result.json").read_text())
        result["context"]["command_line"] = ["gradsync", *FIGURES[name].command]
        (folder / "result.json").write_text(json.dumps(result, indent=1) + "\n")
        trials = [json.loads(line) for line in (out / "trials.jsonl").read_text().splitlines()]
        lines = [json.dumps(without_timelines(trial)) + "\n" for trial in trials]
        (folder / "trials.jsonl").write_text("".join(lines))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("figure", nargs="*", metavar="FIGURE", help=", ".join(FIGURES))
    parser.add_argument("--text", action="store_true", help="measure nothing, write the text alone")
    options = parser.parse_args()
    unknown = set(options.figure) - set(FIGURES)
    if unknown:
        parser.error(f"FIGURE: got {', '.join(sorted(unknown))}, expected {', '.join(FIGURES)}")
    for name in options.figure or FIGURES:
        if not options.text:
            measure(name)
        write_text(name)


if __name__ == "__main__":
    main()
