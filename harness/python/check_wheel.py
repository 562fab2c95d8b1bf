"""Checks what a package's programs and libraries need from the machine they are installed on.

usage: check_wheel.py FOLDER      an unpacked wheel, or what is to become one

Every ELF file in it may need the C and C++ libraries, in the versions that a manylinux_2_35 machine
has (Ubuntu 22.04: glibc 2.35 and libstdc++ of GCC 12), and torch's own. Prints what one asks beyond
that and ends with exit status 1, or with 0 and the newest versions that are asked for.
"""

import re
import subprocess
import sys
from pathlib import Path

NEWEST = {"GLIBC": (2, 35), "GLIBCXX": (3, 4, 30), "CXXABI": (1, 3, 13), "GCC": (12, 0, 0)}
LIBRARIES = {
    "ld-linux-x86-64.so.2",
    "libc.so.6",
    "libdl.so.2",
    "libgcc_s.so.1",
    "libm.so.6",
    "libpthread.so.0",
    "librt.so.1",
    "libstdc++.so.6",
}
TORCHS = {"libtorch_cpu.so", "libc10.so"}
VERSION = re.compile(r"\bName: (GLIBC|GLIBCXX|CXXABI|GCC)_([0-9.]+)\b")
NEEDED = re.compile(r"\(NEEDED\).*\[(.+)\]")
PATHS = re.compile(r"\((?:RPATH|RUNPATH)\).*\[(.+)\]")


def elf_files(folder):
    for file in sorted(Path(folder).rglob("*")):
        if file.is_file() and not file.is_symlink():
            with file.open("rb") as opened:
                if opened.read(4) == b"\x7fELF":
                    yield file


def read_elf(file):
    return subprocess.run(
        ["readelf", "--wide", "--version-info", "--dynamic", file],
        capture_output=True,
        text=True,
        check=True,
    ).stdout


def versions_in(text):
    """Returns {"GLIBC": [(2, 34), ...], ...}: those that a file asks of others' libraries."""
    needs = text.partition("Version needs section")[2]
    found = {}
    for name, number in VERSION.findall(needs):
        found.setdefault(name, []).append(tuple(map(int, number.split("."))))
    return found


def complaints(name, text):
    """`text`: what readelf says of the file `name`."""
    said = [
        f"{name}: asks for {kind}_{'.'.join(map(str, version))}, "
        f"expected {'.'.join(map(str, NEWEST[kind]))} at most"
        for kind, versions in versions_in(text).items()
        for version in versions
        if version > NEWEST[kind]
    ]
    strangers = set(NEEDED.findall(text)) - LIBRARIES - TORCHS
    said += [f"{name}: needs {library}, expected it linked in" for library in sorted(strangers)]
    said += [
        f"{name}: looks for libraries in {paths}, which is of the machine that built it"
        for paths in PATHS.findall(text)
    ]
    return said


def main(folder):
    texts = {file: read_elf(file) for file in elf_files(folder)}
    if not texts:
        sys.exit(f"error: {folder} has no programs")
    said = [line for file, text in texts.items() for line in complaints(file, text)]
    newest = {}
    for text in texts.values():
        for kind, versions in versions_in(text).items():
            newest[kind] = max([newest.get(kind, (0,)), *versions])
    print(*said, sep="\n", end="\n" if said else "")
    asked = (f"{kind} {'.'.join(map(str, version))}" for kind, version in sorted(newest.items()))
    print(f"{len(texts)} programs and libraries: {', '.join(asked)}")
    return 1 if said else 0


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__.strip())
    sys.exit(main(sys.argv[1]))
