"""What `gradsync watch` costs: the steps of a job, or its start, watched beside the same unwatched.

    results/evidence/make.py peers watch_cost step --launches 8 --steps 20 --json cost.json
    results/evidence/make.py peers watch_cost step --job gradsync --strategy baseline
    results/evidence/make.py peers watch_cost within --launches 4 --steps 5 --rounds 10
    results/evidence/make.py peers watch_cost account --launches 4 --steps 20 --every 10 --sample 1
    results/evidence/make.py peers watch_cost seconds --launches 4 --steps 5 --rounds 10
    results/evidence/make.py peers watch_cost looks --launches 8 --steps 20
    results/evidence/make.py peers watch_cost start --launches 8

step    trains BERT-mini on two ranks of one node in Python, with torch's DistributedDataParallel
        (--job torch), or in C++ (--job gradsync), and compares the slowest rank's steps. Who runs
        first takes turns: alone, watched, watched, alone, ...
within  trains the Python job and has every other block of steps watched from within the process, by
        gradsync.watching(), so that each launch is compared with itself. Short blocks in many
        rounds (--steps 5 --rounds 10) lose less to a machine that drifts. The milliseconds are of
        what torch runs and not of the numbers in it: on little tensors they are not lost in the
        noise of long steps (--micro-batch-size 1 --sequence-length 4).
account has every block watched from within, and every other one ask for an account of --every N
        steps, the first two, and --sample SHARE of the parameters; else like within. Of the
        timed steps as many are accounted as of a long job's: their number is a multiple of N.
seconds has every other block stand in a profile as that of `gradsync watch --seconds`; else like
        within. Without a GPU that is what the profiler costs the host.
looks   trains the Python job watched, and adds up what each rank says that its looks at parameters
        took (bit hashes, and who owns them): a share of the job's steps, of the dearest rank.
start   runs a Python job of one step and compares how long it takes in all. The first watched one
        builds the library, into a cache of its own, and is told apart.

Ratios and differences are means over launches with Student's t at 95 %, as in README.md here.
Progress goes to stderr, a table to stdout. Exit status: 0; 2 usage; 4 something is missing here; 5
a launch failed, or was not watched.
"""

import dataclasses
import functools
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import launches
import summary
from fitness import EXPECTED, refuse_missing, report_error
from options import add_launches, add_work, at_least, complete, make_parser, work_of
from wrappers import WRAPPERS

ONE_STEP = Path(__file__).resolve().with_name("one_step.py")
SIDES = ("alone", "watched")
JOBS = ("torch", "gradsync")


def watch_command(options, file):
    python = sys.executable
    return [options.program, "watch", "--quiet", "--python", python, "--json", file, "--"]


def refuse_unwatched(file, ranks):
    """Errors: LaunchError where the watcher did not see the collectives of so many ranks."""
    watched = json.loads(file.read_text()) if file.exists() else {"ranks": []}
    seen = sum(bool(rank["collectives"]) for rank in watched["ranks"])
    if seen != ranks:
        raise launches.LaunchError(f"the watcher saw collectives of {seen} ranks, expected {ranks}")


# ---- steps -----------------------------------------------------------------------------------


def run_job(options, work, launch, watch):
    if options.job == "gradsync":
        return launches.run_ours(work, options.program, launch, {}, watch)
    return launches.run_peer(work, options.job, options.attention, launch, watch)


def run_watched(options, work, run):
    """Returns the launch that run(watch) makes.   Errors: LaunchError where it was not watched."""
    with tempfile.TemporaryDirectory(prefix="gradsync_watch_") as folder:
        file = Path(folder) / "watch.json"
        launch = run(watch_command(options, file))
        refuse_unwatched(file, launches.world_size(work))
    return launch


def measure_steps(options, work):
    """Returns {side: [launch]}."""
    results = {side: [] for side in SIDES}
    for launch, side in launches.turns(options.launches, SIDES):
        run = functools.partial(run_job, options, work, launch)
        results[side].append(run_watched(options, work, run) if side == "watched" else run(()))
    return results


@dataclasses.dataclass(frozen=True)
class StepRow:
    strategy: str
    alone_s: float  # seconds per step
    watched_s: float
    ratio: summary.Estimate  # watched / alone
    added_ms: summary.Estimate  # watched - alone


def step_row(results, strategy):
    alone, watched = (
        [summary.mean_step_s(launch["blocks"], strategy) for launch in results[side]]
        for side in SIDES
    )
    ratio = summary.ratio_of_pairs(watched, alone)
    added_ms = summary.difference_of_pairs(*([1e3 * s for s in side] for side in (watched, alone)))
    return StepRow(strategy, summary.fmean(alone), summary.fmean(watched), ratio, added_ms)


