"""with_mmengine.py ddp feature: accumulative_counts of its Runner's optim_wrapper."""

import torch
from account_of_steps import MICRO_BATCHES, RATE, SAMPLES, told
from spy import Spy, of_this_rank


@told
def main(wrapper, policy):
    from mmengine.model import BaseModel
    from mmengine.runner import Runner

    class Model(BaseModel):
        def __init__(self, inner):
            super().__init__()
            self.inner = inner

        def forward(self, inputs, targets, mode):
            return {"loss": torch.nn.functional.mse_loss(self.inner(inputs), targets)}

    torch.distributed.init_process_group("gloo")
    spy = Spy()
    runner = Runner(
        model=Model(spy.model),
        work_dir=".",
        train_dataloader=of_this_rank(SAMPLES),
        optim_wrapper={
            "optimizer": {"type": "SGD", "lr": RATE},
            "accumulative_counts": MICRO_BATCHES,
        },
        train_cfg={"by_epoch": True, "max_epochs": 1},
        default_hooks={"checkpoint": None, "logger": None},
        launcher="pytorch",
        cfg={"model_wrapper_cfg": {"type": "MMDistributedDataParallel", "device_ids": None}},
        log_level="ERROR",
    )
    runner.train()
    spy.close()


if __name__ == "__main__":
    main()
