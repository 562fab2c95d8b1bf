"""The pytest plugin: tests on several ranks that fail where gradients are synchronized wrongly.

    @pytest.mark.gradsync(ranks=2, syncs_per_step=1, max_peak="300MiB")
    def test_training():
        train(DistributedDataParallel(Net()), steps=4)

It does nothing to tests that neither have the marker nor use a fixture of it, and imports no torch:
ranks do. README.md beside this package has the arguments and fixtures.
"""

import functools

import pytest

from gradsync.testing import marker
from gradsync.testing.counts_file import FILE, HOW, CountsError, CountsFile, counts_of

COUNTS = pytest.StashKey()  # a CountsFile, of runs with a marked test
NEW_COUNTS = pytest.StashKey()  # of tests that ran
REQUEST = pytest.StashKey()  # of a marked test
WRONG = pytest.StashKey()  # a sentence: why a test cannot run
COUNTS_INI = "gradsync_counts_file"


def pytest_addoption(parser):
    group = parser.getgroup("gradsync")
    group.addoption(
        "--gradsync-update",
        action="store_true",
        default=False,
        help="write the counts of the gradsync tests that run, instead of comparing them",
    )
    parser.addini(COUNTS_INI, help="where those counts are, from the root folder", default=FILE)


def pytest_configure(config):
    config.addinivalue_line("markers", marker.HELP)
    config.stash[NEW_COUNTS] = {}


def is_rank(config):
    return config.pluginmanager.has_plugin("gradsync_rank")


# ---- marked tests ----------------------------------------------------------------------------


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config, items):
    wrong = {}
    for item in items:
        try:
            request = marker.request_of(item)
            if request is not None:
                check_kind(item)
                item.stash[REQUEST] = request
        except marker.MarkerError as error:
            wrong[item] = f"{item.nodeid}: @pytest.mark.gradsync: {error}"
    marked = [item for item in items if REQUEST in item.stash]
    if is_rank(config):
        return
    for item in marked:
        item.fixturenames = []  # ranks make their own
    try:
        if marked:
            config.stash[COUNTS] = CountsFile(config.rootpath / config.getini(COUNTS_INI))
    except CountsError as error:
        wrong |= dict.fromkeys(marked, str(error))
    refuse(config, wrong)


def refuse(config, wrong):
    """`wrong`: sentences by item. Errors: UsageError; under pytest-xdist, whose workers can raise
    none, each of these tests fails instead.
    """
    if wrong and not hasattr(config, "workerinput"):
        raise pytest.UsageError(*dict.fromkeys(wrong.values()))
    for item, sentence in wrong.items():
        item.stash[WRONG] = sentence


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    if WRONG in item.stash:
        pytest.fail(item.stash[WRONG], pytrace=False)


def check_kind(item):
    if not isinstance(item, pytest.Function) or type(item).__name__ == "TestCaseFunction":
        raise marker.MarkerError("only test functions and methods of plain classes run on ranks")


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem):
    request = pyfuncitem.stash.get(REQUEST, None)
    if request is None or is_rank(pyfuncitem.config):
        return None
    run_on_ranks(pyfuncitem, request)
    return True


def run_on_ranks(item, request):
    from gradsync.testing import judgement, rank_plugin, runs

    test = f"{item.path}{item.nodeid[item.nodeid.index('::') :]}"
    outcome = runs.run_test(rank_plugin.options_for_ranks(item.config), test, request)
    for title, text in runs.sections_of(outcome):
        item.add_report_section("call", title, text)
    if outcome.first is not None:
        pytest.fail(runs.failure_text(outcome), pytrace=False)
    for rank in outcome.ranks:
        if rank.said["skipped"] is not None:
            pytest.skip(rank.said["skipped"])
    seen = judgement.Seen(outcome.ranks)
    wrong = judgement.complaints(request, seen)
    if not wrong:
        wrong = count_differences(item, request, seen)
    if wrong:
        pytest.fail("\n".join(wrong), pytrace=False)
    for sentence in seen.unseen:
        item.warn(pytest.PytestWarning(f"gradsync: {sentence}"))


