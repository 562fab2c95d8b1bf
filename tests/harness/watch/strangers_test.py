"""The jobs of jobs/strangers/, which are rebuilt after public reports, and those beside them that
are correct: each proves by itself what is said of it. They run without gradsync watch.
"""

import importlib.util
import json
import os
import sys
import unittest
from pathlib import Path

from truths import jobs_in

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "benchmarks"))

from fork_server import ForkServer  # noqa: E402
from program import free_port  # noqa: E402

SKIPPED = 77  # as SKIP_RETURN_CODE in CMakeLists.txt
if importlib.util.find_spec("torch") is None:
    print("skipped: Python's torch is not installed; harness/setup --oracles has it")
    sys.exit(SKIPPED)

CASES = jobs_in(HERE / "jobs" / "strangers")
ENVIRONMENT = {"OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1", "MASTER_ADDR": "127.0.0.1"}


def is_of(name, key):
    return name == key or name.startswith(f"{key}.")


class StrangersTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("GRADSYNC_", "PYTHON"))}
        cls.environment = kept | ENVIRONMENT
        cls.server = ForkServer(sys.executable, cls.environment)

    def found(self, case):
        """Returns what the job's ranks printed, all of which found the same."""
        environment = self.environment | {"MASTER_PORT": str(free_port())}
        done = self.server.run(case.script, *case.words, ranks=case.ranks, env=environment)
        self.assertEqual(done.returncode, 0, done.stderr)
        printed = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
        self.assertEqual(sorted(line.pop("rank") for line in printed), list(range(case.ranks)))
        first, *others = ({**line, "collectives": None} for line in printed)
        self.assertEqual(others, [first] * len(others))
        return first

    def check(self, case):
        truth, found = case.truth, self.found(case)
        for key, step in truth.drift.items():
            steps = {each for name, each in found["drift"].items() if is_of(name, key)}
            self.assertEqual(steps, {step}, key)
        others = [n for n in found["drift"] if not any(is_of(n, key) for key in truth.drift)]
        self.assertEqual(others, [])
        self.assertEqual(set(found["reductions"]), {truth.reductions})
        self.assertEqual(found["said"], [truth.said] * case.ranks)


def one_test(case):
    return lambda self: self.check(case)


for name, each in CASES.items():
    setattr(StrangersTest, f"test_{name}", one_test(each))


if __name__ == "__main__":
    unittest.main(verbosity=2)
