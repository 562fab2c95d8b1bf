"""The figures of each page are those of its data.

GRADSYNC_PROGRAM and GRADSYNC_SECOND_OPINION: programs other than build/release's.
"""

import re
import sys
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "results" / "evidence"))
import make as evidence  # noqa: E402
from published import make  # noqa: E402


class PagesTest(unittest.TestCase):
    def test_pages_are_made_from_the_data(self):
        for name in evidence.NAMES:
            for path, text in evidence.pages(name).items():
                with self.subTest(item=name, page=path.relative_to(ROOT)):
                    self.assertEqual(path.read_text(), text)

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


if __name__ == "__main__":
    unittest.main(verbosity=2)
