"""The table of the gate's measured rates, made from lines written by hand, and what is drawn."""

import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

if not all(importlib.util.find_spec(module) for module in ("numpy", "scipy")):
    print("skipped: this Python has no numpy or no scipy; run harness/setup --tests")
    sys.exit(77)

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "results" / "evidence"))
import make as evidence  # noqa: E402, F401 (finds summary)
from gate_rates import campaign, make  # noqa: E402

HOST = {"cpu_model": "A CPU", "cpus": 2, "kernel": "6.1", "commit": "abc1234"}
ROW, OTHER = "a row", "another row"


def gate(kind, status, flagged=(), verdict="undecided", others=0.01):
    slowed = ROW if campaign.KINDS[kind].extra and "commands" not in kind else None
    line = {"kind": kind, "exit_status": status, "flagged": list(flagged), "slowed": slowed}
    line |= {"verdicts": {ROW: verdict, OTHER: "pass"}, "others_share": others, "host": HOST}
    return line | {"start_time": "2026-01-02T03:04:05Z"}


def cells_of(gates):
    """Returns the cells of the table's rows, without its head."""
    rows = [line for line in make.lines_of(gates) if line.startswith("|")][2:]
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]


# Stands for a build of two rows: says to each turn how it was started and which cell was asked for.
ARM = """#!{python}
import json, sys
alone = "--extra-work" in sys.argv
cells = [{{"strategy": "baseline"}}, {{"strategy": "no_sync"}}][alone:]
print(json.dumps({{"event": "hello", "launches": [{{"cells": cells}}]}}), flush=True)
for line in sys.stdin:
    print(json.dumps({{"event": "busy"}}))
    said = {{"event": "trial", "words": sys.argv[1:], "request": json.loads(line)}}
    print(json.dumps(said), flush=True)
"""


class TableTest(unittest.TestCase):
    def test_intervals_by_hand(self):
        for events, trials, low, high in (
            (0, 30, 0, 0.0950),  # 1 - 0.05^(1/30)
            (30, 30, 0.9050, 1),
            (19, 20, 0.7513, 0.9987),
            (1, 2, 0.0126, 0.9874),
        ):
            rate = make.rate_of(events, trials)
            self.assertAlmostEqual(rate["ci95"][0], low, 4)
            self.assertAlmostEqual(rate["ci95"][1], high, 4)

    def test_without_gates_nothing_is_printed(self):
        self.assertEqual(make.lines_of([]), [])

    def test_only_kinds_with_gates_have_a_row(self):
        gates = [gate("short_quiet_aa", 0)] * 29 + [gate("short_quiet_aa", 4, [OTHER])]
        gates += [gate("short_loaded_aa", 3, others=1.0)] * 2
        quiet, loaded = cells_of(gates)
        self.assertEqual(quiet[:4], ["short form, quiet", "none", "30", "1: 3.3 % [0.1, 17.2]"])
        self.assertEqual(quiet[4:], ["-", "29: 96.7 % [82.8, 99.9]"])
        self.assertEqual(loaded[:2], ["short form, beside four busy processes", "none"])
        self.assertEqual(loaded[2:], ["2", "0: 0 % [0, 77.6]", "-", "0: 0 % [0, 77.6]"])

    def test_a_slowed_row_is_found_or_passes_and_another_is_a_false_alarm(self):
        gates = [
            gate("short_quiet_3", 1, [ROW], "regression"),
            gate("short_quiet_3", 1, [OTHER]),
            gate("short_quiet_3", 0, verdict="pass"),
            gate("short_quiet_3", 4, [ROW], "regression"),
        ]
        [cells] = cells_of(gates)
        self.assertEqual(
            [cell.split(":")[0] for cell in cells],
            ["short form, quiet", "3 %", "4", "1", "1", "1"],
        )

    def test_of_commands_the_one_row_is_the_slowed_one(self):
        gates = [gate("commands_5", 1, ["optimizer step"]), gate("commands_5", 0)]
        [cells] = cells_of(gates)
        self.assertEqual([cell.split(":")[0] for cell in cells[2:]], ["2", "-", "1", "1"])

    def test_a_gate_on_a_machine_that_others_used_does_not_count(self):
        gates = [gate("short_quiet_aa", 0), gate("short_quiet_aa", 1, [ROW], others=0.4)]
        [cells] = cells_of(gates)
        self.assertEqual(cells[2:4], ["1", "0: 0 % [0, 95]"])
        self.assertIn("1 gate left out", " ".join(make.lines_of(gates)).replace("\n", " "))


