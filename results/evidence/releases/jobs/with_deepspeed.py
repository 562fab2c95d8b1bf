"""with_deepspeed.py zero0|zero1|zero2|zero3 feature|boundary|no_sync

feature: its gradient_accumulation_steps; boundary: the same, with
set_gradient_accumulation_boundary; no_sync: by hand, with gradient_accumulation_steps of 1.
"""

import contextlib
import sys

import torch
from account_of_steps import (
    MICRO_BATCHES,
    RATE,
    SAMPLES,
    Account,
    make_model,
    mean_squared_error,
    steps,
    told,
)


def configuration(stage, count):
    return {
        "train_micro_batch_size_per_gpu": SAMPLES,
        "gradient_accumulation_steps": count,
        "gradient_clipping": 0.0,
        "zero_optimization": {"stage": stage},
        "zero_allow_untested_optimizer": True,
        "zero_force_ds_cpu_optimizer": False,
    }


def parameters_of(engine, stage):
    """Whole ones, which stage 3 gathers."""
    import deepspeed

    parameters = list(engine.module.parameters())
    gathered = contextlib.nullcontext()
    if stage == 3:
        gathered = deepspeed.zero.GatheredParameters(parameters)
    with gathered:
        return [p.detach().clone() for p in parameters]


@told
def main(wrapper, policy):
    import deepspeed

    stage = int(wrapper[-1])
    # Compiled for a minute, and used by inference alone.
    sys.modules["deepspeed.comm.torch"].build_shm_op = lambda: None
    deepspeed.init_distributed(dist_backend="gloo")
    model = make_model()
    count = 1 if policy == "no_sync" else MICRO_BATCHES
    engine, *_ = deepspeed.initialize(
        model=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=RATE),
        config=configuration(stage, count),
    )
    account = Account()
    account.stepped(parameters_of(engine, stage))
    for window in steps():
        for is_last, batch in window:
            account.saw(batch)
            if policy == "boundary":
                engine.set_gradient_accumulation_boundary(is_last)
            is_held = policy == "no_sync" and not is_last
            with engine.no_sync() if is_held else contextlib.nullcontext():
                loss = mean_squared_error(engine, batch)
                engine.backward(loss if count > 1 else loss / MICRO_BATCHES)
            if policy == "feature" or is_last:
                engine.step()
        account.stepped(parameters_of(engine, stage))
    account.close()


if __name__ == "__main__":
    main()
