"""What the callbacks of all libraries share: one watching that is begun, looked at and ended."""

import sys

from gradsync import series
from gradsync.outcome import UNJUDGED, Watched
from gradsync.session import account_spec, begun, conclude


class Excess(Exception):
    """The training synchronizes more than it should, or never, or its account is off, or what was
    seen of it could not be judged: the verdict, and what to change.
    """


def to_stderr(page):
    print(page, file=sys.stderr, flush=True)


class Watch:
    """Watches from begin() to end(), or inside of a `with`. On every rank alike, in the same order.

    log(numbers, steps): logs {"gradsync/steps": 6, ...}; of every rank at the end.
    every: also every so many optimizer steps, on rank 0, what that rank alone did; 0: at the end.
        Training waits while the program reads all that it recorded.
    fail_on_excess: raises Excess at the end, where `gradsync watch --fail-on-excess` fails.
    say(page): prints the page, on rank 0.
    account: the page says too what every micro-batch weighs in the gradient, as watching(account=
        True) does; of the first two of `account_every` so many steps, and of the share
        `account_sample` of the parameters.
    """

    def __init__(
        self,
        log,
        *,
        every=0,
        fail_on_excess=False,
        say=to_stderr,
        account=False,
        account_every=10,
        account_sample=1.0,
    ):
        self.wish = account_spec(account, account_every, account_sample)
        self.log, self.every, self.say = log, every, say
        self.is_strict = fail_on_excess
        self.session, self.watched = None, Watched()

    def begin(self):
        if self.session is not None:  # of a training that an exception ended
            self.session.drop()
        self.watched, self.steps = Watched(), 0
        self.session = begun(self.watched, self.wish)

    def stepped(self, steps=None):
        """An optimizer step has ended. `steps`: how many so far, where the caller counts them."""
        before, self.steps = self.steps, self.steps + 1 if steps is None else steps
        is_due = self.every and self.steps // self.every > before // self.every
        if not is_due or self.session is None or self.session.rank != 0:
            return
        if numbers := series.known(self.session.look()):
            self.log(numbers, self.steps)

    def end(self, has_succeeded=True):
        """Tells what was seen, once: later calls do nothing until the next begin()."""
        session, self.session = self.session, None
        if session is None:
            return
        conclude(session, self.watched)
        if session.rank == 0 and self.watched.page:
            self.say(self.watched.page)
        if has_succeeded and (numbers := self.watched.series):
            self.log(numbers, self.steps or numbers[f"{series.PREFIX}steps"])

    def fail_on_excess(self):
        """Raises Excess where that was asked for and there is some. Call it behind end()."""
        if not self.is_strict:
            return
        said = [text for verdict in self.watched.verdicts if (text := sentence(verdict))]
        if wrong := [*said, *self.watched.account_faults]:
            raise Excess("; ".join(wrong))

    def __enter__(self):
        self.begin()
        return self

    def __exit__(self, kind, error, trace):
        self.end(has_succeeded=kind is None)
        if kind is None:
            self.fail_on_excess()


def sentence(verdict):
    """What is said against the training, with the place; None of a verdict that does not fail."""
    if verdict.kind in UNJUDGED:
        return ": ".join(filter(None, ("nothing was judged", verdict.sentence, verdict.why)))
    if not verdict.fails:
        return None
    change = verdict.change
    place = f" ({change.file} line {change.line}: {change.what})" if change else ""
    return verdict.sentence + place
