"""torch.profiler's count of the collectives that sum.

The jobs of elsewhere.json count their own in a mode of torch's, which passes each call on: the
profiler sees two.
"""

from counting import judge

SUMMING = ("c10d::allreduce_", "c10d::_reduce_scatter_base_", "c10d::reduce_scatter_")


def counted(run):
    import torch

    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        run()
    return sum(event.name in SUMMING for event in profile.events())


def check(job, is_fixed):
    if job.is_elsewhere:
        return "passed over", ""
    return judge(job, is_fixed, counted)
