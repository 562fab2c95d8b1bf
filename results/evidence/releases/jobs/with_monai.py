"""with_monai.py ddp feature: accumulation_steps of its SupervisedTrainer."""

import torch
from account_of_steps import MICRO_BATCHES, RATE, SAMPLES, told
from spy import Spy, of_this_rank


@told
def main(wrapper, policy):
    from monai.engines import SupervisedTrainer

    torch.distributed.init_process_group("gloo")
    spy = Spy()
    model = torch.nn.parallel.DistributedDataParallel(spy.model)
    trainer = SupervisedTrainer(
        device="cpu",
        max_epochs=1,
        train_data_loader=of_this_rank(SAMPLES),
        network=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=RATE),
        loss_function=torch.nn.functional.mse_loss,
        prepare_batch=lambda batch, *_, **__: tuple(batch),
        accumulation_steps=MICRO_BATCHES,
    )
    trainer.run()
    spy.close()


if __name__ == "__main__":
    main()
