"""with_accelerate.py ddp|fsdp2 feature|no_sync|every

Accelerate takes up FSDP on accelerators alone: here torch shards the model, and Accelerate is told
that it did, so that its accumulate() and no_sync() do what they do under FSDP2.
"""

import contextlib

import torch
from account_of_steps import (
    MICRO_BATCHES,
    RATE,
    Account,
    make_model,
    mean_squared_error,
    steps,
    told,
)


def shard(model):
    from torch.distributed.fsdp import fully_shard

    fully_shard(model[0])
    return fully_shard(model)


def say_sharded():
    from accelerate.state import AcceleratorState, PartialState
    from accelerate.utils import DistributedType, FullyShardedDataParallelPlugin

    try:
        plugin = FullyShardedDataParallelPlugin(fsdp_version=2)
    except TypeError:  # before 1.6
        plugin = FullyShardedDataParallelPlugin()
    for state in (PartialState, AcceleratorState):
        state._shared_state["distributed_type"] = DistributedType.FSDP
    AcceleratorState._shared_state["fsdp_plugin"] = plugin


@told
def main(wrapper, policy):
    from accelerate import Accelerator

    count = MICRO_BATCHES if policy == "feature" else 1
    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=count)
    model = make_model()
    model = accelerator.prepare(model) if wrapper == "ddp" else shard(model)
    optimizer = accelerator.prepare(torch.optim.SGD(model.parameters(), lr=RATE))
    if wrapper == "fsdp2":
        say_sharded()

    def context(is_last):
        if policy == "feature":
            return accelerator.accumulate(model)
        if policy == "no_sync" and not is_last:
            return accelerator.no_sync(model)
        return contextlib.nullcontext()

    account = Account()
    account.stepped(model.parameters())
    for window in steps():
        for is_last, batch in window:
            account.saw(batch)
            with context(is_last):
                loss = mean_squared_error(model, batch)
                accelerator.backward(loss if policy == "feature" else loss / MICRO_BATCHES)
                if policy == "feature" or is_last:
                    optimizer.step()
                    optimizer.zero_grad()
        account.stepped(model.parameters())
    account.close()


if __name__ == "__main__":
    main()
