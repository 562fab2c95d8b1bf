"""with_megatron_core.py ddp|ddp_overlap feature|every

Megatron-core's own DDP, which averages what it holds in `main_grad`; ddp_overlap: with its
overlap_grad_reduce, which reduces beside the last backward. feature: its no_sync around all
micro-batches of a step but the last, and finalize_model_grads behind them. It puts its buffers on
the current GPU: here that is said to be the CPU.
"""

import contextlib

import torch
import torch.distributed as dist
from account_of_steps import (
    MICRO_BATCHES,
    RATE,
    Account,
    make_model,
    mean_squared_error,
    steps,
    told,
)


def wrapped(overlaps):
    from megatron.core import parallel_state
    from megatron.core.distributed import DistributedDataParallel, DistributedDataParallelConfig
    from megatron.core.transformer import TransformerConfig

    torch.cuda.current_device = lambda: "cpu"
    dist.init_process_group("gloo")
    parallel_state.initialize_model_parallel()
    config = TransformerConfig(num_layers=1, hidden_size=16, num_attention_heads=1)
    how = DistributedDataParallelConfig(overlap_grad_reduce=overlaps)
    return DistributedDataParallel(config, how, make_model())


@told
def main(wrapper, policy):
    from megatron.core.distributed import finalize_model_grads

    model = wrapped(wrapper == "ddp_overlap")
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE)
    account = Account()
    account.stepped(model.parameters())
    for window in steps():
        model.zero_grad_buffer()
        for is_last, batch in window:
            account.saw(batch)
            is_held = policy == "feature" and not is_last
            with model.no_sync() if is_held else contextlib.nullcontext():
                (mean_squared_error(model, batch) / MICRO_BATCHES).backward()
        finalize_model_grads([model])
        for parameter in model.parameters():
            parameter.grad = parameter.main_grad
        optimizer.step()
        for parameter in model.parameters():
            parameter.grad = None
        account.stepped(model.parameters())
    account.close()


if __name__ == "__main__":
    main()
