"""gradsync watch on every wrapper with every policy that it can express: four ranks or eight of
tests/harness/watch/jobs/by_policy.py, whose seed changes data, sizes, layers and micro-batches.

    watch_policies_test.py [--seeds 1,2,3] [--tally FILE] [RecordedTest] [LiveTest] [SlowTest] ...

Each cell lists the verdicts and the line, what each axis communicates and how much of it is too
much, and the bytes of gradients that a rank holds: what the job's allocator gave out when the last
micro-batch of a step begins, against the step's beginning and against the same job with another
policy. No verdict depends on how long anything took, so each cell runs once with each seed.
RecordedTest judges the recordings of the first seed. At the end, and as JSON in FILE, the test says
how much was right.
"""

import functools
import json
import sys
from dataclasses import dataclass, field

from program import ROOT
from tallies import parse, run
from truths import digest_of, gate_status, marks_of
from watch_verdict_test import Recorded, WatchedJobTest, needing_torch

JOBS = ROOT / "tests" / "harness" / "watch" / "jobs"
JOB = JOBS / "by_policy.py"
MARKS = marks_of(JOB, [range(1, 1 + len(JOB.read_text().splitlines()))])
DIGEST = digest_of([JOBS / f"{name}.py" for name in ("by_policy", "wrappers", "training")], *MARKS)
RANKS = {"fully_shard_hybrid_tensor": 8}  # on each axis two
USUAL_RANKS = 4
WHOLE = "whole"  # in place of a policy: none is reported, since it holds no more than another
EACH = "each"  # in place of a number: in as many micro-batches as a step has


@dataclass
class Expected:
    """Expected of a cell. Counts: micro-batches of a step in which an axis is synchronized."""

    kind: str
    also: tuple = ()
    line: str | None = None  # which one is to be changed, by the comment that it has
    fails: bool = False
    synchronized: object = 1  # None: not known
    axes: dict = field(default_factory=dict)  # by role: (now, enough)
    holds: str | None = None  # the policy that is in force
    job_fails: bool = False  # in torch itself, before it has printed anything


def once(*roles, **more):
    return Expected("once_per_step", axes=dict.fromkeys(roles, (1, 1)), **more)


def never(line, *roles, **more):
    axes = dict.fromkeys(roles, (0, 0))
    return Expected("never", line=line, fails=True, synchronized=0, axes=axes, **more)


def too_early(line, *roles, **more):
    axes = dict.fromkeys(roles, (1, 1))
    return Expected("too_early", line=line, fails=True, axes=axes, **more)


def whole(line, holds=None):
    """Expected of wrappers under which each rank has whole gradients."""
    return {
        "every": Expected(
            "more_than_once",
            line="forward",
            fails=True,
            synchronized=EACH,
            axes={"data_parallel": (EACH, 1)},
            holds=holds,
        ),
        "all": once("data_parallel", holds=holds),
        "never": never(line, "data_parallel"),
        "wrong": too_early(line, "data_parallel"),
    }


FSDP = "fsdp_every_micro_batch"
SHARDS = {
    "every": Expected(
        FSDP,
        line="forward",
        synchronized=EACH,
        axes={"shard": (EACH, 1)},
        holds="each_micro_batch",
    ),
    "all": once("shard", holds="all_at_the_end"),
    "never": never("gradients", "shard"),
    "wrong": too_early("gradients", "shard"),
}
HYBRID = {
    "every": Expected(
        "replicas_more_than_once",
        (FSDP,),
        line="forward",
        fails=True,
        synchronized=EACH,
        axes={"shard": (EACH, 1), "replicate": (EACH, 1)},
        holds="each_micro_batch",
    ),
    "replicas": Expected(
        FSDP,
        ("replicas_once_per_step",),
        line="forward",
        synchronized=EACH,
        axes={"shard": (EACH, 1), "replicate": (1, 1)},
        holds="replicas_at_the_end",
    ),
    "all": once("shard", "replicate", holds="all_at_the_end"),
    "never": never("gradients", "shard", "replicate"),
    "wrong": too_early("gradients", "shard", "replicate"),
    "replicas_never": Expected(
        "replicas_never",
        (FSDP,),
        line="replicas",
        fails=True,
        synchronized=EACH,
        axes={"shard": (EACH, 1), "replicate": (0, 0)},
    ),
    "replicas_wrong": Expected(
        "replicas_too_early",
        (FSDP,),
        line="replicas",
        fails=True,
        synchronized=EACH,
        axes={"shard": (EACH, 1), "replicate": (1, 1)},
    ),
}
# FSDP1's optimizer dies in its first step, of whole gradients and shards of parameters.
OF_FSDP1 = {
    "never": never("no_sync", job_fails=True),
    "wrong": too_early("no_sync", job_fails=True),
}
FSDP1 = {"every": SHARDS["every"], "all": SHARDS["all"]} | OF_FSDP1
# It has no flag for replicas, so no advice can be to set one.
FSDP1_HYBRID = {
    "every": Expected(
        "replicas_more_than_once",
        (FSDP,),
        line="forward",
        synchronized=EACH,
        axes={"shard": (EACH, 1), "replicate": (EACH, 1)},
        holds="each_micro_batch",
    ),
    "all": HYBRID["all"],
} | OF_FSDP1

