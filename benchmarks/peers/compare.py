"""Runs gradsync beside the same training in Python, and prints how their steps compare.

The peers train transformers' BERT of gradsync's sizes in the guide's ways, on a link shaped like
gradsync's, one core and one thread per rank: under ddp, torch's DistributedDataParallel alone and
the same with Accelerate; under fsdp, torch's fully_shard, and gradsync itself without prefetch. The
peer replay is gradsync again, with a recorded profile in the model's place.
Launches take turns, forth and back (ours, peers, peers, ours, ...), so that a machine that drifts
drifts for all. Collectives of a step must agree before times count.

    benchmarks/peers/compare --topology 2x1_1gbit --launches 6 --json peers.json
    benchmarks/peers/compare --wrapper fsdp --strategy no_sync --strategy sync_each_batch
    benchmarks/peers/compare --peer replay --profile bert_mini.json --topology 2x1_200mbit

Progress goes to stderr, a table per peer to stdout. README.md here says what is equal and what not.
Exit status: 0; 2 usage; 4 torch, transformers, accelerate, the program or network namespaces are
missing; 5 a launch failed, or the collectives differ.
"""

import argparse
import dataclasses
import itertools
import json
import subprocess
import sys
from pathlib import Path

import launches
import network
import summary
from wrappers import MODULES, NO_PREFETCH, PEERS, REPLAY, STRATEGIES, WRAPPERS

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = str(ROOT / "build" / "release" / "gradsync")
NONE = {"count": 0, "bytes": 0}


class UnfitError(Exception):
    """Something that this needs is missing here."""


def refuse_missing(options):
    """Errors: UnfitError with the remedy."""
    modules = itertools.chain.from_iterable(MODULES.get(peer, ()) for peer in options.peer)
    for module in dict.fromkeys(modules):
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
    of_gradsync = {
        "ours": {},
        NO_PREFETCH: {"prefetch": [False]},
        REPLAY: {"model": [str(options.profile)]},
    }
    results = {side: [] for side in sides}
    for launch in range(options.launches):
        for side in sides if launch % 2 == 0 else reversed(sides):
            print(f"launch {launch + 1}/{options.launches} | {side}", file=sys.stderr)
            if side in of_gradsync:
                result = launches.run_ours(work, options.program, launch, of_gradsync[side])
            else:
                result = launches.run_peer(work, side, options.attention, launch)
            results[side].append(result)
            refuse_other_counts(results["ours"], results[side], side, WRAPPERS[work.wrapper])
    return results


def refuse_other_counts(ours, theirs, side, wrapper):
    """Errors: LaunchError where a peer's latest launch communicated more or less than ours did."""
    if not ours:
        return
    for strategy, operation in itertools.product(theirs[-1]["collectives"], wrapper.operations):
        got = theirs[-1]["collectives"][strategy].get(operation, NONE)
        expected = ours[0]["collectives"][strategy].get(operation, NONE)
        allowed = {"count": 0, "bytes": wrapper.padding * expected["bytes"]}
        for field in ("count", "bytes"):
            if abs(got[field] - expected[field]) > allowed[field]:
                raise launches.LaunchError(
                    f"{side}, {strategy}: {operation} {field} per step: got {got[field]}, "
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
    add("--wrapper", choices=WRAPPERS, default="ddp", help="default: %(default)s")
    add(
        "--reshard-after-forward",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="fsdp: free parameters between forward and backward (default), or keep them",
    )
    add("--strategy", choices=STRATEGIES, action="append", help="repeatable (default: all)")
    add(
        "--peer",
        choices=PEERS,
        action="append",
        help="repeatable (default: both of Python or of fsdp)",
    )
    add("--profile", type=Path, metavar="FILE", help="of record_profile.py, for the peer replay")
    add("--accumulation-steps", type=at_least(1), default=4)
    add("--micro-batch-size", type=at_least(1), default=16)
    add("--sequence-length", type=at_least(1, 512), default=64)
    add("--steps", type=at_least(1), default=6, help="per strategy, round and launch")
    add("--warmup-steps", type=at_least(1), default=2)
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
    add("--program", default=PROGRAM)
    add("--json", type=Path, metavar="FILE", help="writes every step of both sides there")
    options = parser.parse_args(arguments)
    wrapper = WRAPPERS[options.wrapper]
    options.strategy = tuple(options.strategy or wrapper.strategies)
    options.peer = tuple(options.peer or wrapper.peers)
    peers = (*wrapper.peers, *wrapper.more_peers)
    for got, known in ((options.strategy, wrapper.strategies), (options.peer, peers)):
        for name in got:
            if name not in known:
                parser.error(f"{options.wrapper}: got '{name}', expected {', '.join(known)}")
    if (REPLAY in options.peer) != (options.profile is not None):
        parser.error("expected --peer replay and --profile together")
    if options.profile:
        options.profile = options.profile.resolve()
    return options


def work_of(options):
    fields = {field.name for field in dataclasses.fields(launches.Work)}
    given = {key: value for key, value in vars(options).items() if key in fields}
    given["topology"] = topology_file(options.topology)
    network.read_topology(given["topology"])
    return launches.Work(**given, strategies=options.strategy)


def name_wrapper(work):
    if work.wrapper == "fsdp" and not work.reshard_after_forward:
        return "fsdp that keeps parameters after forward"
    return work.wrapper


def report(options, work, results):
    blocks = {side: [launch["blocks"] for launch in results[side]] for side in results}
    rows = {
        peer: summary.compare(blocks["ours"], blocks[peer], work.strategies)
        for peer in options.peer
    }
    print(
        f"{work.model} under {name_wrapper(work)} on {options.topology}, "
        f"{work.accumulation_steps} micro-batches of {work.micro_batch_size} x "
        f"{work.sequence_length}: slowest rank's step, 95 % intervals by Student's t over "
        f"{options.launches} launches of each"
    )
    for peer in options.peer:
        print("\n" + summary.table(rows[peer], peer))
    if options.json:
        content = {
            "schema": "gradsync.peers/2",
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
