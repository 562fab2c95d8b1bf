"""Draws sample gates and looks at what comes out: forest_test.py PATH/TO/write_gate_samples."""

import json
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
FOREST = ROOT / "plot" / "forest.py"
SKIPPED = 77

try:
    import matplotlib.colors
    import matplotlib.image
    from pictures import plot
except ImportError:
    print("skipped: this Python has no matplotlib; run harness/setup --tests")
    sys.exit(SKIPPED)

sys.path.insert(0, str(FOREST.parent))
import forest  # noqa: E402
import style  # noqa: E402

WRITE_GATE_SAMPLES = sys.argv.pop(1)
LEAST_SHARE = 0.0003  # of all pixels, for a verdict's colour


def texts(axes):
    return [text.get_text() for text in axes.texts]


def names(axes):
    return [label.get_text() for label in axes.get_yticklabels()]


def verticals(axes):
    """Where lines stand from the bottom of the panel to its top."""
    return sorted(
        line.get_xdata()[0] for line in axes.lines if list(line.get_ydata()) in ([0, 1], [0.0, 1.0])
    )


class WithSampleGates(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.directory = Path(scratch.name)
        subprocess.run([WRITE_GATE_SAMPLES, str(self.directory)], check=True)
        self.path = self.directory / "gate.json"
        self.gate = forest.read(self.path)

    def draw(self):
        figure = forest.draw(self.gate)
        self.addCleanup(style.plt.close, figure)
        return figure


class DrawsAGate(WithSampleGates):
    def test_the_picture_is_there_and_shows_every_verdict(self):
        done = plot(FOREST, self.path)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        pixels = matplotlib.image.imread(self.directory / "forest.png")[..., :3]
        self.assertGreaterEqual(min(pixels.shape[:2]), 500)
        for verdict, colour in forest.VERDICTS.items():
            near = abs(pixels - matplotlib.colors.to_rgb(colour)).max(axis=2) < 0.02
            self.assertGreater(near.mean(), LEAST_SHARE, verdict)
        svg = xml.etree.ElementTree.parse(self.directory / "forest.svg").getroot()
        self.assertTrue(svg.tag.endswith("svg"))

    def test_rows_have_their_names_and_verdicts(self):
        rows = self.draw().axes[0]
        self.assertEqual(names(rows), [row["name"] for row in self.gate.found["rows"]])
        words = ["pass", "regression", "regression: counts", "undecided", "unfit"]
        self.assertEqual(texts(rows), words)

    def test_effects_and_intervals_are_those_of_the_file(self):
        rows = self.draw().axes[0]
        points = {
            (round(x, 6), y) for line in rows.lines for x, y in zip(*line.get_data(), strict=True)
        }
        for y, row in enumerate(self.gate.found["rows"]):
            for name, (_, _, offset) in forest.MEASURES.items():
                effect = row["times"][name]["effect"]
                for value in (effect["value"], *effect["ci95"]):
                    self.assertIn((round(100 * value, 6), y + offset), points)
            control = row["times"]["low"]["control"]["value"]
            self.assertIn((round(100 * control, 6), y + forest.CONTROL_OFFSET), points)

    def test_margin_and_smallest_effects_are_lines(self):
        self.assertEqual(verticals(self.draw().axes[0]), [0, 1, 3, 4])
        del self.gate.found["settings"]["mean_smallest_effect"]
        self.assertEqual(verticals(self.draw().axes[0]), [0, 1, 3])

    def test_claims_have_a_panel_with_what_they_need(self):
        claims = self.draw().axes[1]
        self.assertEqual(names(claims), [claim["name"] for claim in self.gate.found["claims"]])
        self.assertEqual(texts(claims), ["pass", "undecided", "regression"])
        ends = {line.get_xdata()[0] for line in claims.lines if len(set(line.get_xdata())) == 1}
        self.assertLessEqual({1.5, 0.95, 1.05, 2.0}, ends)

    def test_the_same_gate_gives_the_same_svg(self):
        written = []
        for name in ("first", "second"):
            style.save({"forest": forest.draw(self.gate)}, self.directory / name)
            written.append((self.directory / name / "forest.svg").read_text())
        self.assertEqual(*written)


class NamesWhatWasCompared(WithSampleGates):
    def texts_of_a_gate_of(self, baseline, candidate):
        """The picture, its title and its foot."""
        for side, name in (("baseline", baseline), ("candidate", candidate)):
            self.gate.found[side]["name"] = name
        figure = self.draw()
        figure.canvas.draw()
        return figure, figure.texts[0], figure.texts[-1]

    def test_a_dollar_is_no_formula(self):
        name = "sh -c 'python $A_{$B train.py'"
        _, title, _ = self.texts_of_a_gate_of(name, "b")
        self.assertIn(f"{name} against b", title.get_text())

    def test_long_commands_stay_inside_the_picture(self):
        long = "torchrun --nproc-per-node 2 " + "/a/long/path/to/train.py --option " * 20
        figure, title, _ = self.texts_of_a_gate_of("first " + long, "second " + long)
        for word in ("first", "against second", "..."):
            self.assertIn(word, title.get_text())
        box = title.get_window_extent()
        self.assertGreaterEqual(box.x0, 0)
        self.assertLessEqual(box.x1, figure.bbox.width)
        self.assertLessEqual(box.y1, figure.bbox.height)

    def test_what_is_not_known_is_not_at_the_foot(self):
        self.gate.found["candidate"]["context"] = {"torch": "2.11.0", "world_size": 2}
        _, _, foot = self.texts_of_a_gate_of("a", "b")
        self.assertEqual(foot.get_text(), f"torch 2.11.0, plan {self.gate.found['plan']}")
        self.gate.found["candidate"]["context"] |= {"gradsync": "0.1.0", "commit": "3f2c1ab"}
        _, _, foot = self.texts_of_a_gate_of("a", "b")
        self.assertIn("gradsync 0.1.0 (3f2c1ab), torch 2.11.0", foot.get_text())


class LeavesOutWhatWasNotMeasured(WithSampleGates):
    def test_a_row_without_times_is_its_word_alone(self):
        self.gate.found["rows"][2]["times"] = None
        rows = self.draw().axes[0]
        self.assertEqual(texts(rows)[2], "regression: counts")
        heights = {y for line in rows.lines for y in line.get_ydata() if 1.5 < y < 2.5}
        self.assertEqual(heights, set(), "nothing is drawn in its place")

    def test_without_any_effect_nothing_is_drawn_and_that_is_said(self):
        done = plot(FOREST, self.directory / "gate_counts.json")
        self.assertEqual(done.returncode, 0)
        self.assertIn("nothing to draw", done.stderr)
        self.assertFalse((self.directory / "forest.png").exists())

    def test_without_claims_there_is_one_panel(self):
        self.gate = forest.read(self.directory / "gate_long_names.json")
        self.assertEqual(len(self.draw().axes), 1)


class SaysWhatIsWrong(WithSampleGates):
    def assert_refused(self, *words):
        done = plot(FOREST, self.path)
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertEqual(len(done.stderr.strip().splitlines()), 1, done.stderr)
        for word in words:
            self.assertIn(word, done.stderr)

    def test_no_file(self):
        self.path.unlink()
        self.assert_refused("gate.json", "not found")

    def test_another_file(self):
        self.path.write_text(json.dumps({"schema": "gradsync.result/1"}))
        self.assert_refused("gate.json", "schema", "gradsync.result/1", "gradsync.gate/1")

    def test_no_json(self):
        self.path.write_text('{"schema":')
        self.assert_refused("gate.json", "line 1")


if __name__ == "__main__":
    unittest.main(verbosity=2)
