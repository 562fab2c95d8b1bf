"""What checkers share that count collectives, and know nothing else.

They cannot know how often is enough. What the truth says is enough stands for a user who knows.
"""

import json
import os
import tempfile
from pathlib import Path

import launch
from truth import TOO_OFTEN, TWICE

SUMMING = ("allreduce_", "allreduce_coalesced_", "reduce_", "reduce_scatter_",
           "_reduce_scatter_base_", "all_reduce", "reduce_scatter_tensor")  # fmt: skip


def is_sum(name):
    """Returns whether an operator of torch's sums over ranks, such as c10d::allreduce_."""
    space, operator, *_ = *name.replace("::", ".").split("."), ""
    return space in ("c10d", "c10d_functional", "_c10d_functional") and operator in SUMMING


def noted(job, is_fixed, note):
    """Runs a job, in which each rank notes what `note(run)` returns when it has called `run`.

    Returns each rank's notes, how many steps its least busy optimizer made, and why the job failed.
    """
    with tempfile.TemporaryDirectory(prefix="bugs_") as folder:
        output = Path(folder) / "output"

        def rank():
            from torch.optim.optimizer import register_optimizer_step_post_hook

            calls = {}

            def behind_step(optimizer, *_):
                calls[id(optimizer)] = calls.get(id(optimizer), 0) + 1

            register_optimizer_step_post_hook(behind_step)
            found = note(lambda: launch.run_script(job.script, *job.words(is_fixed)))
            written = Path(folder) / f"rank{os.environ['RANK']}"
            written.write_text(json.dumps([found, min(calls.values(), default=1)]))

        ranks = job.truth(is_fixed).ranks
        status = launch.run_ranks(ranks, rank, output)
        files = [Path(folder) / f"rank{each}" for each in range(ranks)]
        if status or not all(file.exists() for file in files):
            return None, None, f"status {status}: {launch.last_of(output)}"
        notes = [json.loads(file.read_text()) for file in files]
        return [each[0] for each in notes], [each[1] for each in notes], ""


def judge(job, is_fixed, counted):
    """Returns what such a checker says: too many, too few, or nothing. `counted(run)` runs a rank
    and returns the number of its sums.
    """
    if job.right.reductions is None:
        return "passed over", ""
    counts, steps, why = noted(job, is_fixed, counted)
    if counts is None:
        return "failed", why
    return judge_count(job, is_fixed, counts[0] / steps[0])


def judge_count(job, is_fixed, found):
    """Judges how often rank 0 sums in a step."""
    enough = job.right.reductions
    text = f"{found:.3g} sums a step, {enough} are enough"
    differs = round(found) != enough
    if is_fixed or job.wrong is None:
        return ("accused" if differs else "quiet"), text
    is_more = found > enough
    fits = bool({TOO_OFTEN, TWICE} & set(job.findings)) == is_more
    return ("silent" if not differs else "named" if fits else "other"), text
