"""Prints the tests that took longest, of the times that ctest wrote as JUnit's XML.

usage: tests/dearest.py FILE [COUNT]
"""

import sys
import xml.etree.ElementTree as ET


def dearest(text, count=10):
    """Returns (seconds, name) of the tests that took longest, the longest first."""
    cases = [(float(case.get("time", 0)), case.get("name")) for case in ET.fromstring(text)]
    return sorted((case for case in cases if case[0]), key=lambda case: (-case[0], case[1]))[:count]


def main(path, count=10):
    with open(path) as file:
        text = file.read()
    found = dearest(text, None)
    if not found:
        return
    print(f"\n{sum(seconds for seconds, _ in found):.0f} s of tests; the longest:")
    for seconds, name in found[: int(count)]:
        print(f"{seconds:7.1f} s  {name}")


if __name__ == "__main__":
    main(*sys.argv[1:])
