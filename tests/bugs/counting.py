"""What checkers share that count collectives, and know nothing else.

They cannot know how often is enough. What the truth says is enough stands for a user who knows.
"""

import json
import os
import tempfile
from pathlib import Path

import launch
from truth import TOO_OFTEN, TWICE


def per_step(job, is_fixed, counted):
    """Returns how often rank 0 sums tensors in a step, on average, and how the job ended.
    `counted(run)` runs the job and returns the number of sums.
    """
    with tempfile.TemporaryDirectory(prefix="bugs_") as folder:
        written, output = Path(folder) / "counted", Path(folder) / "output"

        def rank():
            from torch.optim.optimizer import register_optimizer_step_post_hook

            calls = {}

            def behind_step(optimizer, *_):
                calls[id(optimizer)] = calls.get(id(optimizer), 0) + 1

            register_optimizer_step_post_hook(behind_step)
            found = counted(lambda: launch.run_script(job.script, *job.words(is_fixed)))
            if os.environ["RANK"] == "0":
                written.write_text(json.dumps([found, max(calls.values(), default=1)]))

        status = launch.run_ranks(job.truth(is_fixed).ranks, rank, output)
        if status or not written.exists():
            return None, f"status {status}: {launch.last_of(output)}"
        found, steps = json.loads(written.read_text())
        return found / steps, ""


def judge(job, is_fixed, counted):
    """Returns what such a checker says: too many, too few, or nothing."""
    enough = job.right.reductions
    if enough is None:
        return "passed over", ""
    found, why = per_step(job, is_fixed, counted)
    if found is None:
        return "failed", why
    text = f"{found:.3g} sums a step, {enough} are enough"
    differs = round(found) != enough
    if is_fixed or job.wrong is None:
        return ("accused" if differs else "quiet"), text
    is_more = found > enough
    fits = bool({TOO_OFTEN, TWICE} & set(job.findings)) == is_more
    return ("silent" if not differs else "named" if fits else "other"), text
