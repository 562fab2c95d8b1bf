"""Summaries of published runs are what their stored steps say."""

import sys
import unittest
from pathlib import Path
from statistics import fmean

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "results" / "evidence"))
import make as evidence  # noqa: E402, F401 (finds summary)
import stored  # noqa: E402
import summary  # noqa: E402
from published import make  # noqa: E402

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
            folder = make.DATA / name
            result = stored.read(folder / "result.json")
            with self.subTest(figure=name):
                yield figure, folder, result, make.trials_in(folder)

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
        searches = list(make.DATA.glob("*/search.json.gz"))
        self.assertTrue(searches)
        for search in (stored.read(path.with_suffix("")) for path in searches):
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
            self.assertFalse(stored.exists(folder / "timelines.jsonl"))
            for trial in trials:
                self.assertFalse(set(make.TIMELINES) & set(trial))


if __name__ == "__main__":
    unittest.main()