def print_rows(rows, options, work, job, sides):
    print(
        f"{work.model} under {work.wrapper} on {options.topology} ({job}), "
        f"{work.accumulation_steps} micro-batches of {work.micro_batch_size} x "
        f"{work.sequence_length}: slowest rank's step, 95 % intervals by Student's t over "
        f"{options.launches} launches of each\n"
    )
    without, with_it = sides
    heads = ["strategy", *(f"{side} s/step" for side in sides)]
    heads += [f"{with_it} / {without}", f"{with_it} - {without}, ms"]
    cells = [
        [
            row.strategy,
            f"{row.alone_s:.4f}",
            f"{row.watched_s:.4f}",
            str(row.ratio),
            str(row.added_ms),
        ]
        for row in rows
    ]
    print(summary.markdown([heads, *cells]))


def report_steps(options):
    work = work_of(options)
    refuse_missing(options.program, [options.job])
    results = measure_steps(options, work)
    rows = [step_row(results, strategy) for strategy in work.strategies]
    print_rows(rows, options, work, options.job, SIDES)
    return {
        "work": dataclasses.asdict(work),
        "job": options.job,
        "launches": results,
        "rows": [dataclasses.asdict(row) for row in rows],
    }


# ---- within a launch ---------------------------------------------------------------------------


def measure_within(options, work, recording="within", **more):
    """Returns [launch], each with blocks that were recorded and blocks that were not; one that was
    not seen fails by itself.
    """
    return [
        launches.run_peer(
            work,
            "torch",
            options.attention,
            launch,
            recording=recording,
            program=Path(options.program).resolve(),
            **more,
        )
        for launch, _ in launches.turns(options.launches, (recording,))
    ]


def measure_account(options, work):
    return measure_within(options, work, "account", every=options.every, sample=options.sample)


def measure_seconds(options, work):
    return measure_within(options, work, "profiled")


def sides_of(results):
    """Returns what step_row takes, of [launch] from measure_within."""
    return {
        side: [
            {"blocks": [block for block in launch["blocks"] if block["recorded"] == recorded]}
            for launch in results
        ]
        for side, recorded in zip(SIDES, (False, True), strict=True)
    }


def report_blocks(measure, options):
    work = work_of(options)
    refuse_missing(options.program, ["torch"])
    results = measure(options, work)
    sides = sides_of(results)
    rows = [step_row(sides, strategy) for strategy in work.strategies]
    print_rows(rows, options, work, "torch", ("off", "on"))
    return {
        "work": dataclasses.asdict(work),
        "launches": results,
        "rows": [
            {
                "strategy": row.strategy,
                "off_s": row.alone_s,
                "on_s": row.watched_s,
                "ratio": dataclasses.asdict(row.ratio),
                "added_ms": dataclasses.asdict(row.added_ms),
            }
            for row in rows
        ],
    }


# ---- looks -----------------------------------------------------------------------------------


def looks_s(folder):
    """Returns what the looks took of the rank on which they took longest, and how many it took."""
    took = []
    for file in folder.glob("hook-*.jsonl"):
        lines = [json.loads(line) for line in file.read_text().splitlines()]
        took.append([line["took_s"] for line in lines if line["kind"] == "hashes"])
    if not any(took):
        raise launches.LaunchError("no rank looked at its parameters")
    return max((sum(looks), len(looks)) for looks in took)


def measure_looks(options, work, strategy):
    """Returns {"share": [of a launch], "looks": how many a rank took}."""
    shares, count = [], 0
    one = dataclasses.replace(work, strategies=(strategy,))
    for launch, _ in launches.turns(options.launches, ("watched",)):
        with tempfile.TemporaryDirectory(prefix="gradsync_watch_") as folder:
            kept = Path(folder) / "kept"
            watch = watch_command(options, Path(folder) / "watch.json")
            watch[-1:-1] = ["--keep", kept]
            blocks = launches.run_peer(one, "torch", options.attention, launch, watch)["blocks"]
            took_s, count = looks_s(kept)
        steps = work.warmup_steps + sum(len(block["step_s"]) for block in blocks)
        shares.append(took_s / (steps * summary.mean_step_s(blocks, strategy)))
    return {"share": shares, "looks": count}


def report_looks(options):
    work = work_of(options)
    refuse_missing(options.program, ["torch"])
    results = {each: measure_looks(options, work, each) for each in work.strategies}
    print(
        f"{work.model} under {work.wrapper} on {options.topology}: what looks at parameters take "
        f"of a step, in %, 95 % intervals by Student's t over {options.launches} launches\n"
    )
    cells = [["strategy", "looks", "% of a step"]]
    for strategy, found in results.items():
        percent = summary.mean_of([100 * share for share in found["share"]])
        cells.append([strategy, str(found["looks"]), str(percent)])
    print(summary.markdown(cells))
    return {"work": dataclasses.asdict(work), "launches": results}


