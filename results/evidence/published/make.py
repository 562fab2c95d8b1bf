"""Makes the figures that the documents print: measures them, keeps their data, writes the text.

    results/evidence/make.py published measure [FIGURE]...

A figure is a stretch of a document between a line "<!-- published: FIGURE -->" and "<!-- end of
published -->", written (texts.py) from data that a command made. The data is packed in a folder of
results/published: of a run or search its raw steps (trials.jsonl without timelines) and what was
made of them; of a comparison its JSON. What gradsync computes is computed again, and the gate's
rates are in results/gate. Without FIGURE all that can be measured are, one after the other.
Measuring needs a clean commit, a program built from it (GRADSYNC_PROGRAM: another than
build/release's), and a machine that does nothing else.
"""

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

import stored
from published import comparison_texts, texts

ROOT = Path(__file__).resolve().parents[3]
DATA = ROOT / "results" / "published"
PROGRAM = os.environ.get("GRADSYNC_PROGRAM", str(ROOT / "build" / "release" / "gradsync"))
# In a trial: where its timelines are, which are not published.
TIMELINES = ("timelines_at", "memory_timeline_at")


def output_of(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def without_timelines(trial):
    return {name: value for name, value in trial.items() if name not in TIMELINES}


def trials_in(folder):
    lines = stored.read_bytes(folder / "trials.jsonl").splitlines()
    return [json.loads(line) for line in lines]


def keep_picture(path, folder):
    """In 64 colours, which a plot does not miss and which take a quarter of the bytes."""
    from PIL import Image  # matplotlib's own need

    Image.open(path).convert("RGB").quantize(64).save(folder / path.name, optimize=True)


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
            stored.write(folder / "result.json", result)
            if (out / "search.json").exists():
                stored.pack(folder / "search.json", (out / "search.json").read_bytes())
            for name in self.pictures:
                keep_picture(out / "plots" / f"{name}.png", folder)
            lines = [json.dumps(without_timelines(trial)) + "\n" for trial in trials_in(out)]
            stored.pack(folder / "trials.jsonl", "".join(lines).encode())

    def text_of(self, folder, program):
        with tempfile.TemporaryDirectory(prefix="gradsync_published_") as place:
            run = stored.unpack(folder, Path(place))
            page = output_of(program, "report", run, "--format", "markdown")
            result = json.loads(output_of(program, "report", run, "--format", "json"))
        searched = folder / "search.json"
        search = stored.read(searched) if stored.exists(searched) else None
        return self.text(texts.Run(self.command, page, result, search))


@dataclass(frozen=True)
class Comparison(Figure):
    """A script that writes JSON: of the peers, or beside them. `command` is from the tree's top."""

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
        started_by = [sys.executable] if self.command[0].endswith(".py") else []
        command = [*started_by, ROOT / self.command[0], *self.command[1:], *self.options(seen)]
        subprocess.run(command, check=True, stdout=sys.stderr)
        # Where the tree lies is this machine's affair.
        stored.pack(seen, seen.read_bytes().replace(f"{ROOT}/".encode(), b""))
        seen.unlink()
        (folder / "context.json").write_text(json.dumps(context, indent=1) + "\n")

    def options(self, seen):
        """Returns the options that are not printed: which program, and where JSON goes."""
        return "--program", PROGRAM, "--json", seen

    def text_of(self, folder, program):
        context = json.loads((folder / "context.json").read_text())
        seen = stored.read(folder / "seen.json")

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
    """Figures from JSON files of this repository that are made over days; `made` says how."""

    files: tuple
    document: str
    text: object
    made: str

    def measure(self, _):
        sys.exit(f"made by {self.made}; what is written from its data is its text alone")

    def text_of(self, _, __):
        return self.text(*(stored.read(ROOT / file) for file in self.files))


def gate_folder(name):
    folder = f"results/gate/{name}"
    made = f"gradsync gate selftest --out {folder}"
    return Stored((f"{folder}/error_rates.json",), f"{folder}/README.md", texts.gate_folder, made)


COMPARE, HERE = "benchmarks/peers/compare", "results/evidence/peers"
OF_PEERS = ("results/evidence/make.py", "peers")
GATES = (
    "results/gate/quiet_drawn/error_rates.json",
    "results/gate/loaded/error_rates.json",
    "results/evidence/gate_habits/rates.json",
)
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
    "road_to_ddp": Run(
        ("run", "road_to_ddp"),
        "benchmarks/plans/road_to_ddp.md",
        texts.road_to_ddp,
        pictures=("idle",),
    ),
    "peers_ddp": Comparison(
        (COMPARE, "--peer", "torch", "--rounds", "1", "--launches", "5"),
        f"{HERE}/README.md",
        comparison_texts.peers,
    ),
    "peers_fsdp": Comparison(
        (
            *(COMPARE, "--wrapper", "fsdp", "--strategy", "no_sync"),
            *("--strategy", "sync_each_batch", "--rounds", "1", "--launches", "5"),
        ),
        f"{HERE}/README.md",
        comparison_texts.peers,
    ),
    "recomputation": Comparison(
        (*OF_PEERS, "recomputation", "--launches", "10"),
        f"{HERE}/README.md",
        comparison_texts.recomputation,
    ),
    "watch_cost_start": Comparison(
        (*OF_PEERS, "watch_cost", "start", "--launches", "8"),
        f"{HERE}/README.md",
        comparison_texts.watch_cost_start,
    ),
    "watch_cost_step": Comparison(
        (*OF_PEERS, "watch_cost", "step", "--rounds", "1", "--launches", "6"),
        f"{HERE}/README.md",
        comparison_texts.watch_cost_step,
    ),
    "watch_cost_within": Comparison(
        (
            *(*OF_PEERS, "watch_cost", "within", "--micro-batch-size", "1"),
            *("--sequence-length", "4", "--steps", "5", "--rounds", "10"),
        ),
        f"{HERE}/README.md",
        comparison_texts.watch_cost_within,
    ),
    "watch_cost_within_fsdp": Comparison(
        (
            *(*OF_PEERS, "watch_cost", "within", "--wrapper", "fsdp", "--micro-batch-size", "1"),
            *("--sequence-length", "4", "--steps", "5", "--rounds", "10", "--launches", "8"),
        ),
        f"{HERE}/README.md",
        comparison_texts.watch_cost_within,
    ),
    "watch_cost_account": Comparison(
        (
            *(*OF_PEERS, "watch_cost", "account", "--sample", "0.1", "--steps", "10"),
            *("--rounds", "4", "--launches", "4"),
        ),
        f"{HERE}/README.md",
        comparison_texts.watch_cost_account,
    ),
    "watch_cost_seconds": Comparison(
        (
            *(*OF_PEERS, "watch_cost", "seconds", "--micro-batch-size", "1"),
            *("--sequence-length", "4", "--steps", "5", "--rounds", "10", "--launches", "8"),
        ),
        f"{HERE}/README.md",
        comparison_texts.watch_cost_seconds,
    ),
    "micro_watch": Micro(
        ("build/release/bin/micro_watch", "--benchmark_repetitions=9"),
        f"{HERE}/README.md",
        comparison_texts.micro_watch,
    ),
    "saving": Comparison(
        (
            *OF_PEERS,
            "saving",
        ),
        f"{HERE}/README.md",
        comparison_texts.saving,
    ),
    **{
        f"saving_hybrid_{rate}": Comparison(
            (
                *(*OF_PEERS, "saving", "--job", "hybrid", "--topology", f"2x2_{rate}"),
                *("--launches", "3", "--steps", "4"),
            ),
            f"{HERE}/README.md",
            comparison_texts.saving_of_link,
        )
        for rate in ("100mbit", "200mbit", "400mbit")
    },
    "saving_chatter": Comparison(
        (*OF_PEERS, "saving", "--job", "chatter"),
        f"{HERE}/README.md",
        comparison_texts.saving_of_link,
    ),
    **{
        f"saving_{job}": Comparison(
            (*OF_PEERS, "saving", "--job", job),
            f"{HERE}/README.md",
            comparison_texts.saving_of_link,
        )
        for job in ("overlap", "buckets")
    },
    "watch_policies": Judged(
        ("tests/benchmarks/watch_policies_test.py", "--seeds", "1,2,3"),
        "results/evidence/verdicts.md",
        comparison_texts.watch_policies,
    ),
    "judge": Judged(
        ("tests/benchmarks/judge_test.py",), "results/evidence/verdicts.md", comparison_texts.judge
    ),
    "gate_quiet": gate_folder("quiet"),
    "gate_quiet_drawn": gate_folder("quiet_drawn"),
    "gate_loaded": gate_folder("loaded"),
    "gate_rates": Stored(
        GATES,
        "results/gate/README.md",
        texts.gate_rates,
        "gradsync gate selftest, as that page says",
    ),
}


