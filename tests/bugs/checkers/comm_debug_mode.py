"""The count of torch.distributed.tensor.debug.CommDebugMode."""

from counting import judge

SUMMING = ("allreduce_", "all_reduce", "reduce_scatter_tensor", "_reduce_scatter_base_")


def counted(run):
    from torch.distributed.tensor.debug import CommDebugMode

    with CommDebugMode() as mode:
        run()
    counts = mode.get_comm_counts()
    return sum(n for operation, n in counts.items() if str(operation).endswith(SUMMING))


def check(job, is_fixed):
    return judge(job, is_fixed, counted)
