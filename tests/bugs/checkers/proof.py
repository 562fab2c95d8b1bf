"""Not a checker: proves that a job does what its truth says, by what its ranks note themselves."""

import os
import tempfile
from pathlib import Path

import launch
import verify

NAME = "proof"


def check(job, is_fixed):
    """Returns what was said, or raises nothing: a job that fails says why."""
    if job.is_elsewhere:
        return "passed over", ""
    with tempfile.TemporaryDirectory(prefix="bugs_") as folder:
        output = Path(folder) / "output"

        def rank():
            os.environ["BUGS_PROOF"] = folder
            launch.run_script(job.script, *job.words(is_fixed))

        truth = job.truth(is_fixed)
        if status := launch.run_ranks(truth.ranks, rank, output):
            return "failed", f"status {status}: {launch.last_of(output)}"
        said = Path(folder) / "said"

        def read():
            said.write_text("\n".join(verify.verify(folder, truth)))

        # In a process of its own: what computes here could not be forked again.
        if launch.run_ranks(1, read, output):
            return "failed", launch.last_of(output)
        text = said.read_text()
        return ("differs", text) if text else ("proved", "")
