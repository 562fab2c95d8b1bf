"""Runs gates of their own, one after the other, and keeps what each said: see make.py.

Each gate runs as a user would run it. What is drawn for it (its seed, the row that is slowed)
follows from its kind and from how many of the kind are stored, so a campaign goes on where it was
ended.
"""

import contextlib
import json
import os
import random
import re
import resource
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
STORED = ROOT / "results" / "gate" / "campaign.jsonl"
PROGRAM = os.environ.get("GRADSYNC_PROGRAM", str(ROOT / "build" / "release" / "gradsync"))
TORCHRUN = ROOT / "build" / "deps" / "venv" / "bin" / "torchrun"

STRATEGIES = ("baseline", "no_sync_improper", "no_sync", "accumulate")
NAMES = ("micro_batch_size", "bucket_cap_bytes", "strategy")
KIB_256 = 256 << 10
ALL_ROWS = tuple(
    dict(zip(NAMES, (size, cap, strategy), strict=True))
    for size in (16, 64)
    for cap in (0, KIB_256)
    for strategy in STRATEGIES
)
SHORT_ROWS = tuple(ALL_ROWS[index] for index in (0, 6, 11, 13))

VERDICTS = (0, 1, 3, 4)  # exit statuses of a gate that ran to its end
NOT_QUIET = 4
BUSY_PROCESSES = 4
QUIET_LOAD, QUIET_SHARE = 0.5, 0.05  # the load of a minute; others' share of all CPUs
LOOK_S, LONGEST_WAIT_S = 10, 300


@dataclass(frozen=True)
class Kind:
    gate: str  # "short", "long" or "commands"
    loaded: bool  # beside busy processes
    extra: float  # share of work added to one row; 0: none
    wanted: int
    minutes: float  # that a gate takes, about

    def rows(self):
        return {"short": SHORT_ROWS, "long": ALL_ROWS, "commands": ()}[self.gate]


KINDS = {
    "short_quiet_aa": Kind("short", False, 0, 30, 4),
    "short_quiet_3": Kind("short", False, 0.03, 20, 4),
    "short_quiet_5": Kind("short", False, 0.05, 20, 4),
    "short_loaded_aa": Kind("short", True, 0, 30, 4),
    "short_loaded_5": Kind("short", True, 0.05, 20, 4),
    "long_quiet_aa": Kind("long", False, 0, 10, 12),
    "long_quiet_3": Kind("long", False, 0.03, 10, 12),
    "commands_aa": Kind("commands", False, 0, 10, 13),
    "commands_5": Kind("commands", False, 0.05, 10, 13),
}


def stored_gates(path=STORED):
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def counts_of(gates):
    return {name: sum(gate["kind"] == name for gate in gates) for name in KINDS}


def next_kind(names, gates):
    """Returns the kind of which the smallest part is done; None where all are."""
    done = counts_of(gates)
    undone = [name for name in names if done[name] < KINDS[name].wanted]
    return min(undone, key=lambda name: done[name] / KINDS[name].wanted, default=None)


def drawn(name, number):
    """Returns the seed of the gate of that number, and the row that is slowed, if one is."""
    seed = 1000 * list(KINDS).index(name) + number
    kind = KINDS[name]
    row = random.Random(seed).choice(kind.rows()) if kind.extra and kind.rows() else None
    return seed, row


def busy_s():
    """Returns the processor seconds that all processes have used since the machine's start."""
    user, nice, system = Path("/proc/stat").read_text().split()[1:4]
    return (int(user) + int(nice) + int(system)) / os.sysconf("SC_CLK_TCK")


def own_s():
    own = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(used.ru_utime + used.ru_stime for used in own)


def others_share(during):
    """Returns what `during` returns, and others' share of all CPUs meanwhile."""
    begun_s, busy, own = time.monotonic(), busy_s(), own_s()
    result = during()
    others = busy_s() - busy - (own_s() - own)
    return result, max(0.0, others / (time.monotonic() - begun_s) / os.cpu_count())


def wait_until_quiet(is_first):
    """Later gates do not wait for the load, in which the one before them still counts."""
    until_s = time.monotonic() + LONGEST_WAIT_S
    while True:
        _, share = others_share(lambda: time.sleep(LOOK_S))
        if share < QUIET_SHARE and (not is_first or os.getloadavg()[0] < QUIET_LOAD):
            return
        if time.monotonic() > until_s:
            print(f"not quiet: others use {share:.0%} of the CPUs", file=sys.stderr)
            sys.exit(NOT_QUIET)


@contextlib.contextmanager
def busy_processes(count):
    """In a session of their own, as another container's would be."""
    busy = f"for i in $(seq {count}); do while :; do :; done & done; wait"
    group = subprocess.Popen(["sh", "-c", busy], start_new_session=True)
    try:
        yield group.pid
    finally:
        os.killpg(group.pid, signal.SIGKILL)
        group.wait()


def output_of(command, place, minutes):
    """Returns the exit status and the output; ends the command where it takes too long."""
    with (place / "log").open("w") as log:
        child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
        try:
            out, _ = child.communicate(timeout=60 * minutes)
        finally:
            if child.poll() is None:
                child.send_signal(signal.SIGINT)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    child.communicate(timeout=60)
                child.kill()
    return child.returncode, out


