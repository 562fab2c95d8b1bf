"""torch's CommDebugMode: its count of the collectives that sum.

Its tracker of modules adds a hook to a module in each forward, and from the second one on takes
more names from its list than are there: an IndexError (torch 2.11). Counting needs no tracker.
"""

from counting import is_sum, judge


def counted(run):
    from torch.distributed.tensor.debug import CommDebugMode

    with CommDebugMode() as mode:
        mode.advanced_module_tracker.__exit__()  # takes its hooks away
        run()
    counts = mode.get_comm_counts().items()
    return sum(count for operator, count in counts if is_sum(str(operator)))


def check(job, is_fixed):
    return judge(job, is_fixed, counted)
