"""with_skorch.py accelerate feature: its AccelerateMixin, with accumulation as its documents say.

On the CPU Accelerate would wrap the criterion, too; on GPUs it leaves out what has no parameters.
"""

import torch
from account_of_steps import MICRO_BATCHES, RATE, SAMPLES, told
from spy import Spy, samples


@told
def main(wrapper, policy):
    from accelerate import Accelerator
    from skorch import NeuralNetRegressor
    from skorch.hf import AccelerateMixin

    class Net(AccelerateMixin, NeuralNetRegressor):
        pass

    class OnCpu(Accelerator):
        def prepare_model(self, model, *more, **named):
            has_parameters = any(True for _ in model.parameters())
            return super().prepare_model(model, *more, **named) if has_parameters else model

    spy = Spy()
    net = Net(
        spy.model,
        accelerator=OnCpu(cpu=True, gradient_accumulation_steps=MICRO_BATCHES),
        optimizer=torch.optim.SGD,
        lr=RATE,
        batch_size=SAMPLES,
        max_epochs=1,
        train_split=None,
        iterator_train__shuffle=False,
        verbose=0,
    )
    inputs, targets = samples().tensors
    net.fit(inputs, targets)
    spy.close()


if __name__ == "__main__":
    main()
