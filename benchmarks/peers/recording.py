"""Ways to have a block of steps recorded by the watcher, or not. Each is made once in a rank, and
then gives a context for a block: recorded(True) or recorded(False)."""

import contextlib

from recording_switch import RecordingSwitch


class Never:
    """Whatever watches the process from outside, if anything, goes on."""

    def __call__(self, recorded):
        return contextlib.nullcontext()


class Switched:
    """Under `gradsync watch`: what torch calls the watcher for is off in blocks not recorded."""

    def __init__(self):
        self.switch = RecordingSwitch()

    @contextlib.contextmanager
    def __call__(self, recorded):
        self.switch.set(recorded)
        yield
        self.switch.set(True)


class Within:
    """A block that is recorded stands in `gradsync.watching()`, and so does all of its work.

    Collective. Errors: RuntimeError where the steps were not seen.
    """

    @contextlib.contextmanager
    def __call__(self, recorded):
        if not recorded:
            yield
            return
        from gradsync import watching  # on the path of launches that record like this

        with watching() as watched:
            yield
        if not watched.steps:
            raise RuntimeError(f"gradsync.watching() saw no step: {'; '.join(watched.unseen)}")


WAYS = {None: Never, "switched": Switched, "within": Within}
