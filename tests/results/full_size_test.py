"""What is stored of models at full size beside torch's FSDPMemTracker."""

import sys
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "results" / "evidence"))
from full_size import make  # noqa: E402


class StoredTest(unittest.TestCase):
    def test_every_model_and_job_is_there(self):
        names = ("model", "dtypes", "strategy", "accumulation_steps")
        jobs = [tuple(row.cell[name] for name in names) for row in make.stored()]
        expected = [
            (model, dtypes, *job)
            for model, all_dtypes in make.DTYPES.items()
            for dtypes in all_dtypes
            for job in make.JOBS
        ]
        self.assertEqual(jobs, expected)

    def test_what_a_row_is_off_by_is_explained_to_the_byte(self):
        for row in make.stored():
            self.assertEqual(row.off_bytes, row.explained_bytes, row)


if __name__ == "__main__":
    unittest.main(verbosity=2)
