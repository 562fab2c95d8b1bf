"""Compares raw steps of gradsync and of a peer. Pure functions, no torch.

Launch i of ours is paired with launch i of the peer, which ran next to it; steps and rounds of one
launch share its luck and count once. A ratio of times is the ratio of their means over launches,
with Fieller's 95 % interval: the r for which Student's t does not refuse that the mean of a - r b
is 0. A ratio of two slowdowns has no seconds: it is a geometric mean, with Student's t on
logarithms. Fewer than three launches have no interval.
"""

import math
from dataclasses import dataclass
from statistics import fmean, stdev

# Student's t at 97.5 % for 1, 2, ... degrees of freedom.
T_975 = (
    *(12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228),
    *(2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086),
    *(2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042),
)
MOST_LAUNCHES = len(T_975) + 1
FEWEST_LAUNCHES = 3
REFERENCE = "no_sync"


@dataclass(frozen=True)
class Estimate:
    value: float
    low: float | None = None  # None: too few launches, or they vary too much for an upper end
    high: float | None = None

    def __str__(self):
        if self.low is None:
            return f"{self.value:.3f}"
        return f"{self.value:.3f} [{self.low:.3f}, {self.high:.3f}]"


def mean_of(values):
    """Returns the mean of values, one per launch."""
    mean = fmean(values)
    if len(values) < FEWEST_LAUNCHES:
        return Estimate(mean)
    half = T_975[len(values) - 2] * stdev(values) / math.sqrt(len(values))
    return Estimate(mean, mean - half, mean + half)


def ratio_of(logs):
    """Returns the geometric mean of exp(logs), one per launch."""
    mean = mean_of(logs)
    if mean.low is None:
        return Estimate(math.exp(mean.value))
    return Estimate(math.exp(mean.value), math.exp(mean.low), math.exp(mean.high))


def ratio_of_pairs(ours, theirs):
    """Returns the Estimate of mean(ours) / mean(theirs) with Fieller's interval of pairs.

    Values are seconds and belong together, one pair per launch.
    """
    n = len(ours)
    a, b = fmean(ours), fmean(theirs)
    if n < FEWEST_LAUNCHES:
        return Estimate(a / b)
    square_of_t = T_975[n - 2] ** 2

    def covariance_of_means(xs, ys):
        sum_of_products = sum(
            (x - fmean(xs)) * (y - fmean(ys)) for x, y in zip(xs, ys, strict=True)
        )
        return sum_of_products / (n - 1) / n

    square = b * b - square_of_t * covariance_of_means(theirs, theirs)
    middle = a * b - square_of_t * covariance_of_means(ours, theirs)
    constant = a * a - square_of_t * covariance_of_means(ours, ours)
    if square <= 0:
        return Estimate(a / b)
    root = math.sqrt(max(0.0, middle * middle - square * constant))
    return Estimate(a / b, max(0.0, (middle - root) / square), (middle + root) / square)


def mean_step_s(launch, strategy):
    """Elapsed seconds per step of one launch: of each block the slowest rank's, over all rounds."""
    blocks = [block for block in launch if block["strategy"] == strategy]
    elapsed_s = sum(max(map(sum, block["rank_step_s"])) for block in blocks)
    return elapsed_s / sum(len(block["rank_step_s"][0]) for block in blocks)


def difference_of_pairs(ours, theirs):
    """Returns the Estimate of ours - theirs. Values belong together, one pair per launch."""
    return mean_of([a - b for a, b in zip(ours, theirs, strict=True)])


@dataclass(frozen=True)
class Row:
    strategy: str
    ours_s: float  # seconds per step
    peer_s: float
    step_ratio: Estimate  # ours / peer
    ours_slowdown: Estimate | None  # against no_sync; None: it was not run, or is this row
    peer_slowdown: Estimate | None
    slowdown_ratio: Estimate | None  # ours / peer


def compare(ours, peer, strategies):
    """Returns a Row per strategy. `ours`, `peer`: [launch][block], as many launches of both."""
    return [_row(ours, peer, strategy, strategies) for strategy in strategies]


def _row(ours, peer, strategy, strategies):
    our_s = [mean_step_s(launch, strategy) for launch in ours]
    peer_s = [mean_step_s(launch, strategy) for launch in peer]
    slowdowns = (None, None, None)
    if REFERENCE in strategies and strategy != REFERENCE:
        differences = [
            a - b
            for a, b in zip(
                _log_slowdowns(ours, strategy), _log_slowdowns(peer, strategy), strict=True
            )
        ]
        slowdowns = (_slowdown(ours, our_s), _slowdown(peer, peer_s), ratio_of(differences))
    return Row(strategy, fmean(our_s), fmean(peer_s), ratio_of_pairs(our_s, peer_s), *slowdowns)


def _slowdown(launches, step_s):
    return ratio_of_pairs(step_s, [mean_step_s(launch, REFERENCE) for launch in launches])


def _log_slowdowns(launches, strategy):
    return [math.log(mean_step_s(x, strategy) / mean_step_s(x, REFERENCE)) for x in launches]


def table(rows, peer):
    """Returns a Markdown table."""
    heads = ["strategy", "ours s/step", f"{peer} s/step", f"ours / {peer}"]
    heads += ["slowdown, ours", f"slowdown, {peer}", "ratio of slowdowns"]
    cells = [heads]
    for row in rows:
        slowdowns = (row.ours_slowdown, row.peer_slowdown, row.slowdown_ratio)
        cells.append(
            [row.strategy, f"{row.ours_s:.4f}", f"{row.peer_s:.4f}", str(row.step_ratio)]
            + ["-" if ratio is None else str(ratio) for ratio in slowdowns]
        )
    return markdown(cells)


def markdown(cells, left=1):
    """Returns a table; the first row has the heads, the first `left` columns are to the left."""
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    rule = "|".join(
        (":" if i < left else "-") + "-" * w + ("-" if i < left else ":")
        for i, w in enumerate(widths)
    )
    lines = [
        "| "
        + " | ".join(
            text.ljust(width) if i < left else text.rjust(width)
            for i, (text, width) in enumerate(zip(row, widths, strict=True))
        )
        + " |"
        for row in cells
    ]
    return "\n".join([lines[0], f"|{rule}|", *lines[1:]])
