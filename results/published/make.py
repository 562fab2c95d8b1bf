#!/usr/bin/env python3
"""Makes the figures that the documents print: measures them, keeps their data, writes the text.

    results/published/make.py [--text] [FIGURE]...

A figure is a stretch of a document between a line "<!-- published: FIGURE -->" and "<!-- end of
published -->", written (texts.py) from data that a command made: of a run or search its raw steps
(trials.jsonl without timelines) and what was made of them, in a folder of the figure's name; of a
comparison its JSON; of what gradsync computes nothing, since it computes it again; the gate's rates
are in results/gate. Without FIGURE all that can be are made again, one after the other; with --text
nothing is measured. Measuring needs a clean
commit and a program built from it (GRADSYNC_PROGRAM: another than build/release's), and a machine
that does nothing else.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import comparison_texts
import texts

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
PROGRAM = os.environ.get("GRADSYNC_PROGRAM", str(ROOT / "build" / "release" / "gradsync"))
# In a trial: where its timelines are, which are not published.
TIMELINES = ("timelines_at", "memory_timeline_at")


def output_of(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def without_timelines(trial):
    return {name: value for name, value in trial.items() if name not in TIMELINES}


def trials_in(folder):
    return [json.loads(line) for line in (folder / "trials.jsonl").read_text().splitlines()]


def keep_picture(path, folder):
    """In 64 colours, which a plot does not miss and which take a quarter of the bytes."""
    from PIL import Image  # matplotlib's own need

    Image.open(path).convert("RGB").quantize(64).save(folder / path.name, optimize=True)


def write_json(path, content):
    path.write_text(json.dumps(content, indent=1) + "\n")


@dataclass(frozen=True)
class Figure:
    command: tuple
    document: str  # from the tree's top
    text: object  # makes the document's lines


@dataclass(frozen=True)
class Run(Figure):
    """A run or search. `command` follows `gradsync`; `text` takes a texts.Run."""

    times: bool = True  # whether its times are printed; else what is printed is exact
    pictures: tuple = ()  # of its plots, which the document shows

    def measure(self, folder):
        with tempfile.TemporaryDirectory(prefix="gradsync_published_") as place:
            out = Path(place) / "run"
            subprocess.run([PROGRAM, *self.command, "--out", out], check=True, stdout=sys.stderr)
            result = json.loads((out / "result.json").read_text())
            result["context"]["command_line"] = ["gradsync", *self.command]
            write_json(folder / "result.json", result)
            if (out / "search.json").exists():
                shutil.copy(out / "search.json", folder)
            for name in self.pictures:
                keep_picture(out / "plots" / f"{name}.png", folder)
            lines = [json.dumps(without_timelines(trial)) + "\n" for trial in trials_in(out)]
            (folder / "trials.jsonl").write_text("".join(lines))

    def text_of(self, folder, program):
        page = output_of(program, "report", folder, "--format", "markdown")
        result = json.loads(output_of(program, "report", folder, "--format", "json"))
        searched = folder / "search.json"
        search = json.loads(searched.read_text()) if searched.exists() else None
        return self.text(texts.Run(self.command, page, result, search))


@dataclass(frozen=True)
class Comparison(Figure):
    """A script of benchmarks/peers that writes JSON. `command` is from the tree's top."""

    STARTED_BY = ()

    def measure(self, folder):
        version = output_of(PROGRAM, "--version")
        cpu = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text())
        context = {
            "cpu_model": cpu[1] if cpu else "unknown processor",
            "cpus": len(os.sched_getaffinity(0)),
            "torch": re.search(r"torch ([\w.]+)", version)[1],
            "start_time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "commit": re.search(r"\((\w+) ", version)[1],
        }
        seen = folder / "seen.json"
        command = [
            *self.STARTED_BY,
            ROOT / self.command[0],
            *self.command[1:],
            *self.options(seen),
        ]
        subprocess.run(command, check=True, stdout=sys.stderr)
        # Where the tree lies is this machine's affair.
        seen.write_text(seen.read_text().replace(f"{ROOT}/", ""))
        write_json(folder / "context.json", context)

    def options(self, seen):
        """Of the command, besides those that are printed: which program, and where JSON goes."""
        return "--program", PROGRAM, "--json", seen

    def text_of(self, folder, program):
        context = json.loads((folder / "context.json").read_text())
        seen = json.loads((folder / "seen.json").read_text())

        def page_of(watched):
            """Returns the page of a job that was watched."""
            with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
                json.dump(watched, file)
                file.flush()
                return output_of(program, "report", file.name)

        return self.text(context, self.command, seen, page_of)


@dataclass(frozen=True)
class Micro(Comparison):
    """A program of Google Benchmark. `command` is from the tree's top."""

    def options(self, seen):
        return f"--benchmark_out={seen}", "--benchmark_out_format=json"


@dataclass(frozen=True)
class Judged(Comparison):
    """A test that counts how much of what it judged was right. `command` is from the tree's top."""

    STARTED_BY = (sys.executable,)

    def options(self, seen):  # it finds the program as this does
        return "--tally", seen, "SlowTest"


@dataclass(frozen=True)
class Computed(Figure):
    """What gradsync computes without running anything. `command` follows `gradsync`."""

    def measure(self, folder):
        folder.rmdir()

    def text_of(self, _, program):
        return self.text(output_of(program, *self.command))


@dataclass(frozen=True)
class Stored:
    """What JSON files of this repository say that are made over days; `made` says how."""

    files: tuple
    document: str
    text: object
    made: str

    def measure(self, _):
        sys.exit(f"made by {self.made}; with --text only the text is written again")

    def text_of(self, _, __):
        return self.text(*(json.loads((ROOT / file).read_text()) for file in self.files))


def gate_folder(name):
    folder = f"results/gate/{name}"
    made = f"gradsync gate --selftest --out {folder}"
    return Stored((f"{folder}/error_rates.json",), f"{folder}/README.md", texts.gate_folder, made)


PEERS = "benchmarks/peers"
GATES = ("results/gate/quiet_drawn/error_rates.json", "results/gate/loaded/error_rates.json")
FIGURES = {
    "slowdown_table": Run(("run", "slowdown_table"), "README.md", texts.slowdown_table),
    "memory_sweep": Run(
        ("run", "memory_sweep"), "benchmarks/plans/memory.md", texts.memory_sweep, times=False
    ),
    "mixtral_8x7b": Run(
        ("run", "mixtral_8x7b"), "benchmarks/plans/memory.md", texts.mixtral_8x7b, times=False
    ),
    "search": Run(
        (
            *("search", "memory_sweep", "--set", "parts=shards"),
            *("--set", "reshard_after_forward=true", "--set", "accumulation_steps=1,4"),
            *("--topology", "1x2", "--model", "mixtral_tiny", "--smallest", "memory_budget_bytes"),
        ),
        "models/will_it_fit.md",
        texts.search,
        times=False,
    ),
    "predict_memory": Computed(
        (
            *("predict", "memory", "mixtral_mini", "--wrapper", "fsdp", "--world-size", "4"),
            *("--strategy", "no_sync,sync_each_batch", "--accumulation-steps", "1,2"),
            *("--micro-batch-size", "4", "--budget", "344MiB"),
        ),
        "models/will_it_fit.md",
        texts.predict_memory,
    ),
    "external": Computed(
        ("predict", "external"), "results/external/README.md", lambda printed: printed.strip()
    ),
    "road_to_ddp": Run(
        ("run", "road_to_ddp"),
        "benchmarks/plans/road_to_ddp.md",
        texts.road_to_ddp,
        pictures=("idle",),
    ),
    "peers_ddp": Comparison(
        (f"{PEERS}/compare", "--peer", "torch", "--rounds", "1", "--launches", "5"),
        f"{PEERS}/README.md",
        comparison_texts.peers,
    ),
    "peers_fsdp": Comparison(
        (
            *(f"{PEERS}/compare", "--wrapper", "fsdp", "--strategy", "no_sync"),
            *("--strategy", "sync_each_batch", "--rounds", "1", "--launches", "5"),
        ),
        f"{PEERS}/README.md",
        comparison_texts.peers,
    ),
    "recomputation": Comparison(
        (f"{PEERS}/recomputation", "--launches", "10"),
        f"{PEERS}/README.md",
        comparison_texts.recomputation,
    ),
    "watch_cost_start": Comparison(
        (f"{PEERS}/watch_cost", "start", "--launches", "8"),
        f"{PEERS}/README.md",
        comparison_texts.watch_cost_start,
    ),
    "watch_cost_step": Comparison(
        (f"{PEERS}/watch_cost", "step", "--rounds", "1", "--launches", "6"),
        f"{PEERS}/README.md",
        comparison_texts.watch_cost_step,
    ),
    "watch_cost_within": Comparison(
        (
            *(f"{PEERS}/watch_cost", "within", "--micro-batch-size", "1"),
            *("--sequence-length", "4", "--steps", "5", "--rounds", "10"),
        ),
        f"{PEERS}/README.md",
        comparison_texts.watch_cost_within,
    ),
    "watch_cost_within_fsdp": Comparison(
        (
            *(f"{PEERS}/watch_cost", "within", "--wrapper", "fsdp", "--micro-batch-size", "1"),
            *("--sequence-length", "4", "--steps", "5", "--rounds", "10", "--launches", "8"),
        ),
        f"{PEERS}/README.md",
        comparison_texts.watch_cost_within,
    ),
    "watch_cost_account": Comparison(
        (
            *(f"{PEERS}/watch_cost", "account", "--sample", "0.1", "--steps", "10"),
            *("--rounds", "4", "--launches", "4"),
        ),
        f"{PEERS}/README.md",
        comparison_texts.watch_cost_account,
    ),
    "micro_watch": Micro(
        ("build/release/bin/micro_watch", "--benchmark_repetitions=9"),
        f"{PEERS}/README.md",
        comparison_texts.micro_watch,
    ),
    "saving": Comparison(
        ("benchmarks/peers/saving",), "harness/watch/README.md", comparison_texts.saving
    ),
    **{
        f"saving_hybrid_{rate}": Comparison(
            (
                *("benchmarks/peers/saving", "--job", "hybrid", "--topology", f"2x2_{rate}"),
                *("--launches", "3", "--steps", "4"),
            ),
            "harness/watch/README.md",
            comparison_texts.saving_of_link,
        )
        for rate in ("100mbit", "200mbit", "400mbit")
    },
    "saving_chatter": Comparison(
        ("benchmarks/peers/saving", "--job", "chatter"),
        "harness/watch/README.md",
        comparison_texts.saving_of_link,
    ),
    **{
        f"saving_{job}": Comparison(
            ("benchmarks/peers/saving", "--job", job),
            "harness/watch/README.md",
            comparison_texts.saving_of_link,
        )
        for job in ("overlap", "buckets")
    },
    "watch_policies": Judged(
        ("tests/benchmarks/watch_policies_test.py", "--seeds", "1,2,3"),
        "harness/watch/README.md",
        comparison_texts.watch_policies,
    ),
    "judge": Judged(
        ("tests/benchmarks/judge_test.py",), "harness/watch/README.md", comparison_texts.judge
    ),
    "gate_quiet": gate_folder("quiet"),
    "gate_quiet_drawn": gate_folder("quiet_drawn"),
    "gate_loaded": gate_folder("loaded"),
    "gate_rates": Stored(
        GATES, "harness/gate/README.md", texts.gate_rates, "results/gate/README.md"
    ),
}


def text_of(name, program=PROGRAM):
    """Returns the text of a figure, made from its folder."""
    return FIGURES[name].text_of(HERE / name, program)


def place_of(name):
    """Returns the pattern of a figure's place in its document; group 2 is its text."""
    return re.compile(
        rf"(<!-- published: {name} -->\n\n)((?:(?!<!-- ).)*?)(\n\n<!-- end of published -->)",
        re.DOTALL,
    )


def write_text(name):
    document = ROOT / FIGURES[name].document
    text = text_of(name)
    new, places = place_of(name).subn(lambda m: m[1] + text + m[3], document.read_text())
    if places != 1:
        sys.exit(f"{document}: {places} places for figure {name}, expected 1")
    document.write_text(new)


def measure(name):
    in_tree = ("git", "-C", ROOT)
    if output_of(*in_tree, "status", "--porcelain", "--", ".", f":!{HERE.relative_to(ROOT)}"):
        sys.exit("the tree has changes: a figure is made from a clean commit")
    commit = output_of(*in_tree, "rev-parse", "--short=7", "HEAD").strip()
    if f"({commit} " not in output_of(PROGRAM, "--version"):
        sys.exit(f"{PROGRAM}: not built from commit {commit}")
    with tempfile.TemporaryDirectory(prefix="gradsync_published_") as place:
        made = Path(place) / name
        made.mkdir()
        FIGURES[name].measure(made)
        shutil.rmtree(HERE / name, ignore_errors=True)
        if made.exists():
            shutil.copytree(made, HERE / name)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("figure", nargs="*", metavar="FIGURE", help=", ".join(FIGURES))
    parser.add_argument("--text", action="store_true", help="measure nothing, write the text alone")
    options = parser.parse_args()
    unknown = set(options.figure) - set(FIGURES)
    if unknown:
        parser.error(f"FIGURE: got {', '.join(sorted(unknown))}, expected {', '.join(FIGURES)}")
    measured = [name for name, figure in FIGURES.items() if not isinstance(figure, Stored)]
    names = options.figure or (list(FIGURES) if options.text else measured)
    if not options.text:
        for name in names:
            measure(name)
    for name in names:
        write_text(name)


if __name__ == "__main__":
    main()