class CampaignTest(unittest.TestCase):
    def test_kinds_take_turns(self):
        names, taken = ["short_quiet_aa", "long_quiet_aa"], []
        for _ in range(8):
            taken.append(campaign.next_kind(names, [gate(name, 0) for name in taken]))
        self.assertEqual(taken.count("short_quiet_aa"), 6)
        done = [gate("long_quiet_aa", 0)] * 10
        self.assertIsNone(campaign.next_kind(["long_quiet_aa"], done))

    def test_each_row_is_drawn_again_alike(self):
        rows = [campaign.drawn("short_quiet_5", number)[1] for number in range(20)]
        self.assertEqual(rows, [campaign.drawn("short_quiet_5", n)[1] for n in range(20)])
        self.assertTrue(all(row in rows for row in campaign.SHORT_ROWS))
        self.assertIsNone(campaign.drawn("short_quiet_aa", 3)[1])

    def test_busy_processes_end_whatever_happens(self):
        with self.assertRaises(KeyboardInterrupt), campaign.busy_processes(2) as group:
            os.killpg(group, 0)
            raise KeyboardInterrupt
        with self.assertRaises(ProcessLookupError):
            for _ in range(1000):  # until they are reaped by whom they were left to
                os.killpg(group, 0)
                time.sleep(0.01)

    def test_list_says_what_is_wanted(self):
        make_py = ROOT / "results" / "evidence" / "make.py"
        command = [sys.executable, make_py, "gate_rates", "list"]
        listed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        self.assertEqual(len(listed.splitlines()), len(campaign.KINDS))
        self.assertRegex(listed, r"(?m)^short_quiet_aa: \d+ of 30, ")

    def test_turns_of_the_slowed_row_go_to_the_build_with_work(self):
        with tempfile.TemporaryDirectory() as folder:
            arm = Path(folder) / "arm"
            arm.write_text(ARM.format(python=sys.executable))
            arm.chmod(0o755)
            script = ROOT / "results" / "evidence" / "gate_rates" / "slowed_row.py"
            row = json.dumps({"strategy": "no_sync"})
            command = [sys.executable, script, arm, "5%", row, "arm", "gate"]
            asked = "".join(json.dumps({"turn": {"cell": cell}}) + "\n" for cell in (0, 1))
            ran = subprocess.run(command, input=asked, check=True, capture_output=True, text=True)
        hello, first, second = (
            said for said in map(json.loads, ran.stdout.splitlines()) if said["event"] != "busy"
        )
        self.assertEqual(len(hello["launches"][0]["cells"]), 2)
        self.assertEqual(first["words"], ["arm", "gate"])
        alone = ["arm", "gate", "--set", "strategy=no_sync", "--extra-work", "5%"]
        self.assertEqual(second["words"], alone)
        self.assertEqual(second["request"], {"turn": {"cell": 0}})

    def test_lines_are_read_as_they_were_written(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "campaign.jsonl"
            self.assertEqual(campaign.stored_gates(path), [])
            path.write_text(json.dumps(gate("long_quiet_3", 1, [ROW])) + "\n")
            self.assertEqual(campaign.counts_of(campaign.stored_gates(path))["long_quiet_3"], 1)


if __name__ == "__main__":
    unittest.main(verbosity=2)
