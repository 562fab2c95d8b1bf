"""The project's pages: every Markdown file but what a run leaves and what tests compare with."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NOT_OURS = ("build", ".git")


def below(pattern):
    """Returns the paths of the tree's files of that name, without what was built."""
    tops = [top for top in sorted(ROOT.iterdir()) if top.name not in NOT_OURS]
    return [*ROOT.glob(pattern), *(path for top in tops for path in top.rglob(pattern))]


def pages():
    """Returns path from the tree's top -> text."""
    runs = ROOT / "results" / "runs"
    paths = (path for path in below("*.md") if runs not in path.parents)
    return {
        path.relative_to(ROOT).as_posix(): path.read_text()
        for path in paths
        if "golden" not in path.parts
    }


def fenced(text, kind):
    """Returns the blocks that stand between ``` and ```, of a kind: "sh"."""
    return [block for found, block in FENCE.findall(text) if found == kind]


def without_blocks(text):
    return FENCE.sub("", text)