# ---- start -----------------------------------------------------------------------------------


def run_one_step(options, watch, environment):
    """Returns its seconds, from its start to its end."""
    begun = time.monotonic()
    done = subprocess.run(
        [*watch, sys.executable, ONE_STEP],
        env=os.environ | environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=options.launch_timeout_s,
    )
    seconds = time.monotonic() - begun
    if done.returncode != 0:
        last = (done.stderr.strip().splitlines() or ["it printed nothing"])[-1]
        raise launches.LaunchError(f"one_step.py ended with status {done.returncode}: {last}")
    return seconds


def measure_starts(options):
    """Returns {"first_s": seconds of the first watched one, side: [seconds]}."""
    with tempfile.TemporaryDirectory(prefix="gradsync_watch_") as folder:
        environment = {"XDG_CACHE_HOME": folder}
        file = Path(folder) / "watch.json"
        watch = watch_command(options, file)
        print("the first one, which builds the library", file=sys.stderr)
        run_one_step(options, (), environment)  # reads what both read
        results = {"first_s": run_one_step(options, watch, environment)}
        results |= {side: [] for side in SIDES}
        for _, side in launches.turns(options.launches, SIDES):
            file.unlink(missing_ok=True)
            given = watch if side == "watched" else ()
            results[side].append(run_one_step(options, given, environment))
            if given:
                refuse_unwatched(file, ranks=1)
    return results


def report_starts(options):
    refuse_missing(options.program, ["torch"])
    results = measure_starts(options)
    means = {side: summary.mean_of(results[side]) for side in SIDES}
    added = summary.difference_of_pairs(results["watched"], results["alone"])
    print(
        "A Python job of one step, seconds from its start to its end, 95 % intervals by Student's "
        f"t over {options.launches} launches of each\n"
    )
    cells = [["", "s"], *([side, str(means[side])] for side in SIDES)]
    cells += [
        ["watched - alone", str(added)],
        ["first, with the build", f"{results['first_s']:.3f}"],
    ]
    print(summary.markdown(cells))
    return {"launches": results, "added_s": dataclasses.asdict(added)}


def refuse_what_accounts_too_few(parser, options):
    if options.steps % options.every != 0:
        parser.error(f"--steps: got {options.steps}, expected a multiple of {options.every}")
    if not 0 < options.sample <= 1:
        parser.error(f"--sample: got {options.sample:g}, expected above 0 and at most 1")


def parse(arguments):
    parser = make_parser(__doc__)
    kinds = parser.add_subparsers(dest="kind", required=True)
    step = kinds.add_parser("step", allow_abbrev=False, help="what a step costs more")
    step.add_argument("--job", choices=JOBS, default=JOBS[0], help="default: %(default)s")
    add_work(step, topology="1x2")
    within = kinds.add_parser(
        "within", allow_abbrev=False, help="what watching from within costs a step"
    )
    add_work(within, topology="1x2")
    account = kinds.add_parser(
        "account", allow_abbrev=False, help="what an account costs a step that is watched"
    )
    account.add_argument("--every", type=at_least(2), default=10, help="default: %(default)s")
    account.add_argument("--sample", type=float, default=1.0, help="default: %(default)s")
    add_work(account, topology="1x2", steps=20)
    seconds = kinds.add_parser(
        "seconds", allow_abbrev=False, help="what the profiler of --seconds costs a step"
    )
    add_work(seconds, topology="1x2")
    looks = kinds.add_parser(
        "looks", allow_abbrev=False, help="what looking at parameters costs a step"
    )
    add_work(looks, topology="1x2", steps=20)
    start = kinds.add_parser("start", allow_abbrev=False, help="what start and end cost more")
    add_launches(start)
    options = parser.parse_args(arguments)
    if options.kind != "start":
        known = WRAPPERS[options.wrapper].strategies
        complete(kinds.choices[options.kind], options, strategy=(("baseline", "no_sync"), known))
    if options.kind == "account":
        refuse_what_accounts_too_few(account, options)
    return options


REPORTS = {
    "step": report_steps,
    "within": functools.partial(report_blocks, measure_within),
    "account": functools.partial(report_blocks, measure_account),
    "seconds": functools.partial(report_blocks, measure_seconds),
    "looks": report_looks,
    "start": report_starts,
}


def main(*arguments):
    options = parse(arguments)
    try:
        content = REPORTS[options.kind](options)
    except EXPECTED as error:
        return report_error("watch_cost", error)
    if options.json:
        content = {"schema": f"gradsync.watch_cost.{options.kind}/1"} | content
        options.json.write_text(json.dumps(content, indent=1) + "\n")
    return 0
