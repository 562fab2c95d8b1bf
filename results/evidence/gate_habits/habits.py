"""What people who compare two builds would say of the turns of a gate, habit by habit.

Each habit is given the best of everything else, so that what it does wrong is all that counts
against it: it sees every turn that the gate may look at, calls slower what is beyond the gate's
margin, and shares the gate's alpha out over the rows, as Bonferroni does. None can say "undecided",
and none asks a control.
"""

import gzip
import json
from dataclasses import dataclass

import numpy as np
from scipy import stats

ARMS = ("baseline", "candidate", "control")
BASELINE, CANDIDATE, _ = range(len(ARMS))
LABELLINGS = 1000  # of each gate
SEED = 42
LEVEL = 0.95
DIGITS = 6  # of intervals: the same by every version of scipy


@dataclass(frozen=True)
class Row:
    """One row of a gate: turns, arms, steps."""

    step_s: np.ndarray  # [turn, arm, step]
    elapsed_s: np.ndarray  # [turn, arm]: of the block's steps
    start: np.ndarray  # [turn]

    def of(self, arms):
        """Returns the steps, [labelling, turn, step], and elapsed seconds, [labelling, turn], of
        whoever has a role; `arms`, [labelling, turn]: who that is."""
        turn = np.arange(len(self.start))
        return self.step_s[turn, arms], self.elapsed_s[turn, arms]


@dataclass(frozen=True)
class Gate:
    rows: list
    orders: np.ndarray  # [start, place]: the arm that came up there


def row_of(turns, first_start, starts):
    turns = [turn for turn in turns if first_start <= turn["start"] < first_start + starts]
    step_s = np.array([[turn[f"{arm}_s"] for arm in ARMS] for turn in turns])
    known = [turn.get("elapsed_s") or list(step_s[i].sum(axis=1)) for i, turn in enumerate(turns)]
    start = np.array([turn["start"] - first_start for turn in turns])
    return Row(step_s, np.array(known), start)


def gates_in(path, settings):
    """Returns the gates of a file of stored turns, with the turns that each may look at."""
    family = json.loads(gzip.decompress(path.read_bytes()))
    looks = settings["looks"][-1]["turns"] // settings["start_turns"]
    whole = looks + settings["confirmation_turns"] // settings["start_turns"]
    in_file = 1 + max(turn["start"] for turn in family["rows"][0]["turns"])
    orders = [[ARMS.index(arm) for arm in start["order"]] for start in family.get("starts", [])]
    orders = np.array(orders or [list(range(len(ARMS)))] * in_file)
    gates = []
    for first in range(0, in_file - whole + 1, whole):
        rows = [row_of(row["turns"], first, looks) for row in family["rows"]]
        gates.append(Gate(rows, orders[first : first + looks]))
    return family["extra_work"], gates


def drawn_orders(starts, random):
    """Returns in which order the arms of so many starts come up: in three that follow each other
    every arm has every place once, and all twelve such squares are equally likely."""
    orders = []
    while len(orders) < starts:
        square = np.add.outer(range(len(ARMS)), range(len(ARMS))) % len(ARMS)
        orders.extend(random.permutation(random.permutation(square), axis=1))
    return np.array(orders[:starts])


def arms_of(role, gate, orders):
    """Returns, for each labelling and start, who is called `role` if the arms that came up as
    `gate` has them had come up as `orders`, [labelling, start, place]."""
    place = (orders == role).argmax(axis=2)
    return gate.orders[np.arange(len(gate.orders)), place]


def lies_above(candidate, baseline, margin, level):
    """Mann and Whitney's U test of [labelling, value] each, with a margin."""
    above = stats.mannwhitneyu(candidate / (1 + margin), baseline, alternative="greater", axis=1)
    return above.pvalue < level


def flat(steps):
    return steps.reshape(len(steps), -1)


