"""What activation checkpointing costs: the seconds of a step in which units run again, in C++
beside torch's own `torch.utils.checkpoint` in the same training in Python.

    results/evidence/make.py peers recomputation --launches 8 --json recomputation.json
    results/evidence/make.py peers recomputation --wrapper fsdp

Both train transformers' BERT of the same sizes with every layer checkpointed, on one core and one
thread per rank. Ours is what the phase "recompute" lasts, torch's what its contexts enclose of the
second runs: both end with the last tensor that backward needs. A launch counts the mean over its
ranks and steps; launches take turns, forth and back (ours, torch, torch, ours, ...). Collectives of
a step must agree before times count.

Progress goes to stderr, a table to stdout. Exit status: 0; 2 usage; 4 something is missing here; 5
a launch failed, or the collectives differ.
"""

import dataclasses
import json
from statistics import fmean

import compare
import launches
import summary
from fitness import EXPECTED, refuse_missing, report_error
from options import add_work, complete, make_parser, work_of
from wrappers import WRAPPERS

SIDES = ("ours", "torch")


def parse(arguments):
    parser = make_parser(__doc__)
    add_work(parser, topology="1x2", rounds=1)
    options = parser.parse_args(arguments)
    complete(parser, options, strategy=(("no_sync",), WRAPPERS[options.wrapper].strategies))
    return options


def run_all(options, work):
    """Returns {side: [launch]}, in turns."""
    results = {side: [] for side in SIDES}
    for launch, side in launches.turns(options.launches, SIDES):
        if side == "ours":
            cells = {"activation_checkpointing": ["full"], "attention": [options.attention]}
            result = launches.run_ours(work, options.program, launch, cells)
        else:
            result = launches.run_peer(work, side, options.attention, launch, checkpointing=True)
        results[side].append(result)
        compare.refuse_other_counts(results["ours"], results[side], side, WRAPPERS[work.wrapper])
    return results


def mean_recompute_s(blocks, strategy):
    """Returns the seconds of a step in which units run again: the mean over ranks and steps."""
    ranks = [b["rank_recompute_s"] for b in blocks if b["strategy"] == strategy]
    return fmean(seconds for block in ranks for rank in block for seconds in rank)


@dataclasses.dataclass(frozen=True)
class Row:
    strategy: str
    what: str
    ours_s: float  # seconds per step
    torch_s: float
    ratio: summary.Estimate  # ours / torch


def rows_of(results, strategies):
    """Returns two rows per strategy: of what runs again, and of the step it is part of."""
    rows = []
    for strategy in strategies:
        for what, mean in (
            ("running again", mean_recompute_s),
            ("the step", summary.mean_step_s),
        ):
            ours, torch = (
                [mean(launch["blocks"], strategy) for launch in results[side]] for side in SIDES
            )
            ratio = summary.ratio_of_pairs(ours, torch)
            rows.append(Row(strategy, what, fmean(ours), fmean(torch), ratio))
    return rows


def table(rows):
    cells = [["strategy", "of it", "ours, s", "torch, s", "ours / torch"]]
    cells += [
        [row.strategy, row.what, f"{row.ours_s:.4f}", f"{row.torch_s:.4f}", str(row.ratio)]
        for row in rows
    ]
    return summary.markdown(cells, left=2)


def report(options, work, results):
    rows = rows_of(results, work.strategies)
    print(
        f"{work.model} with every layer checkpointed, under {work.wrapper} on {options.topology}, "
        f"{work.accumulation_steps} micro-batches of {work.micro_batch_size} x "
        f"{work.sequence_length}: a step, 95 % intervals by Student's t over {options.launches} "
        f"launches of each\n"
    )
    print(table(rows))
    if options.json:
        content = {
            "schema": "gradsync.recomputation/1",
            "work": dataclasses.asdict(work),
            "attention": options.attention,
            "launches": results,
            "rows": [dataclasses.asdict(row) for row in rows],
        }
        options.json.write_text(json.dumps(content, indent=1) + "\n")


def main(*arguments):
    options = parse(arguments)
    try:
        work = work_of(options)
        refuse_missing(options.program, ["torch"])
        report(options, work, run_all(options, work))
    except EXPECTED as error:
        return report_error("recomputation", error)
    return 0
