"""Does `gradsync watch` predict what a fix saves? Watches a job that synchronizes too often,
chatters, or has buckets that do not suit it, then the same job with the lines changed that the
watcher names, and holds the seconds that it predicted against those that were saved.

    results/evidence/make.py peers saving [--topology 2x1_200mbit] [--launches 4] [--json FILE]
    results/evidence/make.py peers saving --job hybrid --topology 2x2_200mbit
    results/evidence/make.py peers saving --job chatter
    results/evidence/make.py peers saving --job overlap
    results/evidence/make.py peers saving --job buckets

ddp      accumulating.py: BERT-mini under DistributedDataParallel, 4 micro-batches, and no_sync
         around backward alone
hybrid   hybrid.py: BERT-mini under fully_shard, sharded within a node and replicated over nodes, 4
         micro-batches, whose replicas are all-reduced in each
chatter  chattering.py: a small model under DistributedDataParallel, one micro-batch, and in each
         step 300 barriers, 300 numbers that are summed over ranks, and 4 objects of 1 MiB that are
         gathered
overlap  bucketing.py: 32 MiB of gradients under DistributedDataParallel in one bucket, of layers
         that take 0.2 s each in backward
buckets  bucketing.py: 400 gradients of 16 KiB or less, each in a bucket of its own

The two ways of a job take turns, forth in even launches and back in odd ones; a launch counts the
median of its steps but the first.

Exit status: 0; 2 usage; 4 torch, transformers, the program or network namespaces are missing; 5 a
launch failed.
"""

import functools
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import launches
import network
import summary
from fitness import EXPECTED, refuse_missing, report_error
from options import add_launches, at_least, make_parser, topology_file

HERE = Path(__file__).resolve().parent


def excess_s(watched):
    return watched["per_step"]["excess_s"]


def replicas_excess_s(watched):
    (policy,) = (p for p in watched["per_step"]["policies"] if p["when"] == "replicas_at_the_end")
    return policy["saved_s"]


def saved_by(*kinds):
    """Returns what sums the seconds that mending these wastes is said to save."""

    def saved_s(watched):
        return sum(waste["saved_s"] for waste in watched["wastes"] if waste["kind"] in kinds)

    return saved_s


@dataclass(frozen=True)
class Job:
    script: str
    wrong: str  # the way that wastes
    right: str
    verdicts: dict  # of each way, the first
    saved_s: Callable  # of what was watched: what the fix is predicted to save


JOBS = {
    "ddp": Job(
        script="accumulating.py",
        wrong="improper",
        right="no_sync",
        verdicts={"improper": "more_than_once", "no_sync": "once_per_step"},
        saved_s=excess_s,
    ),
    "hybrid": Job(
        script="hybrid.py",
        wrong="each",
        right="deferred",
        verdicts={"each": "replicas_more_than_once", "deferred": "fsdp_every_micro_batch"},
        saved_s=replicas_excess_s,
    ),
    "chatter": Job(
        script="chattering.py",
        wrong="each",
        right="never",
        verdicts={"each": "once_per_step", "never": "once_per_step"},
        saved_s=saved_by("barriers", "object_collectives", "small_collectives"),
    ),
    "overlap": Job(
        script="bucketing.py",
        wrong="one_bucket",
        right="overlapped",
        verdicts={"one_bucket": "once_per_step", "overlapped": "once_per_step"},
        saved_s=saved_by("one_bucket", "no_overlap"),
    ),
    "buckets": Job(
        script="bucketing.py",
        wrong="tensor_by_tensor",
        right="together",
        verdicts={"tensor_by_tensor": "once_per_step", "together": "once_per_step"},
        saved_s=saved_by("small_reductions"),
    ),
}


def parse(arguments):
    parser = make_parser(__doc__)
    add = parser.add_argument
    add("--job", choices=JOBS, default="ddp", help="default: %(default)s")
    add("--topology", default="2x1_200mbit", help="a name or a file (default: %(default)s)")
    add("--steps", type=at_least(2), default=6, help="of a launch (default: %(default)s)")
    add_launches(parser)
    return parser.parse_args(arguments)


