"""Ways to have a block of steps recorded by the watcher, or not. Each is made once in a rank, and
then gives a context for a block: recorded(True) or recorded(False)."""

import contextlib


class Never:
    """Whatever watches the process from outside, if anything, goes on."""

    def __call__(self, recorded):
        return contextlib.nullcontext()


class Within:
    """A block that is recorded stands in `gradsync.watching()`, and so does all of its work.

    Collective. Errors: RuntimeError where the steps were not seen.
    """

    @contextlib.contextmanager
    def __call__(self, recorded):
        if not recorded:
            yield
            return
        with watched_block():
            yield


class Account:
    """All blocks stand in `gradsync.watching()`; those that are recorded ask for an account, too.

    Collective. Errors: RuntimeError where the steps were not seen, or none was accounted.
    """

    def __init__(self, every, sample):
        self.wish = {"account": True, "every": every, "sample": sample}

    @contextlib.contextmanager
    def __call__(self, recorded):
        with watched_block(**self.wish if recorded else {}) as watched:
            yield
        if recorded and (watched.account_faults or watched.json["account"]["steps"] == 0):
            raise RuntimeError(f"no step was accounted: {'; '.join(watched.account_faults)}")


class Profiled:
    """A block that is recorded stands in a profile as `gradsync watch --seconds` begins one
    (harness/watch/inject/hook/gradsync_watch_seconds.py). That begins and ends untimed.
    """

    def __call__(self, recorded):
        from torch.profiler import ProfilerActivity, profile

        if not recorded:
            return contextlib.nullcontext()
        return profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA])


@contextlib.contextmanager
def watched_block(**wish):
    from gradsync import watching  # on the path of launches that record like this

    with watching(**wish) as watched:
        yield watched
    if not watched.steps:
        raise RuntimeError(f"gradsync.watching() saw no step: {'; '.join(watched.unseen)}")


WAYS = {None: Never, "within": Within, "account": Account, "profiled": Profiled}
