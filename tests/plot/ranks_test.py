"""Draws predicted steps against ranks and looks at what comes out."""

import json
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
PLOT = ROOT / "plot" / "ranks.py"
SKIPPED = 77

try:
    from pictures import plot, share_of
except ImportError:
    print("skipped: this Python has no matplotlib; run harness/setup --tests")
    sys.exit(SKIPPED)

sys.path.insert(0, str(PLOT.parent))
import ranks  # noqa: E402
import style  # noqa: E402


def row(strategy, world_size, compute_s, exposed_s, accumulation=4):
    step_s = compute_s + exposed_s
    return {
        "cell": {"model": "bert", "strategy": strategy, "accumulation_steps": accumulation},
        "world_size": world_size,
        "step_s": step_s,
        "interval90_s": [0.9 * step_s, 1.1 * step_s],
        "compute_s": compute_s,
        "exposed_s": exposed_s,
    }


ROWS = [
    row("baseline", 8, 1, 3),
    row("baseline", 2, 1, 0.5),
    row("baseline", 4, 1, 2),
    row("no_sync", 2, 1, 0.1),
    row("no_sync", 4, 1, 0.2),
    row("no_sync", 8, 1, 0.3),
]


class Draws(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.file = Path(scratch.name) / "predicted.json"

    def test_the_picture_lies_beside_the_file_and_shows_both_strategies(self):
        self.file.write_text(json.dumps(ROWS))
        done = plot(PLOT, self.file)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        for strategy in ("baseline", "no_sync"):
            colour = style.COLOURS[strategy]
            self.assertGreater(share_of(colour, self.file.with_name("ranks.png")), 0.0005)

    def test_points_are_those_of_the_file_by_ranks(self):
        figure = ranks.draw(ROWS)
        axes = figure.axes[0]
        baseline, dot, no_sync = axes.get_lines()
        self.assertEqual(list(baseline.get_xdata()), [2, 4, 8])
        self.assertEqual(list(baseline.get_ydata()), [1.5, 3, 4])
        self.assertEqual(list(no_sync.get_ydata()), [1.1, 1.2, 1.3])
        self.assertEqual((list(dot.get_xdata()), list(dot.get_ydata())), ([4], [3]))
        style.plt.close(figure)

    def test_it_says_where_synchronization_begins_to_dominate(self):
        lines = ranks.lines_of(ROWS)
        words = [ranks.words_of(name, line) for name, line in lines.items()]
        self.assertEqual(
            words,
            [
                "baseline: waits longer than it computes from 4 ranks on",
                "no_sync: computes longer than it waits",
            ],
        )

    def test_what_else_differs_names_a_line(self):
        rows = [*ROWS, row("no_sync", 2, 4, 0.1, accumulation=16)]
        self.assertIn("no_sync, accumulation 16", ranks.lines_of(rows))

    def test_what_is_wrong_is_said_in_a_sentence(self):
        unknown = {**ROWS[0], "step_s": None}
        for text, words in (
            ("{}", "expected what gradsync predict step --json printed"),
            (json.dumps([unknown]), "no step that was predicted"),
            ("[", "line 1 is no JSON"),
        ):
            self.file.write_text(text)
            done = plot(PLOT, self.file)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertEqual(len(done.stderr.strip().splitlines()), 1, done.stderr)
            self.assertIn(words, done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