def watch(options, topology, way):
    """Returns the object of gradsync.watch/1 of one launch.

    Errors: LaunchError."""
    script = HERE / JOBS[options.job].script
    job = [sys.executable, launches.HERE / "on_nodes.py", topology, script, way]
    with tempfile.TemporaryDirectory(prefix="gradsync_") as folder:
        seen = Path(folder) / "watch.json"
        watcher = [options.program, "watch", "--json", seen, "--python", sys.executable, "--"]
        command = [*watcher, *launches.private_network(), *job, options.steps]
        try:
            done = subprocess.run(
                list(map(str, command)),
                capture_output=True,
                text=True,
                timeout=options.launch_timeout_s,
                preexec_fn=functools.partial(network.die_with_parent, os.getpid()),
            )
        except subprocess.TimeoutExpired as error:
            raise launches.LaunchError(f"{way} took over {options.launch_timeout_s} s") from error
        if done.returncode != 0 or not seen.exists():
            raise launches.LaunchError(f"{way} ended with status {done.returncode}: {done.stderr}")
        watched = json.loads(seen.read_text())
    refuse_other_verdict(watched, way, JOBS[options.job].verdicts[way])
    return watched


def refuse_other_verdict(watched, way, expected):
    got = [verdict["kind"] for verdict in watched["verdicts"]]
    if got[0] != expected or watched["faults"]:
        raise launches.LaunchError(
            f"{way}: got verdicts {got} and faults {watched['faults']}, expected {expected}"
        )


def refuse_nothing_to_defer(job, topology):
    """Errors: TopologyError where hybrid sharding has no shards or no replicas."""
    read = network.read_topology(topology)
    if job == "hybrid" and min(read.nodes, read.ranks_per_node) < 2:
        raise network.TopologyError(
            f"{topology}: got {read.nodes} nodes x {read.ranks_per_node} ranks, expected nodes of "
            "several ranks for --job hybrid"
        )


def run_all(options):
    """Returns {way: [what was seen of a launch]}."""
    topology = topology_file(options.topology)
    refuse_nothing_to_defer(options.job, topology)
    job = JOBS[options.job]
    results = {job.wrong: [], job.right: []}
    for _, way in launches.turns(options.launches, tuple(results)):
        results[way].append(watch(options, topology, way))
    return results


def step_s(watched):
    return watched["per_step"]["step_s"]


def table(wrong, right, rows):
    """A row per launch: steps of both ways, what the watcher predicted to be saved, what was."""
    lines = [f"| launch | {wrong} s/step | {right} s/step | predicted s | saved s | pred/saved |"]
    lines.append("|--:|--:|--:|--:|--:|--:|")
    for launch, (*all_seconds, predicted, saved) in enumerate(rows, 1):
        cells = [f"{value:.3f}" for value in (*all_seconds, predicted, saved, predicted / saved)]
        lines.append(f"| {launch} | {' | '.join(cells)} |")
    return "\n".join(lines)


def report(options, results):
    job = JOBS[options.job]
    before, after = results[job.wrong], results[job.right]
    wrong, right = list(map(step_s, before)), list(map(step_s, after))
    predicted = list(map(job.saved_s, before))
    saved = [w - r for w, r in zip(wrong, right, strict=True)]
    if options.json:
        content = {"job": options.job, "topology": options.topology, "launches": results}
        options.json.write_text(json.dumps(content, indent=1) + "\n")
    if min(saved) <= 0:
        raise launches.LaunchError(f"the change saved nothing: got {saved} s in the launches")
    print(table(job.wrong, job.right, zip(wrong, right, predicted, saved, strict=True)))
    verdict = before[0]["verdicts"][0]
    print(f"\nVERDICT before: {verdict['sentence']}\n  why: {verdict['why']}")
    print(f"VERDICT after: {after[0]['verdicts'][0]['sentence']}")
    ratio = summary.ratio_of_pairs(predicted, saved)
    print(f"predicted / saved: {ratio} on {options.topology}, {options.launches} launches of each")


def main(*arguments):
    options = parse(arguments)
    try:
        refuse_missing(options.program, ["torch"])  # what the job imports
        report(options, run_all(options))
    except EXPECTED as error:
        return report_error("saving", error)
    return 0