# The forward of a model that is compiled away in a function of the job's is not seen.
UNSEEN = dict.fromkeys(("every", "all"), Expected("not_recognised", synchronized=None))

# What a policy is missing for cannot be said: replicas of shards are those of hybrid sharding, and
# FSDP1 has no flag for them. Compiled autograd refuses DDP's own reducer.
TABLE = {
    "fully_shard": SHARDS,
    "fully_shard_hybrid": HYBRID,
    "fully_shard_tensor": SHARDS,
    "fully_shard_hybrid_tensor": HYBRID,
    "fsdp1": FSDP1,
    "fsdp1_hybrid": FSDP1_HYBRID,
    "fsdp1_hybrid_zero2": FSDP1_HYBRID,
    "replicate": whole("gradients", WHOLE),
    "replicate_tensor": whole("gradients", WHOLE),
    "replicate_over_ddp": whole("gradients", WHOLE),
    "ddp": whole("no_sync", WHOLE),
    "ddp_aot_eager": whole("no_sync"),
    "ddp_inductor": whole("no_sync"),
    "ddp_python_reducer": whole("no_sync"),
    "ddp_python_reducer_inductor": whole("no_sync"),
    "ddp_python_reducer_in_a_function": UNSEEN,
}
# The least version of torch that has it, or compiles it.
NEEDED = {
    "fully_shard": "2.8",
    "fully_shard_hybrid": "2.8",
    "fully_shard_tensor": "2.8",
    "fully_shard_hybrid_tensor": "2.8",
    "replicate": "2.11",
    "replicate_tensor": "2.11",
    "ddp_aot_eager": "2.10",
    "ddp_inductor": "2.10",
    "ddp_python_reducer": "2.10",
    "ddp_python_reducer_inductor": "2.10",
    "ddp_python_reducer_in_a_function": "2.10",
}
# What runs with every change: what the hook sees in ways of its own.
LIVE = [
    ("ddp_python_reducer", "every"),
    ("fsdp1_hybrid_zero2", "all"),
    ("fsdp1_hybrid_zero2", "every"),
]
OPERATION = {"shard": "reduce_scatter", "replicate": "all_reduce", "data_parallel": "all_reduce"}


@dataclass
class Tally:
    runs: int = 0
    right_verdicts: int = 0
    right_lines: int = 0
    right_axes: int = 0
    correct_jobs: int = 0
    wrong_accusations: int = 0  # of these
    compared: int = 0  # of what they hold, with what was told
    right_bytes: int = 0


tallies = {}  # by wrapper
seeds = (1,)


@dataclass
class Held:
    """The report on a job, and what the job printed."""

    predicted: dict  # bytes, by policy
    policy: str  # that is in force
    lines: list  # by rank


seen_holding = {}  # lists of them, by wrapper and seed


def policies_of(watched):
    return {policy["when"]: policy["held_bytes"] for policy in watched["per_step"]["policies"]}


def count_of(axis, which, operation):
    """Returns how often a step has the operation; 0 of an axis that it does not use."""
    return axis[which].get(operation, {"count": 0})["count"] if axis else 0


