"""What a gate writes obeys results/schema/gate.schema.json, and the schema refuses what it should.

Usage: schema_test.py WRITE_GATE_SAMPLES, the program that writes samples into a directory.
"""

import copy
import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from schemas import complaints, place_in

SLOWER, LOST_NO_SYNC = 1, 2  # rows of the written gate


class GateTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        with tempfile.TemporaryDirectory(prefix="gradsync_test_") as folder:
            subprocess.run([cls.program, folder], check=True)
            cls.gates = {p.stem: json.loads(p.read_text()) for p in Path(folder).glob("*.json")}
        cls.gate = cls.gates["gate"]

    def assert_refused(self, *path, to):
        wrong = copy.deepcopy(self.gate)
        place_in(wrong, path[:-1])[path[-1]] = to
        self.assertNotEqual(complaints("gate", wrong), [], f"{path} = {to!r} was accepted")

    def test_written_gates_are_valid_and_show_every_verdict(self):
        self.assertEqual(set(self.gates), {"gate", "gate_counts", "gate_jobs", "gate_long_names"})
        for name, gate in self.gates.items():
            self.assertEqual(complaints("gate", gate), [], name)
        verdicts = {row["verdict"] for row in self.gate["rows"]}
        self.assertEqual(verdicts, {"pass", "regression", "undecided", "unfit"})
        self.assertNotEqual(self.gates["gate_counts"]["differences"], [])

    def test_every_field_is_required(self):
        for path in (
            (),
            ("baseline",),
            ("rows", SLOWER),
            ("rows", SLOWER, "times"),
            ("rows", SLOWER, "times", "low"),
            ("rows", SLOWER, "times", "phases", 0),
            ("rows", SLOWER, "times", "low", "effect"),
            ("rows", SLOWER, "times", "low", "p"),
            ("rows", SLOWER, "times", "low", "confirmed"),
            ("rows", LOST_NO_SYNC, "counts"),
            ("rows", LOST_NO_SYNC, "counts", "differences", 0),
            ("claims", 0),
            ("claims", 0, "ratio"),
        ):
            for field in place_in(self.gate, path):
                wrong = copy.deepcopy(self.gate)
                del place_in(wrong, path)[field]
                self.assertNotEqual(
                    complaints("gate", wrong), [], f"{path}: {field} may be missing"
                )

    def test_wrong_values_are_refused(self):
        for path, wrong in (
            (("schema",), "gradsync.gate/2"),
            (("surprise",), 1),
            (("verdict",), "fine"),
            (("exit_status",), 2),
            (("time_budget_s",), 0),
            (("settings", "alpha"), 1),
            (("settings", "surprise"), 1),
            (("rows", SLOWER, "reason"), ""),
            (("rows", SLOWER, "verdict"), "failed"),
            (("rows", SLOWER, "cell"), "1x2, baseline"),
            (("rows", SLOWER, "times", "turns"), -1),
            (("rows", SLOWER, "times", "low", "effect", "ci95"), [0.1]),
            (("rows", SLOWER, "times", "low", "p", "slower"), 1.5),
            (("rows", SLOWER, "times", "low", "variance", "between_starts"), -1e-6),
            (("rows", LOST_NO_SYNC, "counts", "differences", 0, "what"), "times"),
            (("rows", LOST_NO_SYNC, "counts", "differences", 0, "sentence"), ""),
            (("claims", 0, "verdict"), "maybe"),
            (("claims", 0, "ratio", "ratio"), 0),
        ):
            self.assert_refused(*path, to=wrong)

    def test_what_is_unknown_or_not_passed_has_a_reason(self):
        self.assert_refused("rows", SLOWER, "times", to=None)
        self.assert_refused("rows", SLOWER, "counts", to=None)
        self.assert_refused("claims", 0, "reason", to="because")
        self.assert_refused("claims", 0, "ratio", to=None)
        self.assert_refused("claims", 1, "reason", to="")


if __name__ == "__main__":
    GateTest.program = sys.argv.pop(1)
    unittest.main(verbosity=2)
