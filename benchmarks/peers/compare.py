"""Runs gradsync beside the same training in Python, and prints how their steps compare.

The peers are torch's DistributedDataParallel alone, and the same with Accelerate; both train
transformers' BERT of gradsync's sizes in the guide's four ways, on a link shaped like gradsync's,
one core and one thread per rank. Launches take turns, forth and back (ours, peers, peers, ours,
...), so that a machine that drifts drifts for all. All-reduces of a step must agree before times
count.

    benchmarks/peers/compare --topology 2x1_1gbit --launches 6 --json peers.json

Progress goes to stderr, a table per peer to stdout. README.md here says what is equal and what not.
Exit status: 0; 2 usage; 4 torch, transformers, accelerate, the program or network namespaces are
missing; 5 a launch failed, or the all-reduces differ.
"""

import argparse
import dataclasses
import json
import subprocess
import sys
from pathlib import Path

import launches
import network
import summary

ROOT = Path(__file__).resolve().parents[2]
STRATEGIES = ("baseline", "no_sync_improper", "no_sync", "accumulate")


class UnfitError(Exception):
    """Something that this needs is missing here."""


def refuse_missing(options):
    """Errors: UnfitError with the remedy."""
    for module in ("torch", "transformers", *options.peer):
        look = [sys.executable, "-c", f"import {module}"]
        if subprocess.run(look, capture_output=True).returncode != 0:
            raise UnfitError(
                f"{sys.executable} cannot import {module}: run harness/setup --oracles"
            )
    if subprocess.run([*launches.private_network(), "true"], capture_output=True).returncode != 0:
        raise UnfitError("network namespaces are forbidden here: gradsync doctor has the remedy")
    if not Path(options.program).exists():
        raise UnfitError(f"{options.program} is missing: run benchmarks/run smoke, which builds it")


def topology_file(name):
    shipped = ROOT / "benchmarks" / "topologies" / f"{name}.json"
    return str(shipped if shipped.exists() else Path(name).resolve())


def run_all(options, work):
    """Returns {side: [launch]}, in turns: forth in even launches, back in odd ones."""
    sides = ["ours", *options.peer]
    results = {side: [] for side in sides}
    for launch in range(options.launches):
        for side in sides if launch % 2 == 0 else reversed(sides):
            print(f"launch {launch + 1}/{options.launches} | {side}", file=sys.stderr)
            if side == "ours":
                result = launches.run_ours(work, options.program, launch)
            else:
                result = launches.run_peer(work, side, options.attention, launch)
            results[side].append(result)
            refuse_other_counts(results["ours"], results[side], side)
    return results


def refuse_other_counts(ours, theirs, side):
    """Errors: LaunchError where a peer's latest launch reduced more or less than ours did."""
    if not ours:
        return
    for strategy, counted in theirs[-1]["all_reduce"].items():
        expected = ours[0]["all_reduce"][strategy]
        for field in ("count", "bytes"):
            if counted[field] != expected[field]:
                raise launches.LaunchError(
                    f"{side}, {strategy}: all_reduce {field} per step: got {counted[field]}, "
                    f"expected ours, {expected[field]}"
                )


def at_least(least, most=10**6):
    def count(text):
        if not text.isdecimal() or not least <= int(text) <= most:
            raise argparse.ArgumentTypeError(f"got '{text}', expected {least} to {most}")
        return int(text)

    return count


def parse(arguments):
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("--topology", default="2x1_1gbit", help="a name or a file (default: %(default)s)")
    add("--model", choices=launches.BERT, default="bert_mini")
    add("--strategy", choices=STRATEGIES, action="append", help="repeatable (default: all four)")
    add("--peer", choices=launches.PEERS, action="append", help="repeatable (default: both)")
    add("--accumulation-steps", type=at_least(1), default=4)
    add("--micro-batch-size", type=at_least(1), default=16)
    add("--sequence-length", type=at_least(1, 512), default=64)
    add("--steps", type=at_least(1), default=6, help="per strategy, round and launch")
    add("--warmup-steps", type=at_least(0), default=2)
    add("--rounds", type=at_least(1), default=2)
    add("--launches", type=at_least(1, summary.MOST_LAUNCHES), default=4)
    add("--seed", type=at_least(0), default=42)
    add("--timeout-s", type=at_least(1), default=60, help="of a collective")
    add("--launch-timeout-s", type=at_least(1), default=1800)
    add(
        "--attention",
        choices=["eager", "sdpa"],
        default="eager",
        help="transformers' implementation; eager does the arithmetic ours does",
    )
    add("--program", default=str(ROOT / "build" / "release" / "gradsync"))
    add("--json", type=Path, metavar="FILE", help="writes every step of both sides there")
    options = parser.parse_args(arguments)
    options.strategy = tuple(options.strategy or STRATEGIES)
    options.peer = tuple(options.peer or launches.PEERS)
    return options


def work_of(options):
    fields = {field.name for field in dataclasses.fields(launches.Work)}
    given = {key: value for key, value in vars(options).items() if key in fields}
    given["topology"] = topology_file(options.topology)
    network.read_topology(given["topology"])
    return launches.Work(**given, strategies=options.strategy)


def report(options, work, results):
    blocks = {side: [launch["blocks"] for launch in results[side]] for side in results}
    rows = {
        peer: summary.compare(blocks["ours"], blocks[peer], work.strategies)
        for peer in options.peer
    }
    print(
        f"{work.model} on {options.topology}, {work.accumulation_steps} micro-batches of "
        f"{work.micro_batch_size} x {work.sequence_length}: slowest rank's step, 95 % intervals "
        f"by Student's t over {options.launches} launches of each"
    )
    for peer in options.peer:
        print("\n" + summary.table(rows[peer], peer))
    if options.json:
        content = {
            "schema": "gradsync.peers/1",
            "work": dataclasses.asdict(work),
            "attention": options.attention,
            "launches": results,
            "rows": {peer: [dataclasses.asdict(row) for row in rows[peer]] for peer in rows},
        }
        options.json.write_text(json.dumps(content, indent=1) + "\n")


def main(arguments=None):
    options = parse(arguments)
    try:
        work = work_of(options)
        refuse_missing(options)
        report(options, work, run_all(options, work))
    except (network.TopologyError, UnfitError, launches.LaunchError) as error:
        print(f"compare: {error}", file=sys.stderr)
        return {network.TopologyError: 2, UnfitError: 4, launches.LaunchError: 5}[type(error)]
    return 0


if __name__ == "__main__":
    sys.exit(main())
