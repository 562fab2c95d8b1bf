"""gradsync search -- COMMAND: the edge of real training commands, and that of trying every value.

Covers: search_job.cpp, search_of_job.cpp, search_outcome.cpp.
"""

import json
import os
import unittest
from pathlib import Path

from program import ROOT, ProgramTest, free_port
from search_test import schema_validator
from watch_test import CACHE, FORKED_RANKS, TORCH_PYTHON, watched_server

HERE = Path(__file__).resolve().parent
HOLDING = HERE / "holding_training.py"
USAGE, UNFIT, FAILED = 2, 4, 5
FAILS_FROM = """
import os, runpy, sys
if int(sys.argv[1]) > 1:
    raise RuntimeError(sys.argv[2])
sys.argv = sys.argv[3:]
sys.path.insert(0, os.path.dirname(sys.argv[0]))
runpy.run_path(sys.argv[0], run_name="__main__")
"""


class SearchJobTest(ProgramTest):
    def search(self, *arguments, job, ranks=1, on=None):
        paper = ("--on", on) if on else ()
        outcome = self.finish(
            self.start(
                *("search", "--out", self.place / "search", "--force", "--python", TORCH_PYTHON),
                *(*paper, *arguments),
                *("--", TORCH_PYTHON, FORKED_RANKS, ranks, *job),
                env={
                    "XDG_CACHE_HOME": str(CACHE),
                    "TMPDIR": str(self.place),
                    "GRADSYNC_JOB_DEVICE": "cuda" if on else "cpu",
                    **watched_server(*paper).place,
                },
            )
        )
        self.assert_nothing_left()
        return outcome

    def found(self):
        search = json.loads((self.place / "search" / "search.json").read_text())
        schema_validator().validate(search)
        [cell] = search["cells"]
        return cell

    def peak_of(self, ranks, *job):
        """Returns the peak of one start, as gradsync watch sees it."""
        outcome = self.finish(
            self.start(
                *("watch", "--json", self.place / "watched.json", "--python", TORCH_PYTHON),
                *("--", TORCH_PYTHON, FORKED_RANKS, ranks, *job),
                env={
                    "XDG_CACHE_HOME": str(CACHE),
                    "MASTER_PORT": str(free_port()),
                    **watched_server().place,
                },
            )
        )
        self.assertEqual(outcome.status, 0, outcome.err)
        ranks = json.loads((self.place / "watched.json").read_text())["ranks"]
        return max(rank["peak_allocated_bytes"] for rank in ranks)

    def assert_is_the_edge_of_trying_all(self, to, job, ranks=1):
        """`job`: with {}. The budget is what the value before the middle holds."""
        with_value = [[str(word).replace("{}", str(n)) for word in job] for n in range(1, to + 1)]
        peaks = {n: self.peak_of(ranks, *words) for n, words in enumerate(with_value, 1)}
        budget = peaks[(to + 1) // 2]
        tried = max(n for n, peak in peaks.items() if peak <= budget)
        ends = ("--largest", "value", "--to", to)
        outcome = self.search(*ends, "--budget", f"{budget}B", job=job, ranks=ranks)
        self.assertEqual(outcome.status, 0, outcome.out + outcome.err)
        cell = self.found()
        self.assertEqual((cell["outcome"], cell["edge"]), ("found", tried))
        self.assertEqual(cell["peak_allocated_bytes"], peaks[tried])
        for probe in cell["probes"]:
            fits = peaks[probe["value"]] <= budget
            self.assertEqual(probe["status"], "ok" if fits else "oom", probe)
        return outcome


class Edges(SearchJobTest):
    def test_the_edge_is_that_of_trying_every_value(self):
        outcome = self.assert_is_the_edge_of_trying_all(3, (HOLDING, "--window", "{}"))
        self.assertRegex(outcome.out, r"\| +largest value \|")
        self.assertRegex(outcome.out, r"2 fits, 3 does not: oom: ")

    def test_none_may_fit(self):
        ends = ("--largest", "batch", "--to", 2, "--budget", "1KiB", "--steps", 1000)
        # So many that it is ended before it has held all that it would.
        outcome = self.search(*ends, job=(HOLDING, "--steps", 1000, "--batch", "{}"))
        self.assertEqual((outcome.status, self.found()["outcome"]), (UNFIT, "none_fits"))
        self.assertIn(" and more", self.found()["reason"])

    def test_a_job_that_runs_out_of_memory_does_not_fit_and_one_that_fails_stops(self):
        ends = ("--largest", "batch", "--to", 2, "--budget", "1GiB")
        script = self.place / "fails_from.py"
        script.write_text(FAILS_FROM)
        job = (script, "{}", "can't allocate memory", HOLDING, "--batch", "{}")
        outcome = self.search(*ends, job=job)
        self.assertEqual(outcome.status, 0, outcome.err)
        self.assertEqual(self.found()["edge"], 1)
        job = (script, "{}", "no data", HOLDING, "--batch", "{}")
        outcome = self.search(*ends, job=job)
        self.assertEqual(outcome.status, FAILED, outcome.err)
        self.assertEqual(self.found()["outcome"], "stopped")
        self.assertIn("no data", self.found()["reason"])

    def test_a_peak_that_is_not_known_is_no_answer(self):
        ends = ("--largest", "batch", "--to", 5, "--budget", "1GiB")
        outcome = self.search(*ends, job=(HOLDING, "--own-allocator", "--batch", "{}"))
        self.assertEqual(outcome.status, UNFIT, outcome.err)
        self.assertIn("allocator of its own", self.found()["reason"])

    def test_bad_input_is_told_before_a_job_is_started(self):
        job = (self.place / "none.py", "{}")
        largest = ("--largest", "batch", "--to", 5)
        budget = ("--budget", "1GiB")
        for arguments, words in (
            ((*largest,), ("--budget is missing", "--on")),
            ((*largest, "--on", "8xk80"), ("--on: GPUs '8xk80'",)),
            ((*largest, "--budget", "much"), ("--budget", "much")),
            (("--largest", "batch", *budget), ("--to is missing",)),
            (("--largest", "batch", "--to", 1, *budget), ("--to: got 1", "--from")),
            (("--smallest", "memory_budget_bytes", *budget), ("--largest",)),
            ((*largest, *budget, "smoke"), ("plan smoke and a COMMAND",)),
            ((*largest, *budget, "--set", "seed=1"), ("seed=1", "no fields of a plan")),
            ((*largest, *budget, "--steps", "0"), ("--steps", "at least 1")),
        ):
            self.assert_refused(self.search(*arguments, job=job), *words)
        outcome = self.search(*largest, *budget, job=(self.place / "none.py",))
        self.assert_refused(outcome, "COMMAND without {}")
        self.assert_refused(self.call("search", "smoke", *largest, *budget), "--budget", "COMMAND")


class OnPaper(SearchJobTest):
    """What does not fit there torch's own allocator does not get."""

    gpus = "1xa100-80"  # 79.15 GiB
    ends = ("--largest", "ten_gb", "--from", 7, "--to", 9, "--checks", 0)
    job = (HOLDING, "--more", "{}0000000000")

    def test_the_memory_of_the_gpus_is_the_budget(self):
        outcome = self.search(*self.ends, job=self.job, on=self.gpus)
        self.assertEqual(outcome.status, 0, outcome.err)
        cell = self.found()
        self.assertEqual((cell["outcome"], cell["edge"]), ("found", 8))
        self.assertGreater(cell["peak_allocated_bytes"], 80e9)
        self.assertIn("CUDA out of memory. Tried to allocate 83.82 GiB", cell["reason"])
        self.assertEqual(cell["cell"]["gpus_of_paper"], self.gpus)
        self.assertNotIn("memory_budget_bytes", cell["cell"])
        self.assertIn(f"GPUs of paper: nothing was computed or timed ({self.gpus})", outcome.out)

    def test_a_budget_holds_in_addition(self):
        budget = ("--budget", "75GB")
        outcome = self.search(*self.ends, *budget, job=self.job, on=self.gpus)
        self.assertEqual(outcome.status, 0, outcome.err)
        self.assertEqual(self.found()["edge"], 7)
        self.assertEqual(self.found()["cell"]["memory_budget_bytes"], 75_000_000_000)

    def test_a_job_without_a_gpu_is_no_answer(self):
        job = ("-c", "import torch; torch.optim.SGD([torch.zeros({})], lr=0.1).step()")
        search = (
            "search",
            "--largest",
            "n",
            "--to",
            2,
            "--on",
            self.gpus,
            "--python",
            TORCH_PYTHON,
        )
        env = {"XDG_CACHE_HOME": str(CACHE)}
        out = ("--out", self.place / "search")
        outcome = self.call(*search, *out, "--", TORCH_PYTHON, *job, env=env)
        self.assertEqual(outcome.status, UNFIT, outcome.out + outcome.err)
        self.assertIn("used no GPU that could be seen", self.found()["reason"])


class UnderTorchrun(SearchJobTest):
    def test_memory_that_is_out_is_told_above_the_launchers_last_words(self):
        script = self.place / "fails_from.py"
        script.write_text(FAILS_FROM)
        torchrun = ("-m", "torch.distributed.run", "--nproc-per-node=1")
        job = (script, "{}", "can't allocate memory", HOLDING, "--batch", "{}")
        search = ("search", "--largest", "batch", "--to", 2, "--budget", "1GiB", "--checks", 0)
        where = ("--out", self.place / "search", "--python", TORCH_PYTHON)
        env = {"XDG_CACHE_HOME": str(CACHE)}
        outcome = self.call(*search, *where, "--", TORCH_PYTHON, *torchrun, *job, env=env)
        self.assertEqual(outcome.status, 0, outcome.out + outcome.err)
        self.assertEqual(self.found()["edge"], 1)
        self.assertIn("can't allocate memory", self.found()["reason"])


class Slow(SearchJobTest):
    def test_jobs_of_two_ranks(self):
        for job in (
            (HOLDING, "--window", "{}"),
            (HOLDING, "--batch", "{}"),
            (HOLDING, "--more", "{}000"),
        ):
            with self.subTest(job=job[1]):
                self.assert_is_the_edge_of_trying_all(8, job, ranks=2)


if __name__ == "__main__":
    os.chdir(ROOT)
    unittest.main(verbosity=2)
