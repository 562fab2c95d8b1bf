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

import dataclasses
import itertools
import json
import sys
from pathlib import Path

import launches
import summary
from fitness import EXPECTED, refuse_missing, report_error
from options import add_work, complete, make_parser, work_of
from wrappers import NO_PREFETCH, PEERS, REPLAY, WRAPPERS

NONE = {"count": 0, "bytes": 0}


def run_all(options, work):
    """Returns {side: [launch]}, in turns."""
    sides = ["ours", *options.peer]
    of_gradsync = {
        "ours": {},
        NO_PREFETCH: {"prefetch": [False]},
        REPLAY: {"model": [str(options.profile)]},
    }
    results = {side: [] for side in sides}
    for launch, side in launches.turns(options.launches, sides):
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


def parse(arguments):
    parser = make_parser(__doc__)
    add_work(parser)
    add = parser.add_argument
    add(
        "--peer",
        choices=PEERS,
        action="append",
        help="repeatable (default: both of Python or of fsdp)",
    )
    add("--profile", type=Path, metavar="FILE", help="of record_profile.py, for the peer replay")
    options = parser.parse_args(arguments)
    wrapper = WRAPPERS[options.wrapper]
    complete(
        parser,
        options,
        strategy=(wrapper.strategies, wrapper.strategies),
        peer=(wrapper.peers, (*wrapper.peers, *wrapper.more_peers)),
    )
    if (REPLAY in options.peer) != (options.profile is not None):
        parser.error("expected --peer replay and --profile together")
    if options.profile:
        options.profile = options.profile.resolve()
    return options


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
        refuse_missing(options.program, options.peer)
        report(options, work, run_all(options, work))
    except EXPECTED as error:
        return report_error("compare", error)
    return 0


if __name__ == "__main__":
    sys.exit(main())
