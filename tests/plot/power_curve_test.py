"""Draws error rates and looks at what comes out: power_curve_test.py PATH/TO/write_error_rates."""

import copy
import json
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
PLOT = ROOT / "plot" / "power_curve.py"
SKIPPED = 77

try:
    from pictures import plot, share_of
except ImportError:
    print("skipped: this Python has no matplotlib; run harness/setup --tests")
    sys.exit(SKIPPED)

sys.path.insert(0, str(PLOT.parent))
import power_curve  # noqa: E402
import run_data  # noqa: E402
import style  # noqa: E402

WRITE_ERROR_RATES = sys.argv.pop(1)


class WithErrorRates(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        with tempfile.TemporaryDirectory(prefix="gradsync_test_") as folder:
            file = Path(folder) / "error_rates.json"
            subprocess.run([WRITE_ERROR_RATES, str(file)], check=True)
            cls.written = json.loads(file.read_text())

    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.file = Path(scratch.name) / "error_rates.json"
        self.rates = copy.deepcopy(self.written)
        self.store()

    def store(self):
        self.file.write_text(json.dumps(self.rates))


class Draws(WithErrorRates):
    def test_the_picture_lies_beside_the_file_and_shows_something(self):
        done = plot(PLOT, self.file)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        written = {path.name for path in self.file.parent.iterdir()}
        self.assertEqual(written, {"error_rates.json", "power_curve.png", "power_curve.svg"})
        picture = self.file.with_name("power_curve.png")
        self.assertGreater(share_of(power_curve.GATE_COLOUR, picture), 0.0005)
        self.assertGreater(share_of(power_curve.VERDICTS["pass"], picture), 0.005)
        svg = xml.etree.ElementTree.parse(self.file.with_name("power_curve.svg")).getroot()
        self.assertTrue(svg.tag.endswith("svg"))

    def test_points_and_intervals_are_those_of_the_file(self):
        axes = power_curve.draw(self.rates).axes[0]
        replays = power_curve.shown(self.rates)
        gate = [power_curve.flagged(replay) for replay in replays]
        points, *rest = axes.get_lines()
        self.assertEqual(list(points.get_ydata()), [rate["rate"] for rate in gate])
        for line, rate in zip(rest, gate, strict=False):
            self.assertEqual(list(line.get_ydata()), rate["ci95"])

    def test_shares_of_the_verdicts_fill_the_bars(self):
        axes = power_curve.draw(self.rates).axes[1]
        heights = {}
        for bar in axes.patches:
            heights[bar.get_x()] = heights.get(bar.get_x(), 0) + bar.get_height()
        self.assertEqual(len(heights), 6)
        for height in heights.values():
            self.assertAlmostEqual(height, 1)

    def test_the_same_rates_give_the_same_svg(self):
        texts = []
        for name in ("first", "second"):
            folder = self.file.parent / name
            style.save({"power_curve": power_curve.draw(self.rates)}, folder)
            texts.append((folder / "power_curve.svg").read_text())
        self.assertEqual(*texts)


class Chooses(WithErrorRates):
    def test_without_extra_work_any_row_counts_and_with_it_the_slowed_one(self):
        same, *slowed = power_curve.shown(self.rates)
        self.assertEqual(power_curve.flagged(same), same["false_alarms"][0]["gates"])
        for replay in slowed:
            self.assertEqual(power_curve.flagged(replay), replay["found"][0]["gates"])

    def test_replays_without_a_gate_are_left_out(self):
        self.rates["replays"][2]["gates"] = 0
        shown = power_curve.shown(self.rates)
        self.assertEqual([replay["extra_work"] for replay in shown], [0, 0.01, 0.03, 0.05, 0.1])

    def test_false_alarms_are_those_of_whole_gates_without_extra_work(self):
        words = power_curve.false_alarm_words(power_curve.shown(self.rates))
        rate = 100 * self.rates["replays"][0]["false_alarms"][0]["gates"]["rate"]
        self.assertIn(f"(4 gates): {rate:.1f} %", words)
        self.assertEqual(power_curve.false_alarm_words([self.rates["replays"][4]]), "")


class SaysWhatIsWrong(WithErrorRates):
    def assert_refused(self, *words):
        done = plot(PLOT, self.file)
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertEqual(len(done.stderr.strip().splitlines()), 1, done.stderr)
        for word in words:
            self.assertIn(word, done.stderr)

    def test_another_schema(self):
        self.rates["schema"] = "other/1"
        self.store()
        self.assert_refused("error_rates.json", "other/1", power_curve.SCHEMA)

    def test_broken_json(self):
        self.file.write_text('{"schema":')
        self.assert_refused("error_rates.json", "line 1")

    def test_no_gate_at_all(self):
        self.rates["replays"] = []
        self.store()
        self.assert_refused("error_rates.json", "replays")

    def test_no_file(self):
        self.file.unlink()
        self.assert_refused("error_rates.json", "not found, expected the error rates of a gate")

    def test_the_error_is_the_one_of_all_pictures(self):
        self.file.unlink()
        self.assertRaises(run_data.DataError, power_curve.read, self.file)


if __name__ == "__main__":
    unittest.main(verbosity=2)