class PoliciesTest(WatchedJobTest):
    def check(self, wrapper, policy):
        for seed in seeds:
            with self.subTest(wrapper, policy=policy, seed=seed):
                self.check_once(wrapper, policy, seed)

    def check_once(self, wrapper, policy, seed):
        expected = TABLE[wrapper][policy]
        tally = tallies.setdefault(wrapper, Tally())
        tally.runs += 1
        ranks = RANKS.get(wrapper, USUAL_RANKS)
        watched, printed, outcome, marks = self.seen(ranks, wrapper, policy, seed)
        if not expected.fails:
            tally.correct_jobs += 1
            tally.wrong_accusations += watched["has_excess"]
        status = gate_status(expected.kind, expected.fails or expected.job_fails)
        self.assertEqual(outcome.status, status, outcome.err)
        self.assert_verdicts(watched, expected)
        tally.right_verdicts += 1
        self.assert_line(watched, expected, marks)
        tally.right_lines += 1
        lines = sorted(printed, key=lambda line: line["rank"])
        self.assertEqual([line["rank"] for line in lines], list(range(len(lines))))
        self.assertEqual(len(lines), 0 if expected.job_fails else ranks)
        if lines:
            self.assert_counts(watched, lines)
        if lines and expected.synchronized is not None:
            self.assert_axes(watched, expected, lines[0]["shape"])
        tally.right_axes += 1
        if expected.holds:
            held = Held(policies_of(watched) or {WHOLE: 0}, expected.holds, lines)
            self.check_held(held, seen_holding.setdefault((wrapper, seed), []), tally)

    def seen(self, ranks, *words):
        return *self.watch_job(ranks, JOB, *words), MARKS

    def check_held(self, held, others, tally):
        """`others`: the same job with other policies, as far as they have run."""
        if held.lines[0]["clears"] and held.policy != WHOLE:
            tally.compared += 1
            self.assert_held(held)
            tally.right_bytes += 1
        for other in others:
            tally.compared += 1
            self.assert_difference(held, other)
            tally.right_bytes += 1
        others.append(held)

    def assert_verdicts(self, watched, expected):
        shown = json.dumps(watched["verdicts"], indent=1)
        kinds = tuple(verdict["kind"] for verdict in watched["verdicts"])
        self.assertEqual(kinds, (expected.kind, *expected.also), shown)
        self.assertEqual(watched["has_excess"], expected.fails, shown)
        self.assertEqual(watched["faults"], [])

    def assert_line(self, watched, expected, marks):
        changes = [verdict["change"] for verdict in watched["verdicts"] if verdict["change"]]
        named = [(changes[0]["file"], changes[0]["line"])] if changes else []
        lines = [(str(JOB), marks[f"# line: {expected.line}"])] if expected.line else []
        self.assertEqual(named, lines)

    def assert_counts(self, watched, lines):
        seen = {rank["rank"]: rank["collectives"] for rank in watched["ranks"]}
        self.assertEqual(seen, {line["rank"]: line["collectives"] for line in lines})

    def assert_axes(self, watched, expected, shape):
        per_step = watched["per_step"]
        micro_batches = shape["accumulation_steps"]

        def number(count):
            return micro_batches if count == EACH else count

        self.assertEqual(per_step["micro_batches"], micro_batches)
        self.assertEqual(per_step["synchronized"], number(expected.synchronized))
        axes = {axis["role"]: axis for axis in per_step["axes"] or []}
        self.assertLessEqual(set(axes), {*expected.axes, "tensor", "alone"})
        for role, (now, enough) in expected.axes.items():
            counts = {"collectives": number(now), "ideal": number(enough)}
            counts["excess"] = counts["collectives"] - counts["ideal"]
            got = {which: count_of(axes.get(role), which, OPERATION[role]) for which in counts}
            # Under fully_shard and replicate() each layer is reduced by itself.
            units = shape["units"] or got["collectives"] // max(1, counts["collectives"])
            self.assertGreater(units, 0 if number(now) else -1)
            self.assertEqual(got, {which: units * count for which, count in counts.items()}, role)
        for role in {"tensor", "alone"} & set(axes):
            self.assertEqual(axes[role]["excess"], {})

    def assert_held(self, held):
        """The gradients reported for the policy in force are those that the allocator gave out."""
        for line in held.lines:
            self.assertEqual(held.predicted[held.policy], line["held_bytes"], held.predicted)

    def assert_difference(self, one, other):
        """The reported difference between policies is the difference in the allocator."""
        for predicted in (one.predicted, other.predicted):
            more_bytes = predicted[one.policy] - predicted[other.policy]
            for line, others_line in zip(one.lines, other.lines, strict=True):
                self.assertEqual(more_bytes, line["tensor_bytes"] - others_line["tensor_bytes"])


class RecordedTest(Recorded, PoliciesTest):
    """The whole table, as it was recorded."""

    def seen(self, ranks, wrapper, policy, seed):
        words = wrapper, policy, str(seed)
        run = functools.partial(self.watch_job, ranks, JOB, *words)
        return self.judged(f"policies_{wrapper}", " ".join(words), DIGEST, MARKS, run)


class LiveTest(PoliciesTest):
    """Some of the table."""


class SlowTest(PoliciesTest):
    """All of it."""


def add_test(case, wrapper, policy):
    needs_torch = needing_torch(NEEDED.get(wrapper, "0.0"))
    setattr(case, f"test_{wrapper}_{policy}", needs_torch(lambda s: s.check(wrapper, policy)))


for cell in LIVE:
    add_test(LiveTest, *cell)
for each in TABLE:
    for which in TABLE[each]:
        add_test(RecordedTest, each, which)
        add_test(SlowTest, each, which)


def text_of(tally):
    return (
        f"of {tally.runs} jobs {tally.right_verdicts} verdicts right, "
        f"{tally.right_lines} with their lines, {tally.right_axes} with their axes; "
        f"{tally.wrong_accusations} wrong accusations of {tally.correct_jobs} correct jobs; "
        f"bytes held as predicted in {tally.right_bytes} of {tally.compared}"
    )


def main():
    global seeds
    text, file, rest = parse(__doc__, "--seeds", str, "1")
    seeds = tuple(int(seed) for seed in text.split(","))
    return run(rest, tallies, Tally, text_of, file, "wrappers", seeds=seeds)


if __name__ == "__main__":
    sys.exit(main())
