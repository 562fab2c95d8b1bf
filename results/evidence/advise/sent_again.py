"""Whether what TCP sends again makes buckets of 1 MiB take longer than predicted: it does not.

    results/evidence/make.py advise sent_again    runs the cells: sent_again.json; a minute, on a
                                                  machine that does nothing else

The page is make.py's. Each rank has a network namespace of its own, whose counters
are read while it runs: once a rank is seen, and as long as it lives. A segment that was sent again
and acknowledged twice had not been lost: it had come behind a later one.
"""

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import mean, median

import stored
from held_out import make as held_out

HERE = Path(__file__).resolve().parent
FILE = HERE / "sent_again.json"
CELLS = [(compression, bucket) for compression in ("none", "bf16") for bucket in ("1MiB", "5MiB")]
MIB = 1 << 20
TOPOLOGY = HERE.parent / "topologies" / "held_out_2x1_20gbit.json"
SCALE, STEPS = 50, 30
# Of /proc/PID/net/snmp and netstat: the group, the counter, and what it is called here.
COUNTERS = (
    ("Tcp", "OutSegs", "sent"),
    ("Tcp", "RetransSegs", "sent_again"),
    ("TcpExt", "TCPFastRetrans", "taken_for_lost"),
    ("TcpExt", "TCPTimeouts", "timeouts"),
    ("TcpExt", "TCPDSACKRecv", "acknowledged_twice"),
)
EVERY_S = 0.1
OF_HUNDRED = 100


def counters_in(text):
    """Returns the counters of both files' text, by group and name: names stand above values."""
    lines = [line.split() for line in text.splitlines()]
    return {
        (names[0].rstrip(":"), name): int(value)
        for names, values in zip(lines[::2], lines[1::2], strict=True)
        for name, value in zip(names[1:], values[1:], strict=True)
    }


def counters_of(pid):
    """What a rank's namespace has counted; None where the rank has ended."""
    try:
        texts = [Path(f"/proc/{pid}/net/{file}").read_text() for file in ("snmp", "netstat")]
    except OSError:
        return None
    found = counters_in("".join(texts))
    return {said: found.get((group, name), 0) for group, name, said in COUNTERS}


def ranks_below(parent):
    """Ranks that `parent` started, however far below it."""
    found, parents = [], {parent}
    processes = sorted(int(each.name) for each in Path("/proc").iterdir() if each.name.isdigit())
    for pid in processes:
        try:
            name, fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[::2]
        except OSError:
            continue
        if int(fields.split()[1]) in parents:
            parents.add(pid)
            if "gradsync-rank" in name:
                found.append(pid)
    return found


def watched(command):
    """Runs it. Returns what all its ranks counted from when they were first seen."""
    first, last = {}, {}
    with subprocess.Popen(command, stdout=sys.stderr) as process:
        while process.poll() is None:
            for pid in ranks_below(process.pid):
                counted = counters_of(pid)
                if counted is not None:
                    first.setdefault(pid, counted)
                    last[pid] = counted
            time.sleep(EVERY_S)
    return {
        said: sum(last[pid][said] - first[pid][said] for pid in last) for _, _, said in COUNTERS
    }


def command_of(compression, bucket, out):
    fields = {
        "topology": TOPOLOGY,
        "model": "paced_bert_base_t4",
        "scale": SCALE,
        "wrapper": "ddp",
        "strategy": "baseline",
        "accumulation_steps": 1,
        "compression": compression,
        "bucket_cap_bytes": bucket,
        "steps": STEPS,
        "rounds": 1,
        "launches": 1,
    }
    sets = [word for name, value in fields.items() for word in ("--set", f"{name}={value}")]
    return [held_out.RUNNER, "run", "smoke", *sets, "--quiet", "--out", out]


def predicted_s(cell):
    """By the constants with which the ways on this line were predicted."""
    sets = [word for name in cell for word in ("--set", f"{name}={json.dumps(cell[name])}")]
    links = held_out.HERE / "small_buckets" / "links.json"
    command = [
        held_out.PROGRAM,
        "predict",
        "step",
        cell["model"],
        *sets,
        "--links",
        links,
        "--json",
    ]
    (row,) = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return row["step_s"]


def measure():
    rows, context = [], {}
    for compression, bucket in CELLS:
        with tempfile.TemporaryDirectory(prefix="gradsync_sent_again_") as place:
            out = Path(place) / "run"
            counted = watched(command_of(compression, bucket, out))
            trials = [json.loads(line) for line in (out / "trials.jsonl").read_text().splitlines()]
            context = json.loads((out / "result.json").read_text())["context"]
        steps = [s for t in trials for s in held_out.steps_of([r["step_s"] for r in t["ranks"]])]
        cell = trials[0]["cell"]
        rows.append(
            {
                "cell": held_out.stored_cell(cell),
                "predicted_s": predicted_s(cell),
                "step_s": steps,
                "counted": counted,
            }
        )
    kept = {name: context.get(name) for name in held_out.KEPT_OF_CONTEXT}
    stored.write(FILE, {"context": kept, "cells": rows})


def row_line(row):
    steps, counted, cell = row["step_s"], row["counted"], row["cell"]
    off = row["predicted_s"] / median(steps) - 1
    return (
        f"| {cell.get('compression', 'none')} | {cell['bucket_cap_bytes'] // MIB} MiB "
        f"| {row['predicted_s']:.3f} | {median(steps):.3f} | {OF_HUNDRED * off:+.1f} % "
        f"| {mean(steps):.3f} | {max(steps):.3f} | {counted['sent_again']} "
        f"| {counted['acknowledged_twice']} | {counted['timeouts']} |"
    )


def lines():
    """Of the page."""
    kept = stored.read(FILE)
    return [
        "| compression | buckets | predicted, s | median step, s | off | mean step, s | longest, s "
        "| segments sent again | acknowledged twice | timeouts |",
        "|:--|--:|--:|--:|--:|--:|--:|--:|--:|--:|",
        *map(row_line, kept["cells"]),
        "",
        f"Measured from {kept['context']['start_time']}; {STEPS} steps of each, one "
        "synchronization a step.",
        "",
    ]
