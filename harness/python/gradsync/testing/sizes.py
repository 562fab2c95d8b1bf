"""Numbers of bytes as people write them, by the rules of harness/base/units.h."""

import re

UNITS = {
    **{"B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9},
    **{"KiB": 2**10, "MiB": 2**20, "GiB": 2**30},
}
SIZE = re.compile(r"(\d+(?:\.\d+)?) ?(" + "|".join(UNITS) + ")")


def parse_bytes(text):
    """Returns a number of bytes of "50MiB" or of a whole number. Errors: ValueError with what was
    expected.
    """
    if isinstance(text, int) and not isinstance(text, bool) and text >= 0:
        return text
    found = SIZE.fullmatch(text.strip()) if isinstance(text, str) else None
    if not found:
        units = ", ".join(UNITS)
        raise ValueError(f'a size such as "50MiB" (units: {units}) or a whole number of bytes')
    return round(float(found[1]) * UNITS[found[2]])


def format_bytes(count):
    """Returns "1.64 GiB", "12.5 KiB" or "7 B"."""
    for unit in ("GiB", "MiB", "KiB"):
        if count >= UNITS[unit]:
            return f"{count / UNITS[unit]:.3g} {unit}"
    return f"{count} B"


def exact_bytes(count):
    """Returns "1.5 KiB (1536 bytes)": to the byte, and to be read."""
    return f"{count} bytes" if count < 1024 else f"{format_bytes(count)} ({count} bytes)"
