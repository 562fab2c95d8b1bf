"""Pages in HTML: whole, by themselves, readable; of runs, watched jobs and gates.

Usage: html_pages_test.py WRITE_WATCH_SAMPLES WRITE_GATE_SAMPLES [CASE]..., which write what a
watched job and a gate leave. GRADSYNC_PICTURES=DIR keeps pictures of the pages there, to be looked
at.

Covers: html/style.cpp.
"""

import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from browser import Browser, find_browser
from html_rules import Page, contrast, palettes, weak_contrasts
from program import PROGRAM, ProgramTest
from published_runs import published

RUNS = ("slowdown_table", "memory_sweep")
CELLS = 1000
PHONE, DESK = 360, 1280  # pixels


def program(*arguments):
    """Returns what the program prints."""
    command = [PROGRAM, *map(str, arguments)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def many_cells(folder):
    """Writes a run of a thousand cells: the published one, over and over, in other bucket sizes."""
    run = published("slowdown_table")
    lines = (run / "trials.jsonl").read_text().splitlines()
    trials = [trial for trial in map(json.loads, lines) if trial["launch"] == 0]
    with open(folder / "trials.jsonl", "w") as file:
        for number in range(CELLS):
            trial = dict(trials[number % len(trials)])
            size = (1 + number // len(trials)) << 20
            trial["cell"] = trial["cell"] | {"bucket_cap_bytes": size}
            file.write(json.dumps(trial) + "\n")
    result = json.loads((run / "result.json").read_text())
    (folder / "result.json").write_text(json.dumps(result | {"cells": []}))


class Pages(unittest.TestCase):
    """Every kind of page, made once."""

    @classmethod
    def setUpClass(cls):
        place = tempfile.TemporaryDirectory(prefix="gradsync_test_")
        cls.addClassCleanup(place.cleanup)
        cls.place = Path(place.name)
        cls.files = {}
        for run in RUNS:
            cls.keep(run, program("report", published(run), "--format", "html"))
        samples = cls.place / "samples"
        samples.mkdir()
        for write in (cls.write_watch_samples, cls.write_gate_samples):
            subprocess.run([write, samples], check=True)
        for job in ("improper", "proper", "fsdp"):
            path = samples / f"{job}.json"
            cls.keep(f"watch_{job}", program("report", path, "--format", "html"))
        for gate in ("gate", "gate_counts", "gate_jobs", "gate_long_names"):
            cls.keep(gate, (samples / f"{gate}.html").read_text())

    @classmethod
    def keep(cls, name, text):
        cls.files[name] = cls.place / f"{name}.html"
        cls.files[name].write_text(text)


class ParserTest(Pages):
    def test_pages_are_whole_and_refer_to_nothing(self):
        for name, file in self.files.items():
            with self.subTest(name):
                page = Page(file.read_text())
                self.assertEqual(page.complaints, [])
                self.assertEqual(page.count["h1"], 1)

    def test_colours_can_be_told_from_their_ground(self):
        style = Page(self.files["gate"].read_text()).style
        self.assertEqual(len(palettes(style)), 3)
        self.assertEqual(weak_contrasts(style), [])
        self.assertAlmostEqual(contrast("#000000", "#ffffff"), 21)

    def test_a_run_has_its_rows_pictures_claims_and_place(self):
        page = Page(self.files["slowdown_table"].read_text())
        for words in (
            "holds here",
            "AMD EPYC",
            "d194845",
            "2.11.0",
            "Paced compute",
            "not measured here",
        ):
            self.assertIn(words, page.text)
        self.assertGreaterEqual(page.count["svg"], 4)
        self.assertGreaterEqual(page.count["table"], 2)
        rows = program("report", published("slowdown_table"))
        for line in rows.splitlines():
            if line.startswith("| ") and "s/step" not in line:
                for cell in line.strip("|").split(" | "):
                    self.assertIn(cell.strip(" |").replace("`", ""), page.text)

    def test_a_run_of_memory_says_who_ran_out(self):
        page = Page(self.files["memory_sweep"].read_text())
        self.assertIn("no_sync runs out of 344.0 MiB", page.text)


class CommandLineTest(ProgramTest):
    def test_a_gate_of_claims_writes_its_page(self):
        file = self.place / "gate.html"
        outcome = self.call(
            *(
                "gate",
                "builds",
                "--gates",
                "slowdown_table",
                "--results",
                published("slowdown_table"),
            ),
            *("--out", self.place / "gate", "--html", file),
        )
        self.assertIn(outcome.status, (0, 1, 3), outcome.err)
        page = Page(file.read_text())
        self.assertEqual(page.complaints, [])
        self.assertIn("The gate", page.text)

    def test_two_runs_are_two_pages(self):
        runs = [published(run) for run in RUNS]
        outcome = self.call("report", *runs, "--format", "html")
        self.assert_refused(outcome, "--format html", "got 2", "expected one")


class BrowserTest(Pages):
    @classmethod
    def setUpClass(cls):
        found = find_browser()
        if not found:
            raise unittest.SkipTest("no chromium")
        super().setUpClass()
        cls.browser = Browser(found)
        cls.addClassCleanup(cls.browser.close)
        cls.pictures = os.environ.get("GRADSYNC_PICTURES")

    def look(self, name, how):
        if self.pictures:
            self.browser.screenshot(Path(self.pictures) / f"{name}_{how}.png")

    def test_nothing_is_wider_than_a_telephone(self):
        for name, file in self.files.items():
            with self.subTest(name):
                self.browser.open(file, PHONE, 740)
                width = self.browser.value("document.documentElement.scrollWidth")
                self.assertLessEqual(width, PHONE)
                self.assertEqual(self.browser.complaints(), [])
                self.look(name, "phone")

    def test_dark_is_dark_and_light_is_light(self):
        for scheme, ground in (("light", "rgb(252, 252, 250)"), ("dark", "rgb(20, 23, 26)")):
            for name, file in self.files.items():
                self.browser.open(file, DESK, scheme=scheme)
                style = "getComputedStyle(document.body).backgroundColor"
                self.assertEqual(self.browser.value(style), ground)
                self.assertEqual(self.browser.complaints(), [], name)
                self.look(name, scheme)

    def test_pages_can_be_printed(self):
        for name, file in self.files.items():
            self.browser.open(file)
            pdf = self.place / f"{name}.pdf"
            self.browser.pdf(pdf)
            self.assertTrue(pdf.read_bytes().startswith(b"%PDF"))
            if self.pictures:
                (Path(self.pictures) / pdf.name).write_bytes(pdf.read_bytes())

    def test_a_thousand_cells_open(self):
        folder = self.place / "many"
        folder.mkdir()
        many_cells(folder)
        file = self.place / "many.html"
        file.write_text(program("report", folder, "--format", "html"))
        self.assertGreater(Page(file.read_text()).count["tr"], CELLS)
        self.browser.open(file, PHONE, 740)
        self.assertGreater(self.browser.value("document.querySelectorAll('tr').length"), CELLS)
        self.assertLessEqual(self.browser.value("document.documentElement.scrollWidth"), PHONE)


if __name__ == "__main__":
    Pages.write_watch_samples, Pages.write_gate_samples = sys.argv.pop(1), sys.argv.pop(1)
    unittest.main(verbosity=2)
