"""What a run says of counts and memory, for comparing one that passes over with a whole one."""

import re

MEMORY = ("peak_allocated_bytes", "peak_by_category", "peak_reserved_estimate_bytes")

LEDGER = ("per_step", "expected", "matches", "buckets")


def exact(trial):
    """Everything of a trial that no clock has touched, apart from what was not run."""
    ledger = {name: trial["ledger"][name] for name in LEDGER}
    return {
        **{name: trial[name] for name in ("part", "cell", "launch", "round", "status")},
        # If ranks run out of memory in the same place, any may be the first to say so.
        "reason": re.sub(r"^\[rank [^]]*\] ", "", trial["reason"]),
        "ledger": ledger,
        "ranks": [{name: rank.get(name) for name in MEMORY} for rank in trial["ranks"]],
        "predicted": trial.get("predicted_peak_allocated_bytes"),
    }


def declared(trial):
    """How many micro-batches of a step were not run."""
    return trial["ledger"].get("declared_micro_batches", 0)


def ran(trial):
    """The micro-batches of the last timed step that rank 0 ran."""
    phases = trial["ranks"][0]["timeline_phases"]
    return sorted({phase["micro_batch"] for phase in phases})
