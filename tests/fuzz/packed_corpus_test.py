"""The packed corpus holds every byte, and each of its files is what corpus.py would write."""

import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import corpus  # noqa: E402

AWKWARD = {
    "bad_empty": b"",
    "bad_newlines": b"\n\n",
    "bad_no_newline": b'{"a": 1}',
    "bad_no_newline_in_the_end": b'{"a": 1}\n{"b"',
    "bad_no_utf8": b"\xff\xfe\n",
    "bad_carriage_return": b"a\r\n",
    "bad_line_separator": "a\u2028b\n".encode(),
    "bad_space_at_the_end": b"a \nb\n",
    "bad_heading": b"a\n-- bad_b --\nc\n",
    "bad_quotes": b"""'"\\x00 * 3""",
    "bad_runs": b"x" * 7 + b"\n" * 100 + b"'" * 16 + b'"' * 9,
    "valid_every_byte": bytes(range(256)) * 3,
    "valid_text": "für \U0001f600\n{}\n".encode(),
}


class PackTest(unittest.TestCase):
    def test_what_was_packed_comes_out_again(self):
        self.assertEqual(corpus.unpack(corpus.pack(AWKWARD)), AWKWARD)

    def test_text_stays_text(self):
        self.assertEqual(
            corpus.pack({"bad_a.json": b'{"a":\n1}\n'}), '-- bad_a.json --\n{"a":\n1}\n'
        )

    def test_a_run_is_written_once(self):
        packed = corpus.pack({"bad_deep": b"{" + b"[" * 12000})
        self.assertEqual(packed, "-- bad_deep, as bytes --\nb'{'\nb'[' * 12000\n")


class FilesTest(unittest.TestCase):
    def test_each_file_is_as_it_would_be_written(self):
        for path in corpus.CORPUS.glob("*"):
            with self.subTest(file=path.name):
                text = path.read_bytes().decode()
                self.assertEqual(corpus.pack(corpus.unpack(text)), text)

    def test_a_finding_is_added_and_unpacked(self):
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            (root / "corpus").mkdir()
            (root / "corpus.py").write_text((HERE / "corpus.py").read_text())
            (root / "corpus" / "plan.txt").write_text("-- valid_a.json --\n{}\n")
            (root / "found").write_bytes(b"\x00")

            def run(*arguments):
                command = [sys.executable, str(root / "corpus.py"), *map(str, arguments)]
                return subprocess.run(command, capture_output=True, text=True).returncode

            self.assertEqual(run("add", "plan", "bad_zero.json", root / "found"), 0)
            self.assertEqual(run("unpack", root / "out"), 0)
            unpacked = {p.name: p.read_bytes() for p in (root / "out" / "plan").iterdir()}
            self.assertEqual(unpacked, {"bad_zero.json": b"\x00", "valid_a.json": b"{}\n"})
            self.assertEqual(run("add", "plan", "plan-crash-1", root / "found"), 1)
            self.assertEqual(run("add", "no_reader", "bad_a", root / "found"), 1)
            self.assertEqual(run(), 2)


if __name__ == "__main__":
    unittest.main(verbosity=2)
