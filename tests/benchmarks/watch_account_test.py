"""gradsync watch --account from end to end: the jobs of tests/harness/watch/account_jobs/, with
what their account is to say, and weights that are known.

    watch_account_test.py [FastTest | SlowTest | WatchedJobsTest | StrangersTest]

Covers: harness/watch/inject/hook/gradsync_watch_standing.py,
harness/watch/inject/hook/gradsync_watch_told.py.
"""

import json
import sys
import unittest

from program import ROOT, free_port
from truths import gate_status, jobs_in
from watch_test import FORKED_RANKS, TORCH_PYTHON, WatchTest, watched_server

sys.path.insert(0, str(ROOT / "tests" / "harness"))

from schemas import complaints

JOBS = ROOT / "tests" / "harness" / "watch" / "account_jobs"
BUGS = JOBS / "bugs.py"
CASES = jobs_in(JOBS)
WATCHED_JOBS = ROOT / "tests" / "harness" / "watch" / "jobs"
WATCHED_CASES = jobs_in(WATCHED_JOBS)
STRANGERS = jobs_in(WATCHED_JOBS / "strangers")
STARTED_OTHERWISE = ("by_mpi",)
WITHOUT_AN_ACCOUNT = ("lbfgs",)  # no step of theirs can be recorded
# Ranks keep the last micro-batches to themselves, or all, or no gradient reaches the optimizer.
OF_WRONG_GRADIENTS = (
    "all_quiet",
    "epoch_end",
    "first_alone",
    "hsdp_never",
    "mirrored",
    "one_f_one_b_never",
    "replicate_never",
    "varying_by_number",
)
# What runs with every change.
FAST = (
    "doubled_in_every_micro_batch",
    "experts_of_one_shard",
    "sharded_and_synchronized_once",
    "sharded_by_fsdp1_in_views",
    "sharpness_aware",
)
SEEDS = (0, 1, 2)


class AccountTest(WatchTest):
    def account_of(self, job, ranks=2, seed=0, options=(), **env):
        """Returns the outcome, and the account as JSON, of a job: a script and words behind it."""
        outcome, account = self.watched_account((*job, seed), ranks, options, **env)
        self.assertIsNotNone(account, outcome.err)
        self.assertEqual(account["faults"], [], outcome.err)
        return outcome, account

    def watched_account(self, job, ranks, options=(), **env):
        """Returns the outcome, and the account as JSON; None where no step could be recorded."""
        written = self.place / "watched.json"
        place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
        outcome = self.watch(
            TORCH_PYTHON,
            FORKED_RANKS,
            *map(str, (ranks, *job)),
            options=("--account", "--every", "1", "--json", written, *options),
            env={"OMP_NUM_THREADS": "1", **watched_server().place, **place, **env},
        )
        self.assertIn(outcome.status, (0, 1, 4), outcome.err)
        watched = json.loads(written.read_text())
        self.assertEqual(complaints("watch", watched), [])
        return outcome, watched["account"]

    def check(self, name, seed):
        case = CASES[name]
        truth = case.truth
        outcome, account = self.account_of((case.script, *case.words), case.ranks, seed)
        shown = json.dumps(account["verdicts"], indent=1)
        first, *others = account["verdicts"]
        self.assertEqual(first["kind"], truth.kind, shown)
        self.assertIn(truth.says, first["sentence"])
        self.assertIn(truth.why, first["why"])
        self.assertEqual(first["is_off"], truth.is_off, shown)
        self.assertFalse(any(other["is_off"] for other in others), shown)
        if truth.also:
            self.assertIn(truth.also, others[0]["sentence"])
        else:
            self.assertEqual(others, [])
        self.assertIn(f"ACCOUNT: {first['sentence'].split()[0]}", outcome.err)

    def check_weights(self, ranks, micro_batches, **env):
        """Micro-batch i weighs 1.1^(M - 1 - i) / ranks, on every rank. Returns the largest error of
        a weight, as a share of it.
        """
        env |= {"MICRO_BATCHES": str(micro_batches)}
        _, account = self.account_of((BUGS, "known_weights"), ranks, **env)
        [group] = account["shown"]["groups"]
        self.assertEqual(len(group["weights"]), ranks)
        errors = []
        for of_rank in group["weights"]:
            self.assertEqual(len(of_rank), micro_batches)
            for i, estimate in enumerate(of_rank):
                right = 1.1 ** (micro_batches - 1 - i) / ranks
                errors.append(abs(estimate["weight"] / right - 1))
        self.assertLess(max(errors), 1e-3)
        return max(errors)