def text_of(name, program=PROGRAM):
    """Returns the text of a figure, made from its folder."""
    return FIGURES[name].text_of(DATA / name, program)


def place_of(name):
    """Returns the pattern of a figure's place in its document; group 2 is its text."""
    return re.compile(
        rf"(<!-- published: {name} -->\n\n)((?:(?!<!-- ).)*?)(\n\n<!-- end of published -->)",
        re.DOTALL,
    )


def pages():
    """Returns the text of each document with figures, by its path."""
    found = {}
    for name, figure in FIGURES.items():
        document = ROOT / figure.document
        text, old = text_of(name), found.get(document) or document.read_text()
        found[document], places = place_of(name).subn(lambda m, text=text: m[1] + text + m[3], old)
        if places != 1:
            sys.exit(f"{document}: {places} places for figure {name}, expected 1")
    return found


def measure(name):
    in_tree = ("git", "-C", ROOT)
    if output_of(*in_tree, "status", "--porcelain", "--", ".", ":!results/published"):
        sys.exit("the tree has changes: a figure is made from a clean commit")
    commit = output_of(*in_tree, "rev-parse", "--short=7", "HEAD").strip()
    if f"({commit} " not in output_of(PROGRAM, "--version"):
        sys.exit(f"{PROGRAM}: not built from commit {commit}")
    with tempfile.TemporaryDirectory(prefix="gradsync_published_") as place:
        made = Path(place) / name
        made.mkdir()
        FIGURES[name].measure(made)
        shutil.rmtree(DATA / name, ignore_errors=True)
        if made.exists():
            shutil.copytree(made, DATA / name)


def measure_all(*names):
    measured = [name for name, figure in FIGURES.items() if not isinstance(figure, Stored)]
    for name in names or measured:
        measure(name)


STEPS = {"measure": measure_all}
