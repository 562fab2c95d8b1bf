"""What is wrong with what a test's ranks did, in sentences."""

import os

from gradsync.outcome import UNJUDGED, verdict_from
from gradsync.testing.sizes import exact_bytes, format_bytes


class Seen:
    """What the ranks of a test did, as they told it."""

    def __init__(self, ranks):
        said = [rank.said for rank in ranks]
        watched = said[0]["watched"] or {}
        self.json = watched.get("json") or {}
        self.unseen = watched.get("unseen") or []
        self.per_step = self.json.get("per_step")
        self.account = self.json.get("account")
        self.verdicts = [verdict_from(verdict) for verdict in self.json.get("verdicts", ())]
        self.peaks = [of_rank["peak_bytes"] for of_rank in said]
        self.peak_unknown = next((s["peak_unknown"] for s in said if s["peak_unknown"]), None)

    @property
    def bytes_per_step(self):
        sizes = [op["bytes"] for op in self.per_step["collectives"].values()]
        return None if None in sizes else sum(sizes)

    @property
    def peak(self):
        """(bytes, rank) of the one that held most; None: not known."""
        if None in self.peaks:
            return None
        return max((size, -rank) for rank, size in enumerate(self.peaks))


def verdict_text(verdict):
    """Words and line of a verdict, the line as editors know it."""
    lines = [verdict.sentence]
    if verdict.why:
        lines.append(f"  why: {verdict.why}")
    if verdict.change:
        where = ""
        if verdict.change.file and verdict.change.line:
            where = f"{relative(verdict.change.file)}:{verdict.change.line}: "
        lines.append(f"  {where}{verdict.change.what}")
    return "\n".join(lines)


def relative(file):
    path = os.path.relpath(file)
    return file if path.startswith("..") else path


def about_syncs(request, seen):
    synced, of = seen.per_step["synchronized"], seen.per_step["micro_batches"]
    if request.syncs_per_step is not None and synced != request.syncs_per_step:
        yield (
            f"synchronizes {synced} x per step of {of} micro-batches, "
            f"syncs_per_step={request.syncs_per_step}"
        )


def about_bytes(request, seen):
    most = request.max_bytes_per_step
    if most is None:
        return
    if seen.bytes_per_step is None:
        yield "how many bytes a step moves is not known"
    elif seen.bytes_per_step > most:
        parts = ", ".join(
            f"{op['count']} {name} of {format_bytes(op['bytes'])}"
            for name, op in seen.per_step["collectives"].items()
        )
        yield (
            f"moves {exact_bytes(seen.bytes_per_step)} per step and rank ({parts}), "
            f"max_bytes_per_step is {exact_bytes(most)}"
        )


def about_memory(request, seen):
    if request.max_peak is None:
        return
    if seen.peak is None:
        yield f"what tensors hold is not known: {seen.peak_unknown}"
        return
    size, rank = seen.peak
    if size > request.max_peak:
        yield (
            f"rank {-rank} held {exact_bytes(size)} of CPU tensors at most, "
            f"max_peak is {exact_bytes(request.max_peak)}"
        )


def about_account(request, seen):
    if not request.account:
        return
    verdicts = (seen.account or {}).get("verdicts", ())
    if not verdicts or verdicts[0]["kind"] == "unknown":
        why = verdicts[0]["sentence"] if verdicts else "no optimizer stepped in the test"
        yield f"what micro-batches weigh is not known: {why}"
    for verdict in verdicts:
        if verdict["is_off"]:
            why = f"\n  why: {verdict['why']}" if verdict["why"] else ""
            yield verdict["sentence"] + why


def complaints(request, seen):
    """Returns what is wrong: sentences, the verdict's words and line among them."""
    beside = [*about_memory(request, seen), *about_account(request, seen)]
    is_asked = request.syncs_per_step is not None or request.max_bytes_per_step is not None
    if seen.per_step is None and is_asked:
        why = "; ".join(seen.unseen) or "no optimizer stepped in the test"
        return [f"nothing is known of a step: {why}", *beside]
    syncs, sizes = [], []
    if is_asked:
        syncs, sizes = list(about_syncs(request, seen)), list(about_bytes(request, seen))
    if request.fail_on_excess and seen.per_step is not None:  # a test need not train
        unjudged = [verdict for verdict in seen.verdicts if verdict.kind in UNJUDGED]
        syncs += [f"nothing was judged: {verdict_text(verdict)}" for verdict in unjudged]
    if request.fail_on_excess or syncs or sizes:
        syncs += [verdict_text(verdict) for verdict in seen.verdicts if verdict.fails]
    return [*syncs, *sizes, *beside]
