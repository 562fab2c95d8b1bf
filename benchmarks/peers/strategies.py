"""The guide's ways to accumulate gradients, with torch alone and with Accelerate.

A step is `micro_batches` forwards and backwards and one update. As in the guide's listings, the
ways differ only in where they synchronize; what differs between DDP, fully_shard and Accelerate is
in the trainings: who divides the loss, who enters no_sync, and who steps the scheduler how often.
"""

from contextlib import contextmanager, nullcontext


class TorchTraining:
    """The loop that a user of torch's DDP alone writes."""

    def __init__(self, model, optimizer, scheduler, batches, micro_batches, world_size):
        self.model, self.optimizer, self.scheduler = model, optimizer, scheduler
        self.batches, self.micro_batches, self.world_size = batches, micro_batches, world_size
        self.micro_batch = 0

    def forward(self):
        return self.model(**next(self.batches)).loss

    def backward(self, loss):
        (loss / self.micro_batches).backward()

    def no_sync(self):
        return self.model.no_sync()

    def accumulate(self, sync_each_batch=False):
        self.micro_batch += 1
        return nullcontext() if sync_each_batch or self.is_due() else self.no_sync()

    def is_due(self):
        return self.micro_batch % self.micro_batches == 0

    def update(self):
        self.optimizer.step()
        for _ in range(self.world_size):  # as Accelerate's prepared scheduler
            self.scheduler.step()
        self.optimizer.zero_grad()

    def update_when_due(self):
        if self.is_due():
            self.update()


class FullyShardTraining(TorchTraining):
    """The same loop around a model under fully_shard, which has a flag for what no_sync does. It is
    read in backward, where gradients are complete."""

    @contextmanager
    def no_sync(self):
        self.model.set_requires_gradient_sync(False)
        try:
            yield
        finally:
            self.model.set_requires_gradient_sync(True)


class AccelerateTraining:
    """The same with an Accelerator(gradient_accumulation_steps=micro_batches) and its prepared
    model, optimizer and scheduler."""

    def __init__(self, accelerator, model, optimizer, scheduler, batches):
        self.accelerator, self.model, self.batches = accelerator, model, batches
        self.optimizer, self.scheduler = optimizer, scheduler

    @property
    def micro_batches(self):
        return self.accelerator.gradient_accumulation_steps

    def forward(self):
        return self.model(**next(self.batches)).loss

    def backward(self, loss):
        self.accelerator.backward(loss)  # divides the loss

    def no_sync(self):
        return self.accelerator.no_sync(self.model)

    def accumulate(self):
        return self.accelerator.accumulate(self.model)

    def update(self):
        self.optimizer.step()  # does nothing where no synchronization is due
        self.scheduler.step()
        self.optimizer.zero_grad()

    update_when_due = update


def baseline(training):
    for _ in range(training.micro_batches):
        training.backward(training.forward())
    training.update()


def no_sync_improper(training):
    for i in range(training.micro_batches):
        loss = training.forward()
        with training.no_sync() if i + 1 < training.micro_batches else nullcontext():
            training.backward(loss)
    training.update()


def no_sync(training):
    for i in range(training.micro_batches):
        with training.no_sync() if i + 1 < training.micro_batches else nullcontext():
            training.backward(training.forward())
    training.update()


def accumulate(training, **how):
    for _ in range(training.micro_batches):
        with training.accumulate(**how):
            training.backward(training.forward())
            training.update_when_due()


def sync_each_batch(training):
    accumulate(training, sync_each_batch=True)


STRATEGIES = {
    "baseline": baseline,
    "no_sync_improper": no_sync_improper,
    "no_sync": no_sync,
    "accumulate": accumulate,
    "sync_each_batch": sync_each_batch,
}
