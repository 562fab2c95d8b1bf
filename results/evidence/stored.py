"""What the evidence stores: JSON, packed where no program reads it, and pages made from it."""

import gzip
import json
from pathlib import Path


def packed(path):
    """Returns where the file lies if it is packed."""
    return Path(f"{path}.gz")


def exists(path):
    return path.exists() or packed(path).exists()


def read_bytes(path):
    """Returns what the file holds, or its packed twin."""
    return path.read_bytes() if path.exists() else gzip.decompress(packed(path).read_bytes())


def read(path):
    return json.loads(read_bytes(path))


def pack(path, content):
    """Writes the bytes packed: the same bytes always make the same file."""
    packed(path).write_bytes(gzip.compress(content, mtime=0))


def write(path, content):
    """Writes JSON packed."""
    pack(path, (json.dumps(content, indent=1) + "\n").encode())


def unpack(folder, place):
    """Returns a copy of the folder in `place` whose files are unpacked, for a program."""
    copy = place / folder.name
    copy.mkdir()
    for path in folder.iterdir():
        plain = path.with_suffix("") if path.suffix == ".gz" else path
        (copy / plain.name).write_bytes(read_bytes(plain))
    return copy


def between(page, marks, lines):
    """Returns the text of a page with `lines` between its marks: (begin, end), a line each."""
    begin, end = marks
    head, rest = page.split(begin + "\n")
    return head + "\n".join([begin, *lines, end]) + rest.split(end)[1]
