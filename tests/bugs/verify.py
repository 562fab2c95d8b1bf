"""Compares what the ranks of a job noted (jobs/proof.py) with the truth that is written of it.

The weights are solved for by least squares: the gradient that a rank's optimizer read is a sum of
what each micro-batch of each rank should contribute, each with an unknown weight.
"""

import statistics
import sys
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parent / "jobs"))
import truth as truths

CLOSE = 0.01  # of a weight
LEFT_OVER = 0.003  # of the gradient, as far as rounding goes


def verify(folder, truth):
    """Returns sentences about what differs from the truth; none: it is proved."""
    files = [Path(folder) / f"rank{rank}.pt" for rank in range(truth.ranks)]
    if missing := [file.name for file in files if not file.exists()]:
        return [f"no notes of {', '.join(missing)}"]
    ranks = [torch.load(file, weights_only=True) for file in files]
    said = [*reductions(ranks, truth), *drift(ranks, truth)]
    for reader, steps in enumerate(ranks):
        said += weights(ranks, reader, steps, truth)
    return said


def reductions(ranks, truth):
    if truth.reductions is None:
        return
    for rank, steps in enumerate(ranks):
        usual = statistics.mode(step["reductions"] for step in steps)
        if usual != truth.reductions:
            yield f"rank {rank}: {usual} reductions per step, expected {truth.reductions}"


def drift(ranks, truth):
    found = set()
    for step in zip(*ranks, strict=False):
        for name in step[0]["hashes"]:
            if len({each["hashes"].get(name) for each in step}) > 1:
                found.add(name)
    wanted = {n for n in found if any(truths.is_of(n, prefix) for prefix in truth.drifts)}
    if found - wanted:
        yield f"drifts: {', '.join(sorted(found - wanted))}"
    for prefix in truth.drifts:
        if not any(truths.is_of(name, prefix) for name in found):
            yield f"does not drift: {prefix}"


def weights(ranks, reader, steps, truth):
    """Yields what differs in what one rank's optimizer read."""
    right, wrong = 0, []
    for number, step in enumerate(steps, 1):
        others = [each[number - 1] if number <= len(each) else None for each in ranks]
        if any(each is None for each in others) or not step["read"]:
            continue
        tables = [truth.weights, *truth.sometimes]
        differs = [list(of_step(others, reader, step, truth, table)) for table in tables]
        right += not differs[0]
        if all(differs):
            wrong.append(f"rank {reader}, step {number}: {'; '.join(differs[0])}")
    if wrong:
        yield wrong[0] + (f" (and {len(wrong) - 1} more)" if len(wrong) > 1 else "")
    if not right and not wrong and truth.weights != truths.UNREAD:
        yield f"rank {reader}: no step is as usual"


def of_step(ranks, reader, step, truth, tables):
    groups = {}
    for name, gradient in step["read"].items():
        groups.setdefault(truth.table_of(name, tables), {})[name] = gradient
    for table, read in groups.items():
        yield from of_group(ranks, reader, read, table)


def of_group(ranks, reader, read, table):
    names = [name for name, gradient in read.items() if gradient is not None]
    if table == truths.UNREAD or not names:
        return
    columns, rows = [], []
    for rank, each in enumerate(ranks):
        for i, contribution in enumerate(each["contributions"]):
            parts = [contribution.get(n, torch.zeros_like(read[n])).flatten() for n in names]
            if any(name in contribution for name in names):
                columns.append((rank, i))
                rows.append(torch.cat(parts))
    target = torch.cat([read[name].flatten() for name in names]).double()
    if not rows:
        yield "no contributions were noted"
        return
    matrix = torch.stack(rows, 1).double()
    found = torch.linalg.lstsq(matrix, target[:, None], driver="gelsd").solution[:, 0]
    size = target.norm().item() or matrix.norm().item()
    left = ((matrix @ found - target).norm() / size).item()
    if table == truths.NO_SUM:
        if left < 10 * LEFT_OVER:
            yield f"{names[0]}: a sum, with weights {shown(found)}"
        return
    if left > LEFT_OVER:
        yield f"{names[0]}: {left:.3g} is left over; weights {shown(found)}"
        return
    if table == truths.UNEVEN:
        if found.max() - found.min() < CLOSE * found.abs().max():
            yield f"{names[0]}: equal weights {shown(found)}"
        return
    if table == truths.SCALED:
        factor = found.mean().item()
        wanted = [factor] * len(columns)
        close = CLOSE * abs(factor)
    else:
        wanted, close = truths.expected(table, reader, columns), CLOSE
    if any(
        abs(a - b) > close * max(1, abs(b)) for a, b in zip(found.tolist(), wanted, strict=True)
    ):
        yield f"{names[0]}: weights {shown(found)}, expected {shown(torch.tensor(wanted))}"


def shown(numbers):
    return " ".join(f"{each:.3g}" for each in numbers.tolist())