def trainer(*words):
    return [TORCHRUN, "--nproc-per-node", "2", HERE / "trainer.py", *words]


def calibration(share, place):
    """Returns how many operations make that share of a step now, and what that follows from."""
    status, out = output_of(trainer("calibrate", str(share)), place, 5)
    lines = [line for line in out.splitlines() if line.startswith('{"operations"')]
    if status != 0 or not lines:
        sys.exit(f"no calibration: exit status {status}\n{(place / 'log').read_text()}")
    return json.loads(lines[0])


def command_of(name, seed, row, place):
    """Returns the gate's command, and what was calibrated for it."""
    kind = KINDS[name]
    gate = [PROGRAM, "gate", "commands" if kind.gate == "commands" else "builds"]
    options = ["--json", "--quiet", "--out", place / "gate"]
    if kind.gate == "commands":
        calibrated = calibration(kind.extra, place) if kind.extra else None
        operations = calibrated["operations"] if calibrated else 0
        sides = [shlex.join(map(str, trainer(str(count)))) for count in (0, operations)]
        options += ["--time-budget", "10m"]
    else:
        calibrated, sides = None, [PROGRAM, PROGRAM]
        gate.append("gate")
        options += ["--form", kind.gate, "--seed", str(seed)]
    if row:
        sides[1] = place / "candidate"
        words = [sys.executable, HERE / "slowed_row.py", PROGRAM, f"{100 * kind.extra:g}%"]
        words = shlex.join(map(str, [*words, json.dumps(row)]))
        sides[1].write_text(f'#!/bin/sh\nexec {words} "$@"\n')
        sides[1].chmod(0o755)
    return [*gate, "--baseline", sides[0], "--candidate", sides[1], *options], calibrated


def longer_in(times, settings):
    """Returns the phases that the gate named as longer; None where it did not test them."""
    tested = [phase for phase in times["phases"] if phase["p"] is not None]
    level = settings["alpha"] * settings["confirmation_factor"]
    return [phase["phase"] for phase in tested if phase["p"] <= level] if tested else None


def verdicts_of(report, row):
    """Returns verdict, reason and effect of each row that has times, the slowed row's name, the
    rows that the gate called slower or different, and the phases that it named in each of them."""
    times = {entry["name"]: entry["times"] for entry in report["rows"] if entry["times"]}
    flagged = [entry["name"] for entry in report["rows"] if entry["verdict"] == "regression"]
    slowed = None
    if row:
        [slowed] = [e["name"] for e in report["rows"] if row.items() <= e["cell"].items()]
        if slowed not in times:
            sys.exit(f"{slowed}: the gate did not time the row that was slowed")
    return {
        "verdicts": {name: row["verdict"] for name, row in times.items()},
        "reasons": {name: row["reason"] for name, row in times.items()},
        "effects": {name: row["low"] and row["low"]["effect"] for name, row in times.items()},
        "flagged": flagged,
        "longer_in": {
            name: longer_in(times[name], report["settings"]) for name in flagged if name in times
        },
        "slowed": slowed,
    }


def host():
    cpu = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text())
    version = subprocess.run([PROGRAM, "--version"], check=True, capture_output=True, text=True)
    return {
        "cpu_model": cpu[1] if cpu else "unknown processor",
        "cpus": os.cpu_count(),
        "kernel": os.uname().release,
        "commit": re.search(r"\(([\w-]+) ", version.stdout)[1],
    }


def run_gate(name, number):
    """Returns the line to store of one gate."""
    kind, load = KINDS[name], os.getloadavg()[0]
    seed, row = drawn(name, number)
    day, begun_s = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), time.monotonic()
    with tempfile.TemporaryDirectory(prefix="gradsync_gate_") as folder:
        place = Path(folder)
        command, calibrated = command_of(name, seed, row, place)
        beside = busy_processes(BUSY_PROCESSES) if kind.loaded else contextlib.nullcontext()
        with beside:
            ended, share = others_share(lambda: output_of(command, place, 3 * kind.minutes))
        status, out = ended
        if status not in VERDICTS:
            sys.exit(f"{name}: exit status {status}\n{(place / 'log').read_text()}{out}")
    line = {"kind": name, "seed": seed, "extra": kind.extra, "exit_status": status}
    line |= verdicts_of(json.loads(out), row)
    line |= {"seconds": round(time.monotonic() - begun_s), "calibrated": calibrated}
    return line | {"start_time": day, "load_before": load, "others_share": share, "host": host()}


def campaign(names, minutes, trial):
    """Runs gates until time is up or all are done; keeps each at once, in the file `trial` where
    one is named, at any load."""
    path = trial or STORED
    until_s = time.monotonic() + 60 * minutes
    is_first = True
    while name := next_kind(names, gates := stored_gates(path)):
        if time.monotonic() + 60 * KINDS[name].minutes > until_s and not is_first:
            return
        if not trial:
            wait_until_quiet(is_first)
        line = run_gate(name, counts_of(gates)[name])
        with path.open("a") as file:
            file.write(json.dumps(line) + "\n")
        print(json.dumps(line), flush=True)
        is_first = False
