"""Published runs, unpacked while the process lives."""

import functools
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "results" / "evidence"))
import stored  # noqa: E402

PLACE = tempfile.TemporaryDirectory(prefix="gradsync_published_")


@functools.cache
def published(name):
    """Returns the directory of a published run, as a run leaves it."""
    return stored.unpack(ROOT / "results" / "published" / name, Path(PLACE.name))
