"""with_torchtnt.py ddp feature: gradient_accumulation_steps of its AutoUnit."""

import torch
from account_of_steps import MICRO_BATCHES, RATE, SAMPLES, told
from spy import Spy, of_this_rank


@told
def main(wrapper, policy):
    from torchtnt.framework.auto_unit import AutoUnit
    from torchtnt.framework.train import train

    class Unit(AutoUnit):
        def compute_loss(self, state, data):
            inputs, targets = data
            outputs = self.module(inputs)
            return torch.nn.functional.mse_loss(outputs, targets), outputs

        def configure_optimizers_and_lr_scheduler(self, module):
            return torch.optim.SGD(module.parameters(), lr=RATE), None

    torch.distributed.init_process_group("gloo")
    spy = Spy()
    unit = Unit(
        module=spy.model,
        device=torch.device("cpu"),
        strategy="ddp",
        gradient_accumulation_steps=MICRO_BATCHES,
    )
    train(unit, of_this_rank(SAMPLES), max_epochs=1)
    spy.close()


if __name__ == "__main__":
    main()
