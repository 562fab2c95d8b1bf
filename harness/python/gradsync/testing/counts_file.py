"""Counts of tests, kept in a file that is checked in: written with `pytest --gradsync-update`,
compared in every other run, exactly.

{"schema": "gradsync.test_counts/1", "tests": {"test_train.py::test_step": {"micro_batches": 4,
  "syncs_per_step": 1, "collectives_per_step": {"all_reduce": {"count": 2, "bytes": 640}},
  "peak_bytes": 12345}}}
"""

import json
from pathlib import Path

from gradsync.testing.sizes import exact_bytes

SCHEMA = "gradsync.test_counts/1"
FILE = "gradsync_counts.json"
HOW = "pytest --gradsync-update writes it"


class CountsError(Exception):
    """A file that cannot be used: a sentence."""


def counts_of(seen):
    """Returns what is kept of a test. What is not known is None."""
    step = seen.per_step or {}
    return {
        "micro_batches": step.get("micro_batches"),
        "syncs_per_step": step.get("synchronized"),
        "collectives_per_step": step.get("collectives"),
        "peak_bytes": seen.peak and seen.peak[0],
    }


class CountsFile:
    def __init__(self, path):
        """`path` need not be there. Errors: CountsError."""
        self.path = Path(path)
        self.tests = {}
        if not self.path.exists():
            return
        try:
            content = json.loads(self.path.read_text())
            schema, self.tests = content["schema"], dict(content["tests"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise CountsError(f"{self.path}: no file of counts: {error!r}") from None
        if schema != SCHEMA:
            raise CountsError(f"{self.path}: schema: got {schema!r}, expected {SCHEMA!r}")

    def update(self, tests):
        """Writes these tests' counts, and keeps the others. Returns whether anything changed."""
        merged = dict(sorted({**self.tests, **tests}.items()))
        if merged == self.tests and self.path.exists():
            return False
        temporary = self.path.with_suffix(".tmp")
        temporary.write_text(json.dumps({"schema": SCHEMA, "tests": merged}, indent=1) + "\n")
        temporary.rename(self.path)
        self.tests = merged
        return True

    def differences(self, test, now):
        """Yields a sentence for each count of a test that is another one now."""
        kept = self.tests[test]
        name = self.path.name
        for field in ("micro_batches", "syncs_per_step"):
            if kept.get(field) != now[field]:
                yield f"{field}: {said(kept.get(field))} in {name}, {said(now[field])} now"
        before = kept.get("collectives_per_step") or {}
        after = now["collectives_per_step"] or {}
        for operation in sorted({*before, *after}):
            if before.get(operation) != after.get(operation):
                yield (
                    f"{operation} per step: {op_said(before.get(operation))} in {name}, "
                    f"{op_said(after.get(operation))} now"
                )
        if kept.get("peak_bytes") != now["peak_bytes"]:
            yield (
                f"peak of CPU tensors: {size_said(kept.get('peak_bytes'))} in {name}, "
                f"{size_said(now['peak_bytes'])} now"
            )


def said(value):
    return "unknown" if value is None else value


def size_said(size):
    return "unknown" if size is None else exact_bytes(size)


def op_said(operation):
    if operation is None:
        return "none"
    return f"{operation['count']} of {size_said(operation['bytes'])}"
