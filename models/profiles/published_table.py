"""The guide's slowdown table: eight cells, each with its three raw runs.

Source: results/reference/slowdown_table.json, which says where the numbers are from.
"""

import json
import statistics
from dataclasses import dataclass

from scipy import stats

RUNS = 3
SETUPS = ("multi_node", "single_node")
STRATEGIES = ("baseline", "no_sync_improper", "no_sync", "accumulate")
SYNCS_EVERY_MICRO_BATCH = ("baseline", "no_sync_improper")


class FitError(Exception):
    """The user can fix it: a file is missing or holds something else than expected."""


@dataclass(frozen=True)
class Cell:
    setup: str
    strategy: str
    mean_s: float
    runs_s: tuple
    copy_of: str | None  # an earlier strategy of this set-up with the very same runs
    micro_batches: int

    @property
    def syncs(self):
        return self.micro_batches if self.strategy in SYNCS_EVERY_MICRO_BATCH else 1

    @property
    def interval_s(self):
        """Student-t 95 % interval of the raw runs' mean."""
        mean, error = statistics.fmean(self.runs_s), stats.sem(self.runs_s)
        return stats.t.interval(0.95, len(self.runs_s) - 1, loc=mean, scale=error)


def seconds(values, count, field):
    """Returns the first `count` of `values`, checked to be times."""
    good = isinstance(values, list) and len(values) >= count
    if not good or not all(type(v) in (int, float) and v > 0 for v in values[:count]):
        raise FitError(f"{field}: got {values!r}, expected {count} positive seconds")
    return tuple(values[:count])


def cells_of(table):
    micro_batches = table["setup"]["accumulation_steps"]
    for setup in SETUPS:
        seen = {}
        for strategy in STRATEGIES:
            field = f"{setup}.{strategy}"
            published = table["published"][setup][strategy]
            runs = table["raw_runs"][setup][strategy]
            (mean,) = seconds(published, 1, f"published.{field}")
            runs = seconds(runs, RUNS, f"raw_runs.{field}")
            yield Cell(setup, strategy, mean, runs, seen.get(runs), micro_batches)
            seen.setdefault(runs, strategy)


def read_cells(path):
    """Returns the eight cells in the table's order. Errors: FitError."""
    try:
        return list(cells_of(json.loads(path.read_text())))
    except OSError as error:
        raise FitError(f"{path}: {error.strerror}, expected the table") from error
    except (KeyError, TypeError) as error:
        raise FitError(f"{path}: not the published table: {error!r}") from error
    except ValueError as error:
        raise FitError(f"{path}: not JSON: {error}") from error
    except FitError as error:
        raise FitError(f"{path}: {error}") from error
