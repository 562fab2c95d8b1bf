"""TrainCheck: the invariants of a good run that a job's run violates.

It learns from a run of the fixed job, and checks the job, and another run of the fixed one. A
violation that the other run does not have counts as naming the bug: TrainCheck does not say what is
wrong otherwise.
BUGS_TRAINCHECK is the folder of its programs, such as .../venv/bin. A job takes minutes.
"""

import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import launch

HERE = Path(__file__).resolve().parents[1]
PROGRAMS = Path(os.environ.get("BUGS_TRAINCHECK", "")).absolute()
LONGEST_S = 600
PORT = launch.free_port()  # one for all runs: TrainCheck learns what calls are given, ports as well
RANKS = """
export WORLD_SIZE={ranks} MASTER_ADDR=127.0.0.1 MASTER_PORT={port}
for rank in $(seq 0 $((WORLD_SIZE - 1))); do
    RANK=$rank LOCAL_RANK=$rank timeout {longest} {python} {words} & pids="$pids $!"
done
for pid in $pids; do wait $pid || exit; done
"""  # no torchrun, which would be traced as well
learned = {}  # by the name of the last job: its folder
of_right = {}  # by a job's name: what another good run violates


def ran(program, folder, *words):
    done = subprocess.run(
        [str(word) for word in (PROGRAMS / f"traincheck-{program}", *words)],
        env=os.environ | {"OMP_NUM_THREADS": "1", "TQDM_DISABLE": "1"},
        cwd=folder,  # where it leaves its logs
        capture_output=True,
        text=True,
        timeout=LONGEST_S,
    )
    if done.returncode:
        raise RuntimeError(f"{program}: {(done.stdout + done.stderr)[-1500:]}")


def collect(job, is_fixed, folder):
    """Traces a run into folder/trace."""
    script = shutil.copy(HERE / "with_traincheck.py", folder)
    words = " ".join(map(str, (script, job.script, *job.words(is_fixed))))
    ranks, python = job.truth(is_fixed).ranks, PROGRAMS / "python"
    shell, trace = Path(folder) / "run.sh", Path(folder) / "trace"
    shell.write_text(
        RANKS.format(ranks=ranks, port=PORT, python=python, words=words, longest=LONGEST_S // 2)
    )
    tracked = ("--models-to-track", "model", "--model-tracker-style", "sampler")
    given = ("--pyscript", script, "--shscript", shell, "--no-auto-var-instr")
    ran("collect", folder, *given, *tracked, "--output-dir", trace)
    return trace


def invariants(job):
    """Learns from a run of the fixed job, or takes what was learned for the last check of it."""
    if job.name not in learned:
        learned.clear()
        kept = tempfile.TemporaryDirectory(prefix="bugs_")
        found = Path(kept.name) / "invariants.json"
        ran("infer", kept.name, "-f", collect(job, True, kept.name), "-o", found)
        learned[job.name] = kept
    return Path(learned[job.name].name) / "invariants.json"


def violated_by(job, is_fixed):
    """Returns which invariants of the fixed job's run another run violates."""
    found = invariants(job)
    with tempfile.TemporaryDirectory(prefix="bugs_") as folder:
        trace, said = collect(job, is_fixed, folder), Path(folder) / "said"
        ran("check", folder, "-f", trace, "-i", found, "-o", said, "--no-html-report")
        summary = next(said.glob("*/violations_summary.json"))
        violated = json.loads(summary.read_text())["violations"]
    return [each["display_name"] for each in violated]


def check(job, is_fixed):
    try:
        if job.name not in of_right:
            of_right[job.name] = violated_by(job, True)
        right = of_right[job.name]
        violated = right if is_fixed else violated_by(job, False)
    except (RuntimeError, subprocess.TimeoutExpired) as failed:
        return "failed", str(failed)
    text = "\n".join([f"{len(violated)} violated", *violated[:6]])
    if is_fixed or job.wrong is None:
        return ("accused" if violated else "quiet"), text
    news = set(violated) - set(right)
    return ("named" if news else "other" if violated else "silent"), text
