"""Published figures are what their stored steps say: published_test.py PATH/TO/gradsync."""

import json
import re
import sys
import unittest
from pathlib import Path
from statistics import fmean

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "results" / "published"))
sys.path.insert(0, str(ROOT / "benchmarks" / "peers"))
import make  # noqa: E402
import summary  # noqa: E402

PROGRAM = sys.argv.pop(1)
MOST_BYTES = 1 << 20  # of a figure


def launch_means(trials, cell):
    """Elapsed seconds per step of each launch, by hand."""
    of_cell = [trial for trial in trials if trial["cell"] == cell and trial["status"] == "ok"]
    means = []
    for launch in sorted({trial["launch"] for trial in of_cell}):
        blocks = [trial for trial in of_cell if trial["launch"] == launch]
        elapsed_s = sum(max(rank["block_s"] for rank in trial["ranks"]) for trial in blocks)
        means.append(elapsed_s / sum(len(trial["step_s"]) for trial in blocks))
    return means


def runs():
    return {name: figure for name, figure in make.FIGURES.items() if isinstance(figure, make.Run)}


class PublishedTest(unittest.TestCase):
    def each_run(self):
        for name, figure in runs().items():
            folder = make.HERE / name
            result = json.loads((folder / "result.json").read_text())
            with self.subTest(figure=name):
                yield figure, folder, result, make.trials_in(folder)

    def test_text_is_made_from_the_data(self):
        for name, figure in make.FIGURES.items():
            with self.subTest(figure=name):
                document = (ROOT / figure.document).read_text()
                (place,) = make.place_of(name).finditer(document)
                self.assertEqual(place[2], make.text_of(name, PROGRAM))

    def test_the_document_shows_the_command(self):
        for name, figure in make.FIGURES.items():
            if isinstance(figure, (make.Run, make.Computed)):
                with self.subTest(figure=name):
                    document = (ROOT / figure.document).read_text()
                    shown = re.sub(r"[\s\\]+", " ", document)
                    self.assertIn(" ".join(("gradsync", *figure.command)), shown)

    def test_every_place_has_a_figure(self):
        for document in (*ROOT.glob("*.md"), *ROOT.glob("*/**/*.md")):
            if (ROOT / "build") in document.parents:
                continue
            for name in re.findall(r"<!-- published: (\S+) -->", document.read_text()):
                figure = make.FIGURES.get(name)
                self.assertIsNotNone(figure, f"{document}: {name}")
                self.assertEqual(ROOT / figure.document, document)

    def test_means_and_slowdowns_by_hand(self):
        for _, _, result, trials in self.each_run():
            for cell in result["cells"]:
                if cell["step_s"] is None:
                    continue
                means = launch_means(trials, cell["cell"])
                self.assertAlmostEqual(cell["step_s"]["mean"], fmean(means), 9)
                slowdown = cell["slowdown"]
                if slowdown is None or slowdown["ci95"] is None:
                    continue
                reference = launch_means(trials, cell["cell"] | {"strategy": slowdown["vs"]})
                ratio = summary.ratio_of_pairs(means, reference)
                self.assertAlmostEqual(slowdown["ratio"], ratio.value, 9)
                # The peers' table of Student's t has four digits.
                self.assertAlmostEqual(slowdown["ci95"][0], ratio.low, 3)
                self.assertAlmostEqual(slowdown["ci95"][1], ratio.high, 3)

    def test_peaks_by_hand(self):
        for _, _, result, trials in self.each_run():
            for cell in result["cells"]:
                peaks = [
                    rank["peak_allocated_bytes"]
                    for trial in trials
                    if trial["cell"] == cell["cell"] and trial["status"] == "ok"
                    for rank in trial["ranks"]
                ]
                self.assertEqual(cell["peak_allocated_bytes"], max(peaks, default=None))
                if None not in (cell["predicted_peak_allocated_bytes"], max(peaks, default=None)):
                    self.assertEqual(cell["predicted_peak_allocated_bytes"], max(peaks))

    def test_edges_by_hand(self):
        searches = list(make.HERE.glob("*/search.json"))
        self.assertTrue(searches)
        for search in map(json.loads, (path.read_text() for path in searches)):
            self.assertEqual(search["wanted"], "smallest")
            for cell in search["cells"]:
                self.assertEqual(cell["edge"], cell["peak_allocated_bytes"])
                by_value = {probe["value"]: probe["status"] for probe in cell["probes"]}
                self.assertEqual(by_value[cell["edge"]], "ok")
                self.assertEqual(by_value[cell["edge"] - 1], "oom")

    def test_made_from_a_clean_commit_and_small(self):
        for figure, folder, result, trials in self.each_run():
            self.assertRegex(result["context"]["commit"], r"^[0-9a-f]{7,}$")
            if figure.times:
                self.assertTrue(result["context"]["timing_valid"])
            self.assertEqual(result["exit_status"], 0)
            self.assertLess(sum(file.stat().st_size for file in folder.iterdir()), MOST_BYTES)
            self.assertFalse((folder / "timelines.jsonl").exists())
            for trial in trials:
                self.assertFalse(set(make.TIMELINES) & set(trial))


if __name__ == "__main__":
    unittest.main()
