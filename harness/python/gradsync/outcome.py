"""What was seen of a training, once its watching has ended."""

import html
from dataclasses import dataclass, field
from typing import NamedTuple

from gradsync.series import known


class Change(NamedTuple):
    """A change to the job, with its line where that is known."""

    file: str | None
    line: int | None
    what: str


class Verdict(NamedTuple):
    kind: str  # as in results/schema/watch.schema.json: "once_per_step", "more_than_once", ...
    sentence: str
    why: str | None
    change: Change | None
    fails: bool  # it synchronizes more than it should, or not at all


def verdict_from(said):
    change = said["change"] and Change(*(said["change"][name] for name in Change._fields))
    return Verdict(said["kind"], said["sentence"], said["why"], change, said["fails"])


# Kinds of a first verdict that says nothing for or against a training.
UNJUDGED = ("no_steps", "not_recognised", "not_in_file")


@dataclass
class Watched:
    """Filled when the `with` ends; until then, and where nothing could be seen, it is empty.

    In a job of several ranks it is the same on all of them: what all ranks of this host did.
    """

    verdicts: tuple = ()  # the first is on when the job synchronizes
    page: str = field(default="", repr=False)  # as `gradsync watch` prints it
    json: dict = field(default_factory=dict, repr=False)  # as in results/schema/watch.schema.json
    has_excess: bool = False
    unseen: tuple = ()  # sentences: what is not known, and why

    @property
    def verdict(self):
        """On when the job synchronizes; None where nothing was seen."""
        return self.verdicts[0] if self.verdicts else None

    @property
    def steps(self):
        """How many optimizer steps each rank took, by rank; a process without a group is None."""
        return {rank["rank"]: rank["steps"] for rank in self.json.get("ranks", ())}

    @property
    def per_step(self):
        """The step that most are like: micro-batches, collectives, excess; None: none ended."""
        return self.json.get("per_step")

    @property
    def account(self):
        """What was asked for with watching(account=True): the verdicts in words; () without."""
        said = self.json.get("account") or {}
        return tuple(verdict["sentence"] for verdict in said.get("verdicts", ()))

    @property
    def account_faults(self):
        """What of it has no innocent reason, in words: `gradsync watch --fail-on-excess` fails."""
        said = self.json.get("account") or {}
        return tuple(v["sentence"] for v in said.get("verdicts", ()) if v["is_off"])

    @property
    def collectives(self):
        """The collectives of such a step: {"all_reduce": {"count": ..., "bytes": ...}, ...}."""
        return (self.per_step or {}).get("collectives", {})

    @property
    def series(self):
        """The numbers that callbacks log, if known: {"gradsync/steps": 6, ...} (series.py)."""
        return known(self.json)

    def _repr_html_(self):
        """Returns the page, for notebooks."""
        return f"<pre>{html.escape(self.page or repr(self))}</pre>"

    def fill(self, said, page, unseen):
        self.json, self.page = said, page
        self.verdicts = tuple(map(verdict_from, said["verdicts"]))
        self.has_excess = said["has_excess"]
        self.unseen = (*said["faults"], *unseen)
