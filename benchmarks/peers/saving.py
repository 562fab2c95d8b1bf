"""Does `gradsync watch` predict what a fix saves? Watches a job with an improper no_sync, then the
same job with the line changed that the watcher names, and holds the seconds that it predicted
against those that were saved.

    benchmarks/peers/saving [--topology 2x1_200mbit] [--launches 4] [--json FILE]

The job is accumulating.py: BERT-mini, 4 micro-batches, one rank per node of the topology. Both ways
take turns, forth in even launches and back in odd ones; a launch counts the median of its steps but
the first.

Exit status: 0; 2 usage; 4 torch, transformers, the program or network namespaces are missing; 5 a
launch failed.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import launches
import network
import summary
from fitness import EXPECTED, refuse_missing, report_error
from options import add_launches, at_least, make_parser, topology_file

HERE = Path(__file__).resolve().parent
WRONG, RIGHT = "improper", "no_sync"
VERDICTS = {WRONG: "more_than_once", RIGHT: "once_per_step"}


def parse(arguments):
    parser = make_parser(__doc__)
    add = parser.add_argument
    add("--topology", default="2x1_200mbit", help="a name or a file (default: %(default)s)")
    add("--steps", type=at_least(2), default=6, help="of a launch (default: %(default)s)")
    add_launches(parser)
    return parser.parse_args(arguments)


def watch(options, topology, way):
    """Returns the object of gradsync.watch/1 of one launch.

    Errors: LaunchError."""
    job = [sys.executable, HERE / "on_nodes.py", topology, HERE / "accumulating.py", way]
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
            )
        except subprocess.TimeoutExpired as error:
            raise launches.LaunchError(f"{way} took over {options.launch_timeout_s} s") from error
        if done.returncode != 0 or not seen.exists():
            raise launches.LaunchError(f"{way} ended with status {done.returncode}: {done.stderr}")
        watched = json.loads(seen.read_text())
    refuse_other_verdict(watched, way)
    return watched


def refuse_other_verdict(watched, way):
    got = [verdict["kind"] for verdict in watched["verdicts"]]
    if got[0] != VERDICTS[way] or watched["faults"]:
        raise launches.LaunchError(
            f"{way}: got verdicts {got} and faults {watched['faults']}, expected {VERDICTS[way]}"
        )


def run_all(options):
    """Returns {way: [what was seen of a launch]}."""
    topology = topology_file(options.topology)
    network.read_topology(topology)
    results = {WRONG: [], RIGHT: []}
    for _, way in launches.turns(options.launches, (WRONG, RIGHT)):
        results[way].append(watch(options, topology, way))
    return results


def seconds(results, way, field):
    return [watched["per_step"][field] for watched in results[way]]


def table(rows):
    """A row per launch: steps of both ways, what the watcher predicted to be saved, what was."""
    lines = ["| launch | improper s/step | no_sync s/step | predicted s | saved s | pred/saved |"]
    lines.append("|--:|--:|--:|--:|--:|--:|")
    for launch, (*all_seconds, predicted, saved) in enumerate(rows, 1):
        cells = [f"{value:.3f}" for value in (*all_seconds, predicted, saved, predicted / saved)]
        lines.append(f"| {launch} | {' | '.join(cells)} |")
    return "\n".join(lines)


def report(options, results):
    wrong, right = seconds(results, WRONG, "step_s"), seconds(results, RIGHT, "step_s")
    predicted = seconds(results, WRONG, "excess_s")
    saved = [w - r for w, r in zip(wrong, right, strict=True)]
    if options.json:
        content = {"topology": options.topology, "launches": results}
        options.json.write_text(json.dumps(content, indent=1) + "\n")
    if min(saved) <= 0:
        raise launches.LaunchError(f"the change saved nothing: got {saved} s in the launches")
    print(table(zip(wrong, right, predicted, saved, strict=True)))
    verdict = results[WRONG][0]["verdicts"][0]
    print(f"\nVERDICT before: {verdict['sentence']}\n  why: {verdict['why']}")
    print(f"VERDICT after: {results[RIGHT][0]['verdicts'][0]['sentence']}")
    ratio = summary.ratio_of_pairs(predicted, saved)
    print(f"predicted / saved: {ratio} on {options.topology}, {options.launches} launches of each")


def main(arguments=None):
    options = parse(arguments)
    try:
        refuse_missing(options.program, ["torch"])  # what the job imports
        report(options, run_all(options))
    except EXPECTED as error:
        return report_error("saving", error)
    return 0


if __name__ == "__main__":
    sys.exit(main())
