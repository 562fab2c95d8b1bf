"""gradsync judge on files that others wrote of real jobs: the verdict of gradsync watch, or that it
is not in this file, and never an accusation that the job does not deserve.

    judge_test.py [--modes plain,shapes,stack] [--tally FILE] [FastTest] [SlowTest] ...

The jobs are those of watch_verdict_test.py, each run under torch.profiler. At the end, and as JSON
in FILE, stands of each mode how many traces had the verdict of watch, and how many did not hold
what it takes. torch writes the names of functions that it no longer has as what lies in their
memory: where a quotation mark does, no reader takes the trace for JSON.

Covers: judge_command.cpp, traced_collectives.cpp.
"""

import functools
import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path

from fork_server import ForkServer
from program import free_port
from tallies import parse, run
from truths import gate_status
from watch_test import FORKED_RANKS, TORCH_PYTHON, WatchTest, watched_server
from watch_verdict_test import BY_MPIRUN, BY_VALUES, CASES, STRANGERS, needing_torch

PROFILED_RANK = Path(__file__).with_name("profiled_rank.py")
MODES = ("plain", "shapes", "stack")
# What is judged in every run of the tests.
FAST = {"improper": "plain", "baseline_fixed": "shapes"}
# On NCCL a trace names groups, and not that replicas are never reduced: that is not seen.
MISSED_ON_PAPER = ("hsdp_never",)


@dataclass
class Tally:
    """Counts for the traces of one mode, over all jobs."""

    traces: int = 0
    same_verdict: int = 0
    not_in_file: int = 0
    not_json: int = 0  # as Python says, too
    of_correct_jobs: int = 0  # that deserve no accusation
    wrong_accusations: int = 0


tallies = {}  # by mode
modes = MODES


@functools.cache
def server():
    return ForkServer(TORCH_PYTHON, os.environ)


class JudgedTest(WatchTest):
    def end_of_ranks(self, ranks, *words, env):
        """Returns the exit status of a job, and its errors."""
        done = server().run(*words, ranks=ranks, env=os.environ | env)
        return done.returncode, done.stderr

    def profiled(self, name, mode):
        """Returns the traces of a job's ranks."""
        case = CASES[name]
        place = self.place / mode
        status, said = self.end_of_ranks(
            *(case.ranks, PROFILED_RANK, place, mode, case.script, *case.words),
            env={
                "MASTER_ADDR": "127.0.0.1",
                "MASTER_PORT": str(free_port()),
                "OMP_NUM_THREADS": "1",
                "TORCHINDUCTOR_CACHE_DIR": str(self.place / "inductor"),
            },
        )
        self.assertEqual(status, 0, said)
        return [Path(f"{place}.{rank}.json") for rank in range(case.ranks)]

    def judged(self, *files):
        """Returns what it wrote, None: nothing, and how it ended."""
        file = self.place / "judged.json"
        file.unlink(missing_ok=True)
        outcome = self.call("judge", "--json", file, "--fail-on-excess", *files)
        return json.loads(file.read_text()) if file.exists() else None, outcome

    def check(self, name, mode):
        with self.subTest(name, mode=mode):
            self.check_once(name, mode)

    def check_once(self, name, mode):
        truth = CASES[name].truth
        tally = tallies.setdefault(mode, Tally())
        tally.traces += 1
        traces = self.profiled(name, mode)
        judged, outcome = self.judged(*traces)
        if judged is None:
            self.assert_not_json(traces, outcome)
            tally.not_json += 1
            return
        first = judged["verdicts"][0]
        shown = json.dumps(judged["verdicts"], indent=1) + outcome.err
        if not truth.fails:
            tally.of_correct_jobs += 1
            tally.wrong_accusations += judged["has_excess"]
        if first["kind"] == "not_in_file":
            tally.not_in_file += 1
            self.assertFalse(judged["has_excess"], shown)
            self.assertEqual(outcome.status, 4, shown)
            return
        self.assertEqual(first["kind"], truth.kind, shown)
        self.assertLessEqual(judged["has_excess"], truth.fails, shown)
        status = gate_status(first["kind"], judged["has_excess"])
        self.assertEqual(outcome.status, status, shown)
        if first["kind"] not in ("not_recognised", "never"):
            for number in ("synchronized", *(() if truth.varies else ("micro_batches",))):
                self.assertEqual(judged["per_step"][number], getattr(truth, number), number)
        tally.same_verdict += 1

    def assert_not_json(self, traces, outcome):
        self.assertEqual(outcome.status, 2, outcome.err)
        self.assertIn("not valid JSON", outcome.err)
        [named] = [trace for trace in traces if str(trace) in outcome.err]
        with self.assertRaises(ValueError):
            json.loads(named.read_bytes())


class FastTest(JudgedTest):
    """Some jobs."""

    def test_two_files_of_one_rank(self):
        trace, _ = self.profiled("baseline_fixed", "plain")
        twice = self.call("judge", trace, trace)
        self.assertEqual(twice.status, 2, twice.out)
        self.assertIn("two files of rank 0", twice.err)


class SlowTest(JudgedTest):
    """All jobs, in every mode."""


class OnPaper(JudgedTest):
    """On GPUs of paper, over NCCL: the profiler sees what the CPU did, and nothing of the GPU."""

    def end_of_ranks(self, ranks, *words, env):
        on = ("--on", "8xh100")
        place = watched_server(*on).place | {"GRADSYNC_JOB_DEVICE": "cuda"}
        job = (TORCH_PYTHON, FORKED_RANKS, ranks, *words)
        outcome = self.watch(*job, options=on, env=env | place)
        return outcome.status, outcome.err


class OnPaperTest(OnPaper):
    """Some jobs."""

    def test_no_kernels_are_no_reason_to_accuse(self):
        for name in FAST:
            self.check(name, "cuda")
            judged = json.loads((self.place / "judged.json").read_text())
            self.assertIsNone(judged["per_step"]["step_s"])


class SlowOnPaperTest(OnPaper):
    """All jobs whose verdict does not rest on values."""


def add_tests():
    for name, case in CASES.items():
        needs_torch = needing_torch(case.torch)
        if name in FAST:
            test = needs_torch(lambda self, name=name: self.check(name, FAST[name]))
            setattr(FastTest, f"test_{name}", test)
        if name in BY_MPIRUN:
            continue

        def check_all(self, name=name):
            for mode in modes:
                self.check(name, mode)

        setattr(SlowTest, f"test_{name}", needs_torch(check_all))
        if name not in (*BY_VALUES, *STRANGERS, *MISSED_ON_PAPER):
            on_paper = needs_torch(lambda self, name=name: self.check(name, "cuda"))
            setattr(SlowOnPaperTest, f"test_{name}", on_paper)


add_tests()


def text_of(tally):
    return (
        f"of {tally.traces} traces {tally.same_verdict} have the verdict of watch, "
        f"{tally.not_in_file} do not hold it, {tally.not_json} are not JSON, "
        f"{tally.wrong_accusations} wrong accusations"
    )


def main():
    global modes
    modes, file, rest = parse(__doc__, "--modes", lambda text: text.split(","), MODES)
    return run(rest, tallies, Tally, text_of, file, "modes")


if __name__ == "__main__":
    sys.exit(main())
