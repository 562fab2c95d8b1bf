"""gradsync watch --account: what it says of a job, and at which line. A waste is a share of a step,
which an account of every step makes several times as long: of WASTE there is none.

GRADSYNC_PROGRAM is the program. Within gradsync's own tree the ranks are forked from a process that
has imported torch; elsewhere each job imports it anew.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import launch
from truth import (
    APART,
    DRIFT,
    DROPPED,
    FACTOR,
    NEED_NOT_FAIL,
    NOT_A_SUM,
    TOO_OFTEN,
    TWICE,
    UNEQUAL,
    WASTE,
)

HERE = Path(__file__).resolve().parents[1]
PROGRAM = os.environ.get("GRADSYNC_PROGRAM", "gradsync")
PYTHON = os.environ.get("GRADSYNC_TEST_PYTHON", sys.executable)
MEANS = {
    "more_than_once": {TOO_OFTEN},
    "replicas_more_than_once": {TOO_OFTEN},
    "every_micro_batch": {TOO_OFTEN},
    "fsdp_every_micro_batch": {TOO_OFTEN},
    "reduced_twice": {TWICE, TOO_OFTEN},
    "never": {DRIFT, DROPPED},
    "some_steps_never": {DRIFT, DROPPED},
    "replicas_never": {DRIFT},
    "too_early": {DRIFT, DROPPED},
    "replicas_too_early": {DRIFT, DROPPED},
    "replicas_drift": {DRIFT},
    "buffers_differ": {DRIFT},
    "own_parameters": {DRIFT},
    # of the account
    "separate": {DRIFT},
    "dropped": {DROPPED, UNEQUAL},
    "rank_lost": {DROPPED},
    "zero": {DROPPED},
    "unequal": {UNEQUAL, DROPPED},
    "by_tokens": {UNEQUAL},
    "groups_differ": {FACTOR, APART},
    "shards_apart": {APART},
    "factor": {FACTOR},
    "windows": {FACTOR, UNEQUAL},
    "unread_gradients": {DROPPED},
    "not_a_sum": {NOT_A_SUM, UNEQUAL, APART},
}


def watched(job, is_fixed, folder):
    """Returns what was written as JSON, and the exit status."""
    file = Path(folder) / "watched.json"
    account = () if WASTE in job.findings else ("--account", "--every", "1")
    options = (*account, "--fail-on-excess", "--json", file, "--python", PYTHON)
    words = (str(job.truth(is_fixed).ranks), job.script, *job.words(is_fixed))
    kept = {n: v for n, v in os.environ.items() if not n.startswith(("LD_PRELOAD", "BUGS_"))}
    place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(launch.free_port())}
    launcher, server = how_to_launch()
    done = subprocess.run(
        [str(w) for w in (PROGRAM, "watch", *options, "--", PYTHON, launcher, *words)],
        env=kept | place | {"OMP_NUM_THREADS": "1"} | server,
        capture_output=True,
        text=True,
        timeout=600,
    )
    return (json.loads(file.read_text()) if file.exists() else None), done


def how_to_launch():
    tests = HERE.parent / "benchmarks"
    if not (tests / "fork_server.py").exists():
        return HERE / "launch.py", {}
    if str(tests) not in sys.path:
        sys.path.append(str(tests))
    from watch_test import CACHE, FORKED_RANKS, watched_server

    return FORKED_RANKS, {"XDG_CACHE_HOME": str(CACHE)} | watched_server().place


def check(job, is_fixed):
    """Returns how the job was judged, and in which words.

    Of a bug: "line" (named with its line), "named", "told" (said of it and not of the right one,
    and not failed), "other" (failed for something else), "silent". Of what is right: "accused",
    or "quiet".
    """
    with tempfile.TemporaryDirectory(prefix="bugs_") as folder:
        watched_job, done = watched(job, is_fixed, folder)
    if watched_job is None or done.returncode not in (0, 1, 4):
        return "failed", done.stderr[-800:]
    verdicts, account, said = said_of(watched_job)
    fails = done.returncode == 1
    words = text_of(verdicts, account)
    if is_fixed or job.wrong is None:
        return ("accused" if fails else "quiet"), words
    fits = any(set(job.findings) & MEANS.get(kind, {kind}) for kind in said)
    named = lines_in((*verdicts, *watched_job["wastes"], *account))
    words += f" [{', '.join(sorted(named))}]" if named else ""
    at_line = f"{job.script.name} line {job.line}" in named
    if not fits:
        return ("other" if fails else "silent"), words
    if NEED_NOT_FAIL & set(job.findings):
        return ("line" if at_line else "named"), words
    if not fails:
        with tempfile.TemporaryDirectory(prefix="bugs_") as folder:
            of_right = watched(job, True, folder)[0]
        is_news = of_right and sorted(said_of(of_right)[2]) != sorted(said)
        return ("told" if is_news else "silent"), words
    return ("line" if at_line else "named"), words


def said_of(watched_job):
    """Returns verdicts, those of the account, and the kinds of both and of wastes."""
    verdicts = watched_job["verdicts"]
    account = (watched_job["account"] or {}).get("verdicts", [])
    said = [v["kind"] for v in (*verdicts, *account)]
    said += ["factor" for v in account if "what the loss says" in v["sentence"]]
    return verdicts, account, said + [WASTE for _ in watched_job["wastes"]]


def lines_in(said):
    """Returns the lines that were named, as "file.py line 12"."""
    changes = [each["change"] for each in said if each.get("change")]
    named = {f"{Path(change['file']).name} line {change['line']}" for change in changes}
    return named | set(re.findall(r"\w+\.py line \d+", json.dumps(said)))


def text_of(verdicts, account):
    counted = [f"{v['kind']}" + (f" ({v['cause']})" if v["cause"] else "") for v in verdicts]
    return "; ".join([*counted, *(v["sentence"] for v in account)])
