"""Pictures of a part with more settings than one can show, and legends wider than their picture.

Covers: attribution.py, run_data.py, slowdown.py, step_memory.py, style.py.
"""

import sys
import unittest
from pathlib import Path

from matplotlib.lines import Line2D
from plot_test import WithSampleRun

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "plot"))
import run_data
import slowdown
import style

PART = "your_machine"
MANY = range(2, 2 + run_data.MOST_SETTINGS)  # with what is there already: more than one can show


class ACrowd(WithSampleRun):
    def crowd(self, result):
        """Every setting once more with every n-th unit checkpointed; of these the second is on the
        front, the third is not."""
        cells = [cell for cell in result["cells"] if cell["part"] == PART]
        ways = []
        for every in MANY:
            for cell in cells:
                way = cell | {"cell": cell["cell"] | {"activation_checkpointing": f"every_{every}"}}
                ways.append(way)
        result["cells"] += ways
        points = [
            {"cell": ways[len(cells) * i]["cell"], "on_front": i == 1}
            | {"peak_allocated_bytes": 2**20, "step_s": 1.0, "vs_fastest": None}
            for i in (1, 2)
        ]
        result["fronts"] = [{"part": PART, "cell": cells[0]["cell"], "points": points}]

    def part(self):
        run = run_data.read(self.directory)
        return run, next(part for part in run.parts if part.name == PART)

    def test_shows_what_is_on_its_fronts(self):
        self.edit_result(self.crowd)
        _, part = self.part()
        self.assertTrue(part.is_crowded())
        (shown,) = part.example_settings()
        self.assertIn('"activation_checkpointing": "every_3"', shown)

    def test_names_what_differs_from_how_things_come(self):
        self.edit_result(self.crowd)
        _, part = self.part()
        plain, *others = (cell["cell"] for cell in part.cells)
        self.assertEqual(style.setting_words(part, plain), [])
        self.assertEqual(
            style.setting_words(part, others[-1]), ["activation_checkpointing every_9"]
        )

    def test_is_no_row_of_bars(self):
        others = slowdown.draw(self.part()[0]).axes
        self.edit_result(self.crowd)
        self.assertEqual(len(slowdown.draw(self.part()[0]).axes), len(others) - 1)

    def test_without_fronts_all_are_shown(self):
        self.edit_result(self.crowd)
        self.edit_result(lambda result: result.pop("fronts"))
        _, part = self.part()
        self.assertFalse(part.is_crowded())
        self.assertGreater(len(part.example_settings()), run_data.MOST_SETTINGS)


class Legends(WithSampleRun):
    def test_stay_within_their_picture(self):
        figure, _ = style.plt.subplots(figsize=(6.6, 4))
        entries = [Line2D([], [], label=f"a rather long word for entry {i}") for i in range(8)]
        style.finish(figure, run_data.read(self.directory), "title", entries)
        (legend,) = figure.legends
        self.assertEqual(len(legend.get_texts()), len(entries))
        width = legend.get_window_extent(figure.canvas.get_renderer()).width
        self.assertLessEqual(width, figure.bbox.width)


if __name__ == "__main__":
    unittest.main()
