"""TrainCheck: the invariants of a good run that a job's run violates.

It learns from a run of the fixed job, and checks the job, and another run of the fixed one. Any
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
PROGRAMS = Path(os.environ.get("BUGS_TRAINCHECK", ""))
LONGEST_S = 600
learned = {}  # by the name of the last job: its folder
of_right = {}  # by a job's name: what another good run violates


def ran(program, *words):
    path = f"{PROGRAMS}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run(
        [str(word) for word in (PROGRAMS / f"traincheck-{program}", *words)],
        env=os.environ | {"PATH": path, "OMP_NUM_THREADS": "1", "TQDM_DISABLE": "1"},
        capture_output=True,
        text=True,
        timeout=LONGEST_S,
    )


def collect(job, is_fixed, folder):
    """Traces a run into folder/trace."""
    script = Path(shutil.copy(HERE / "with_traincheck.py", folder))
    command = (PROGRAMS / "python", "-m", "torch.distributed.run")
    ranks = f"--nproc-per-node={job.truth(is_fixed).ranks}"
    words = (ranks, f"--master-port={launch.free_port()}", script, job.script)
    shell = Path(folder) / "run.sh"
    shell.write_text(" ".join(map(str, (*command, *words, *job.words(is_fixed)))) + "\n")
    trace = Path(folder) / "trace"
    tracked = ("--models-to-track", "model", "--model-tracker-style", "sampler")
    options = (*tracked, "--no-auto-var-instr", "--output-dir", trace)
    done = ran("collect", "--pyscript", script, "--shscript", shell, *options)
    if done.returncode:
        raise RuntimeError(f"collect: {(done.stdout + done.stderr)[-1500:]}")
    return trace


def invariants(job):
    """Learns from a run of the fixed job, or takes what was learned for the last check of it."""
    if job.name not in learned:
        learned.clear()
        kept = tempfile.TemporaryDirectory(prefix="bugs_")
        found = Path(kept.name) / "invariants.json"
        done = ran("infer", "-f", collect(job, True, kept.name), "-o", found)
        if done.returncode or not found.exists():
            raise RuntimeError(f"infer: {done.stderr[-500:]}")
        learned[job.name] = kept
    return Path(learned[job.name].name) / "invariants.json"


def violated_by(job, is_fixed):
    """Returns which invariants of the fixed job's run another run violates."""
    found = invariants(job)
    with tempfile.TemporaryDirectory(prefix="bugs_") as folder:
        trace, said = collect(job, is_fixed, folder), Path(folder) / "said"
        done = ran("check", "-f", trace, "-i", found, "-o", said, "--no-html-report")
        summaries = list(said.glob("*/violations_summary.json"))
        if done.returncode or not summaries:
            raise RuntimeError(f"check: {done.stderr[-500:]}")
        violated = json.loads(summaries[0].read_text())["violations"]
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
