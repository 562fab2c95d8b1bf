"""Runs a training script in a process that watches itself, as a user's own process would.

usage: watching_rank.py FILE SCRIPT [ARGUMENT]...

What was seen goes to FILE, as JSON, with the number of the rank before its suffix.
"""

import json
import os
import runpy
import sys
from pathlib import Path

import gradsync


def main():
    file, script, *arguments = Path(sys.argv[1]), *sys.argv[2:]
    sys.argv = [script, *arguments]
    sys.path[0] = str(Path(script).parent)
    with gradsync.watching() as watched:
        runpy.run_path(script, run_name="__main__")
    seen = {"json": watched.json, "page": watched.page, "unseen": watched.unseen}
    file.with_suffix(f".{os.environ.get('RANK', 0)}.json").write_text(json.dumps(seen))


if __name__ == "__main__":
    main()