# ---- counts ----------------------------------------------------------------------------------


def count_differences(item, request, seen):
    """Keeps a test's counts for the file, or returns how they differ from those that are there."""
    if request.counts is False:
        return []
    now = counts_of(seen)
    if item.config.option.gradsync_update:
        item.config.stash[NEW_COUNTS][item.nodeid] = now
        return []
    file = item.config.stash[COUNTS]
    if item.nodeid in file.tests:
        return list(file.differences(item.nodeid, now))
    return [f"{file.path.name} has no counts of it: {HOW}"] if request.counts else []


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """Counts go with the report: under pytest-xdist to the one process that writes the file."""
    report = yield
    if call.when == "call" and report.passed and item.nodeid in item.config.stash[NEW_COUNTS]:
        report.gradsync_counts = item.config.stash[NEW_COUNTS][item.nodeid]
    return report


class CountsWriter:
    def __init__(self, config):
        self.config = config
        self.tests = {}
        self.said = None

    def pytest_runtest_logreport(self, report):
        if hasattr(report, "gradsync_counts"):
            self.tests[report.nodeid] = report.gradsync_counts

    def pytest_sessionfinish(self):
        path = self.config.rootpath / self.config.getini(COUNTS_INI)
        try:
            is_new = bool(self.tests) and CountsFile(path).update(self.tests)
            state = "written" if is_new else "unchanged"
        except (CountsError, OSError) as error:
            state = f"not written, {error}"
        tests = f"{len(self.tests)} test{'' if len(self.tests) == 1 else 's'}"
        self.said = f"gradsync: counts of {tests}, {path}: {state}"

    def pytest_terminal_summary(self, terminalreporter):
        if self.said:
            terminalreporter.write_line(self.said)


@pytest.hookimpl(trylast=True)
def pytest_sessionstart(session):
    config = session.config
    if config.option.gradsync_update and not hasattr(config, "workerinput"):
        config.pluginmanager.register(CountsWriter(config), "gradsync_counts_writer")


# ---- fixtures --------------------------------------------------------------------------------


def on_two_ranks(over=None):
    """Returns what runs a function on two ranks, and fails the test where one fails."""
    from gradsync.testing import runs

    def run(function, *args, timeout_s=marker.TIMEOUT_S, **kwargs):
        __tracebackhide__ = True
        try:
            return runs.run_function(function, args, kwargs, 2, timeout_s, over)
        except runs.FunctionError as error:
            pytest.fail(str(error))
        except runs.RanksFailed as error:
            for title, text in runs.sections_of(error.outcome):
                print(f"---- {title} ----\n{text}")
            pytest.fail(str(error))

    return run


@pytest.fixture
def gradsync_two_ranks():
    """Runs a module's function on two new gloo ranks: gradsync_two_ranks(function, *args) returns
    what function(rank, *args) returned on each, as [of rank 0, of rank 1].
    """
    return on_two_ranks()


@pytest.fixture
def gradsync_shaped_link():
    """The same over a link of that rate, each rank in a network of its own:
    gradsync_shaped_link("200Mbps")(function, *args). Skips where networks cannot be made.
    """
    from gradsync.testing import links

    if why := why_no_link():
        pytest.skip(why)

    def link(rate):
        try:
            return on_two_ranks(over=links.run_over(rate))
        except ValueError as error:
            raise ValueError(f"got {rate!r}, expected {error}") from None

    return link


@functools.cache
def why_no_link():
    from gradsync.testing import links

    return links.why_impossible()


@pytest.fixture
def gradsync_ledger():
    """Counts collectives of this process and their bytes: `with gradsync_ledger() as ledger:`, then
    ledger["all_reduce"].count, .bytes, and ledger.counts of all.
    """
    from gradsync.testing.ledger import ledger

    return ledger