class FastTest(AccountTest):
    """What every change is tested with."""

    def test_weights_are_recovered_under_ddp_and_fully_shard(self):
        self.check_weights(2, 8)
        self.check_weights(3, 2, SHARDED="1")

    def test_an_account_that_is_off_fails_the_job_that_asked_for_it(self):
        outcome, _ = self.account_of(
            (BUGS, "cleared_after_the_first"), options=("--fail-on-excess",)
        )
        self.assertEqual(outcome.status, 1)

    def test_a_share_of_the_parameters_is_enough(self):
        options = ("--sample", "0.5")
        _, account = self.account_of((BUGS, "overwritten_by_the_last"), options=options)
        self.assertEqual(account["verdicts"][0]["kind"], "dropped")
        [group] = account["shown"]["groups"]
        self.assertLess(len(group["parameters"]), 4)


class SlowTest(AccountTest):
    """All jobs with three seeds, and all shapes."""

    def test_weights_are_recovered(self):
        errors = {}
        for wrapper, env in (("ddp", {}), ("fully_shard", {"SHARDED": "1"})):
            for ranks in (2, 3, 4, 8):
                for micro_batches in (1, 3, 8, 16):
                    cell = (wrapper, ranks, micro_batches)
                    with self.subTest(cell):
                        errors[cell] = self.check_weights(ranks, micro_batches, **env)
        worst = max(errors, key=errors.get)
        print(f"{len(errors)} cells, largest error {errors[worst]:.2g} in {worst}")

    def test_a_factor_of_1_02_on_one_micro_batch_of_eight_is_seen(self):
        seeds = range(20)
        seen = 0
        for seed in seeds:
            job = (BUGS, "one_of_eight_counts_2_percent_more")
            _, account = self.account_of(job, seed=seed)
            verdict = account["verdicts"][0]
            seen += verdict["is_off"] and "3 of 8 weighs 1.02 x" in verdict["sentence"]
        self.assertEqual(seen, len(seeds))


class WatchedJobsTest(AccountTest):
    """The jobs of the tests of verdicts on synchronization. Except for some, their gradients are
    right however often they synchronize, and no account accuses them.
    """

    def check_job(self, name):
        case = WATCHED_CASES[name]
        outcome, account = self.watched_account((case.script, *case.words), case.ranks)
        said = [] if account is None else account["verdicts"]
        is_off = any(verdict["is_off"] for verdict in said)
        self.assertEqual(is_off, name in OF_WRONG_GRADIENTS, outcome.err)
        self.assertEqual([] if account is None else account["faults"], [])
        self.assertEqual(name in WITHOUT_AN_ACCOUNT, account is None, outcome.err)


class StrangersTest(AccountTest):
    """Jobs that were rebuilt after public reports, and correct ones beside them: with an account,
    watching fails those whose gradient is wrong.
    """

    def check_job(self, name):
        case = STRANGERS[name]
        truth = case.truth
        options = ("--fail-on-excess",)
        outcome, _ = self.watched_account((case.script, *case.words), case.ranks, options)
        fails = truth.fails if truth.fails_by_account is None else truth.fails_by_account
        self.assertEqual(outcome.status, gate_status(truth.kind, fails), outcome.err)


def one_watched_job(name):
    return lambda self: self.check_job(name)


for job in WATCHED_CASES:
    if job not in STARTED_OTHERWISE:
        setattr(WatchedJobsTest, f"test_{job}", one_watched_job(job))


for job in STRANGERS:
    setattr(StrangersTest, f"test_{job}", one_watched_job(job))


def one_test(name, seeds):
    def test(self):
        for seed in seeds:
            with self.subTest(name, seed=seed):
                self.check(name, seed)

    return test


for job in CASES:
    if job in FAST:
        setattr(FastTest, f"test_{job}", one_test(job, SEEDS[:1]))
    setattr(SlowTest, f"test_{job}", one_test(job, SEEDS))


if __name__ == "__main__":
    unittest.main(verbosity=2)
