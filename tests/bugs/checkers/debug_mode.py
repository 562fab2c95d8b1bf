"""torch's DebugMode: its record of the collectives that sum, and the hashes that it logs.

Where ranks hold replicas, all that an optimizer's step reads and writes hashes alike on all ranks.
Which jobs hold replicas a user knows, and the fixed job's hashes stand for that.
"""

from counting import is_sum, judge_count, noted
from truth import APART, DRIFT


def note(run):
    """Returns how often the rank sums, and what each operator in an optimizer's step hashes to."""
    from torch.optim import optimizer
    from torch.utils._debug_mode import DebugMode

    hashes = []

    def before_step(*_):
        hashes.append(DebugMode.log_tensor_hashes(hash_inputs=True))
        hashes[-1].__enter__()

    optimizer.register_optimizer_step_pre_hook(before_step)
    optimizer.register_optimizer_step_post_hook(lambda *_: hashes.pop().__exit__(None, None, None))
    with DebugMode(record_output=False) as mode:
        run()
    called = [(str(getattr(call, "op", "")), call.log) for call in mode.logs]
    return {
        "sums": sum(is_sum(operator) for operator, _ in called),
        "hashes": [[operator, repr(log)] for operator, log in called if log],
    }


def check(job, is_fixed):
    from torch.utils._debug_mode import DebugMode

    DebugMode()  # imports what each rank would import otherwise
    notes, steps, why = noted(job, is_fixed, note)
    if notes is None:
        return "failed", why
    by_count, text = "silent", ""
    if job.right.reductions is not None:
        by_count, text = judge_count(job, is_fixed, notes[0]["sums"] / steps[0])
    if is_fixed or job.wrong is None:
        return ("accused" if by_count == "accused" else "quiet"), text
    if is_alike(notes) or not is_alike(noted(job, True, note)[0] or []):
        return by_count, text
    fits = {DRIFT, APART} & set(job.findings)
    text = "; ".join(filter(None, (text, "what optimizers read or write differs between ranks")))
    return ("named" if fits or by_count == "named" else "other"), text


def is_alike(notes):
    """Returns whether all ranks' optimizers read and wrote the same."""
    return bool(notes) and all(each["hashes"] == notes[0]["hashes"] for each in notes)
