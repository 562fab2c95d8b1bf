"""Error rates as they are written obey their schema, and the schema refuses what it should.

Usage: error_rates_schema_test.py WRITE_ERROR_RATES, the program that writes some into a file.
"""

import copy
import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

SCHEMA = Path(__file__).resolve().parents[3] / "results/schema/gate_error_rates.schema.json"
SKIPPED = 77  # as SKIP_RETURN_CODE in CMakeLists.txt

try:
    import jsonschema
except ImportError:
    print("skipped: jsonschema is not installed; harness/setup --oracles has it")
    sys.exit(SKIPPED)

WRITE_ERROR_RATES = sys.argv.pop(1)


class ErrorRates(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.validator = jsonschema.Draft202012Validator(json.loads(SCHEMA.read_text()))
        with tempfile.TemporaryDirectory(prefix="gradsync_test_") as folder:
            file = Path(folder) / "error_rates.json"
            subprocess.run([WRITE_ERROR_RATES, str(file)], check=True)
            cls.rates = json.loads(file.read_text())

    def test_what_is_written_is_valid(self):
        complaints = [error.message for error in self.validator.iter_errors(self.rates)]
        self.assertEqual(complaints, [])
        kinds = [replay["gates_are"] for replay in self.rates["replays"]]
        self.assertEqual(set(kinds), {"relabelled", "one_row_slowed"})

    def test_what_older_versions_wrote_stays_valid(self):
        replay = {"extra_work": 0.03, "starts_are": "reused", "starts": 10}
        replay |= {"flagged": [], "found_within": [], "verdicts": {}}
        older = {key: self.rates[key] for key in ("name", "context", "settings")}
        older |= {"schema": "gradsync.gate_error_rates/1", "replays": [replay]}
        self.assertTrue(self.validator.is_valid(older))
        replay["starts_are"] = "fresh"
        self.assertFalse(self.validator.is_valid(older))

    def test_what_is_wrong_is_refused(self):
        flagged = ("replays", 0, "false_alarms", 0, "gates")
        for path, wrong in (
            (("schema",), "gradsync.gate_error_rates/3"),
            (("control", "low", "ci95"), [0.1]),
            (("unknown",), 1),
            (("replays", 0, "gates_are"), "reused"),
            (("replays", 0, "extra_work"), -0.1),
            (("replays", 0, "verdicts", "maybe"), {}),
            ((*flagged, "shares"), [2]),
            ((*flagged, "rate"), 1.5),
            ((*flagged, "ci95"), [0.5]),
        ):
            with self.subTest(path=path):
                changed = copy.deepcopy(self.rates)
                place = changed
                for step in path[:-1]:
                    place = place[step]
                place[path[-1]] = wrong
                self.assertFalse(self.validator.is_valid(changed), f"{wrong!r} was accepted")


if __name__ == "__main__":
    unittest.main(verbosity=2)