def fixed_threshold(candidate, baseline, margin, _):
    """The ratio of two means, and a job that fails above a number that somebody chose: hyperfine,
    criterion, Google Benchmark's compare.py. There is no p-value that could be corrected."""
    return candidate[1].sum(axis=1) > (1 + margin) * baseline[1].sum(axis=1)


def sequential_arms(candidate, baseline, margin, level):
    """The baseline is measured first, the candidate afterwards, so that what drifts between them
    counts as the change: blocks of the first half of the turns against those of the second, by
    compare.py's U test."""
    half = candidate[1].shape[1] // 2
    steps = candidate[0].shape[2]
    late, early = candidate[1][:, -half:] / steps, baseline[1][:, :half] / steps
    return lies_above(late, early, margin, level)


def pooled_steps(candidate, baseline, margin, level):
    """All steps of all turns go into the U test as if independent. Those of one block share its
    mood, so the test is surer than it may be."""
    return lies_above(flat(candidate[0]), flat(baseline[0]), margin, level)


HABITS = {
    "fixed threshold": fixed_threshold,
    "sequential arms": sequential_arms,
    "pooled Mann-Whitney": pooled_steps,
}


def flags(habit, gate, settings, orders):
    """Returns which rows a habit calls slower, [labelling, row], under each of `orders`."""
    terms = settings["margin"], settings["alpha"] / len(gate.rows)
    candidate, baseline = (arms_of(role, gate, orders) for role in (CANDIDATE, BASELINE))
    of_rows = [
        HABITS[habit](row.of(candidate[:, row.start]), row.of(baseline[:, row.start]), *terms)
        for row in gate.rows
    ]
    return np.transpose(of_rows)


def as_measured(habit, gate, settings):
    """Returns which rows a habit calls slower, [row], by the roles that the arms had."""
    return flags(habit, gate, settings, gate.orders[np.newaxis])[0]


def share_interval(shares):
    """Clopper and Pearson's interval of the sum of shares as so many events of as many trials."""
    events, trials = sum(shares), len(shares)
    tail = 1 - LEVEL if events in (0, trials) else (1 - LEVEL) / 2
    low = 0 if events == 0 else stats.beta.ppf(tail, events, trials - events + 1)
    high = 1 if events == trials else stats.beta.ppf(1 - tail, events + 1, trials - events)
    return [round(float(low), DIGITS), round(float(high), DIGITS)]


def rates_by(shares_of):
    """Returns the rate of each habit as error_rates.json has the gate's; `shares_of(habit)`: by
    gate."""
    rates = []
    for habit in HABITS:
        shares = [float(share) for share in shares_of(habit)]
        rate = {"rate": float(np.mean(shares)), "ci95": share_interval(shares), "shares": shares}
        rates.append({"by": habit, "gates": rate})
    return rates


def relabelled(gates, settings):
    """Returns how often each habit flags any row of gates without extra work, under labellings
    that were as likely as the one that came about."""
    starts = len(gates[0].orders)
    draws = []
    for number in range(len(gates)):
        random = np.random.default_rng(SEED + number)
        draws.append(np.array([drawn_orders(starts, random) for _ in range(LABELLINGS)]))
    return rates_by(
        lambda habit: [
            flags(habit, gate, settings, orders).any(axis=1).mean()
            for gate, orders in zip(gates, draws, strict=True)
        ]
    )


def found(gates, settings):
    """Returns how often each habit finds the row with extra work, each row in its turn."""
    return rates_by(lambda habit: [as_measured(habit, gate, settings).mean() for gate in gates])


def replay(folder):
    """Returns the rates of the habits on the stored turns in `folder`, by extra work."""
    settings = json.loads((folder / "error_rates.json").read_text())["settings"]
    pools = {}
    for path in sorted(folder.glob("*.turns.json.gz")):
        extra_work, gates = gates_in(path, settings)
        pools.setdefault(extra_work, []).extend(gates)
    return [
        {
            "extra_work": extra_work,
            "flagged": (found if extra_work else relabelled)(gates, settings),
        }
        for extra_work, gates in sorted(pools.items())
        if gates
    ]
