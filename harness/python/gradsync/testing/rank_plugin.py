"""pytest inside of a rank: it runs one test, watched, and keeps its results.

Each rank is a pytest of its own, so that fixtures, parameters and conftest files are what they are
everywhere. Its options are those of the pytest that started it, as pytest-xdist hands them on;
other plugins take it for one of xdist's workers and leave their reports to that one, too.
"""

import os

import pytest
from _pytest.config import Config

from gradsync import watching
from gradsync.testing import marker

NAME = "gradsync_rank"  # by which the plugin knows that it is in a rank
NOT_OURS = {  # options of the run as a whole
    "basetemp": None,
    "cacheclear": False,
    "capture": "no",
    "collectonly": False,
    "deselect": None,
    "dist": "no",
    "distload": False,
    "failedfirst": False,
    "gradsync_update": False,
    "htmlpath": None,
    "keyword": "",
    "last_failed_no_failures": "all",
    "lf": False,
    "looponfail": False,
    "markexpr": "",
    "maxfail": 0,
    "maxprocesses": None,
    "newfirst": False,
    "no_cov": True,
    "numprocesses": None,
    "pyargs": False,
    "runxfail": True,  # what is expected to fail is the other one's to know
    "setuponly": False,
    "setupplan": False,
    "stepwise": False,
    "trace": False,
    "tx": [],
    "usepdb": False,
    "xmlpath": None,
}
PLAIN = (str, int, float, bool, type(None))


def is_plain(value):
    if isinstance(value, list | tuple):
        return all(map(is_plain, value))
    if isinstance(value, dict):
        return all(map(is_plain, value)) and all(map(is_plain, value.values()))
    return isinstance(value, PLAIN)


def options_for_ranks(config):
    """Returns the options of a pytest with which it can be begun again, for one test."""
    options = {name: value for name, value in vars(config.option).items() if is_plain(value)}
    options.pop("file_or_dir", None)  # it is another one for ranks
    options |= {name: value for name, value in NOT_OURS.items() if name in options}
    options["rootdir"] = str(config.rootpath)
    options["inifilename"] = str(config.inipath) if config.inipath else None
    options["plugins"] = [*options.get("plugins", []), "no:terminal"]
    return options


class RankPlugin:
    def __init__(self, memory):
        self.memory = memory
        self.reports = []
        self.watched = None
        self.peak_bytes = None

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_pyfunc_call(self, pyfuncitem):
        self.memory.reset_peak()
        request = marker.request_of(pyfuncitem)
        with watching(account=request is not None and request.account, every=1) as self.watched:
            try:
                return (yield)
            finally:
                self.peak_bytes = self.memory.peak_bytes()

    def pytest_runtest_logreport(self, report):
        self.reports.append(report)

    def pytest_collectreport(self, report):
        if report.failed:
            self.reports.append(report)

    def said(self, status):
        """Returns the rank's last word."""
        seen = self.watched and {
            "json": self.watched.json,
            "page": self.watched.page,
            "unseen": list(self.watched.unseen),
        }
        return {
            "failure": self.failure(status),
            "skipped": self.skipped(),
            "sections": [list(section) for report in self.reports for section in report.sections],
            "watched": seen,
            "peak_bytes": self.peak_bytes,
            "peak_unknown": self.memory.unknown,
        }

    def failure(self, status):
        failed = [report for report in self.reports if report.failed]
        if failed:
            return "\n".join(report.longreprtext for report in failed)
        if not self.reports:
            return f"pytest did not find the test again in this rank (its exit status: {status})"
        return None

    def skipped(self):
        for report in self.reports:
            if report.skipped:
                is_place = isinstance(report.longrepr, tuple)
                reason = report.longrepr[2] if is_place else report.longreprtext
                return reason.removeprefix("Skipped: ")
        return None


def run_test(options, test, folder, memory):
    """`test`: FILE::NAME. Returns the rank's last word."""
    rank = os.environ["RANK"]
    config = Config.fromdictargs(
        {**options, "basetemp": str(folder / f"tmp_of_rank{rank}")}, [test]
    )
    plugin = RankPlugin(memory)
    config.pluginmanager.register(plugin, NAME)
    config.workerinput = {"workerid": f"rank{rank}", "workercount": int(os.environ["WORLD_SIZE"])}
    config.workeroutput = {}
    status = config.hook.pytest_cmdline_main(config=config)
    return plugin.said(int(status))
