#!/usr/bin/env python3
"""The fuzzers' corpus: the inputs of one reader in one file, corpus/READER.txt, sorted by name.

An input begins with a line of its name and is there as it is, as in Go's txtar:

    -- bad_list.jsonl --
    [1, 2]
    -- bad_short.safetensors, as bytes --
    b'\\x08\\x00'
    b'{' * 24

What would not survive an editor or a diff is written as bytes: what is not UTF-8 or not printable,
what has no newline at its end, a space at the end of a line. Each line is then a Python literal, a
run of one byte once with its length.

usage: tests/fuzz/corpus.py unpack FOLDER          writes FOLDER/READER/NAME for every input
       tests/fuzz/corpus.py add READER NAME FILE   packs a file as input NAME
"""

import ast
import re
import shutil
import sys
from pathlib import Path

CORPUS = Path(__file__).resolve().parent / "corpus"
HEAD = re.compile(r"^-- ((?:bad|valid)_[\w.]+)(, as bytes)? --\n", re.MULTILINE)
PIECE = re.compile(rb"(.)\1{7,}|(?:(?!(.)\2{7}).){1,64}", re.DOTALL)
LINE = re.compile(r"""(b["'].*["'])(?: \* (\d+))?""")
NO_TEXT = re.compile(r"[^\n]\Z|^-- | $", re.MULTILINE)


def pack(inputs):
    """Returns the file's text, given {name: bytes}."""
    return "".join(pack_input(name, inputs[name]) for name in sorted(inputs))


def pack_input(name, data):
    text = data.decode(errors="replace")
    if data == text.encode() and not NO_TEXT.search(text) and text.replace("\n", "").isprintable():
        return f"-- {name} --\n{text}"
    lines = (f"{m[1]!r} * {len(m[0])}" if m[1] else repr(m[0]) for m in PIECE.finditer(data))
    return f"-- {name}, as bytes --\n" + "".join(line + "\n" for line in lines)


def unpack(text):
    """Returns {name: bytes}."""
    _, *parts = HEAD.split(text)
    return {
        name: unpack_bytes(body) if as_bytes else body.encode()
        for name, as_bytes, body in zip(parts[::3], parts[1::3], parts[2::3], strict=True)
    }


def unpack_bytes(body):
    lines = (LINE.fullmatch(line).groups() for line in body.splitlines())
    return b"".join(ast.literal_eval(piece) * int(times or 1) for piece, times in lines)


def unpack_all(folder):
    for path in sorted(CORPUS.glob("*.txt")):
        place = folder / path.stem
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir(parents=True)
        for name, data in unpack(path.read_bytes().decode()).items():
            (place / name).write_bytes(data)


def add(reader, name, file):
    if not HEAD.fullmatch(f"-- {name} --\n"):
        raise SystemExit(f"corpus: {name} is no name of an input, expected bad_... or valid_...")
    path = CORPUS / f"{reader}.txt"
    inputs = unpack(path.read_bytes().decode()) | {name: file.read_bytes()}
    path.write_bytes(pack(inputs).encode())


def main(arguments):
    match arguments:
        case ["unpack", folder]:
            unpack_all(Path(folder))
        case ["add", reader, name, file]:
            add(reader, name, Path(file))
        case _:
            print(__doc__[__doc__.index("usage:") :].strip(), file=sys.stderr)
            return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
