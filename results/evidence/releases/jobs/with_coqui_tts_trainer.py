"""with_coqui_tts_trainer.py ddp feature: grad_accum_steps of its Trainer.

It wraps where it counts more than one GPU, and hands their numbers on: here it is told that there
are two, and they are the CPU.
"""

import os

import torch
from account_of_steps import MICRO_BATCHES, RATE, SAMPLES, told
from spy import RANKS, Spy, of_this_rank


def tell_of_gpus(module):
    def wrap(model, **_):
        return torch.nn.parallel.DistributedDataParallel(model)

    torch.cuda.device_count = lambda: RANKS
    module.DDP_th = wrap
    module.init_distributed = lambda *_, **__: torch.distributed.init_process_group("gloo")


@told
def main(wrapper, policy):
    import trainer.trainer
    from trainer import Trainer, TrainerArgs, TrainerConfig, TrainerModel

    tell_of_gpus(trainer.trainer)

    class Model(TrainerModel):
        def __init__(self, inner):
            super().__init__()
            self.inner = inner

        def forward(self, inputs):
            return self.inner(inputs)

        def train_step(self, batch, criterion):
            outputs = self(batch["inputs"])
            return {"model_outputs": outputs}, {"loss": criterion(outputs, batch["targets"])}

        def format_batch(self, batch):
            return dict(zip(("inputs", "targets"), batch, strict=True))

        def get_data_loader(self, *_, **__):
            return of_this_rank(SAMPLES)

        def get_criterion(self):
            return torch.nn.MSELoss()

        def get_optimizer(self):
            return torch.optim.SGD(self.parameters(), lr=RATE)

        def get_scheduler(self, optimizer):
            return None

    rank = int(os.environ["RANK"])
    spy = Spy()
    config = TrainerConfig(
        output_path=".", epochs=1, run_eval=False, save_checkpoints=False, lr=RATE
    )
    arguments = TrainerArgs(
        use_ddp=True, rank=rank, grad_accum_steps=MICRO_BATCHES, group_id="group"
    )
    Trainer(arguments, config, ".", model=Model(spy.model), parse_command_line_args=False).fit()
    spy.close()


if __name__ == "__main__":
    main()
