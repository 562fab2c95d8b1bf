"""with_fastai.py ddp feature: its GradientAccumulation, within distrib_ctx.

Its loader sends the order of samples by way of a GPU: here that is said to be the CPU.
"""

import functools

import torch
from account_of_steps import MICRO_BATCHES, RATE, SAMPLES, told
from spy import Spy, samples


@told
def main(wrapper, policy):
    from fastai import distributed  # noqa: F401  gives Learner its distrib_ctx
    from fastai.callback.training import GradientAccumulation
    from fastai.data.core import DataLoaders
    from fastai.data.load import DataLoader
    from fastai.learner import Learner
    from fastai.optimizer import OptimWrapper

    torch.Tensor.cuda = lambda tensor: tensor
    spy = Spy()
    learner = Learner(
        DataLoaders(DataLoader(samples(), bs=SAMPLES), DataLoader(samples(), bs=SAMPLES)),
        spy.model,
        loss_func=torch.nn.functional.mse_loss,
        opt_func=functools.partial(OptimWrapper, opt=torch.optim.SGD),
        lr=RATE,
        cbs=GradientAccumulation(MICRO_BATCHES * SAMPLES),
    )
    torch.distributed.init_process_group("gloo")
    with learner.no_bar(), learner.no_logging(), learner.distrib_ctx(cpu=True):
        learner.fit(1)
    spy.close()


if __name__ == "__main__":
    main()
