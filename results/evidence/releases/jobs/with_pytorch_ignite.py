"""with_pytorch_ignite.py ddp feature: gradient_accumulation_steps of its supervised trainer."""

import torch
from account_of_steps import MICRO_BATCHES, RATE, SAMPLES, told
from spy import Spy, samples


@told
def main(wrapper, policy):
    import ignite.distributed as idist
    from ignite.engine import create_supervised_trainer

    idist.initialize("gloo")
    spy = Spy()
    model = idist.auto_model(spy.model)
    optimizer = idist.auto_optim(torch.optim.SGD(model.parameters(), lr=RATE))
    loader = idist.auto_dataloader(samples(), batch_size=2 * SAMPLES, shuffle=False)
    trainer = create_supervised_trainer(
        model,
        optimizer,
        torch.nn.functional.mse_loss,
        gradient_accumulation_steps=MICRO_BATCHES,
    )
    trainer.run(loader, max_epochs=1)
    spy.close()


if __name__ == "__main__":
    main()
