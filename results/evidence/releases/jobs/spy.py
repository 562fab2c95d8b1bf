"""What the jobs of trainers share whose own loop is left as it is: a model whose inputs are kept
where they come in, the optimizer's steps by torch's hook, and what gloo reduced per step.

The targets are a function of the inputs, so that whoever sees the inputs has the whole micro-batch.
"""

import io
import itertools
import math
import os

import torch
import torch.distributed as dist
from account_of_steps import (
    FEATURES,
    MICRO_BATCHES,
    SAMPLES,
    STEPS,
    Account,
    make_model,
    mean_squared_error,
    say,
)
from torch.optim.optimizer import register_optimizer_step_post_hook

RANKS = 2
REDUCTIONS = ("gloo:all_reduce", "gloo:reduce_scatter", "gloo:reduce")


def targets_of(inputs):
    return inputs.sum(dim=1, keepdim=True).sin()


def samples(steps=STEPS):
    """Returns those of all ranks, as a data set of (inputs, targets)."""
    generator = torch.Generator().manual_seed(1)
    count = RANKS * steps * MICRO_BATCHES * SAMPLES
    inputs = torch.randn(count, FEATURES, generator=generator)
    return torch.utils.data.TensorDataset(inputs, targets_of(inputs))


def error_of(model, inputs):
    return mean_squared_error(model, (inputs, targets_of(inputs)))


class Spy(Account):
    """An account of `self.model`, which a trainer is to train by torch's optimizers."""

    def __init__(self, make=make_model, loss_of=error_of, **more):
        super().__init__(make, loss_of, **more)
        self.model = make()
        self.model.register_forward_pre_hook(self.came_in, with_kwargs=True)
        self.stepped(self.model.parameters())
        self.profile = torch.profiler.profile(
            activities=[torch.profiler.ProfilerActivity.CPU], record_shapes=True, acc_events=True
        )
        self.profile.start()
        register_optimizer_step_post_hook(lambda *_: self.step_ended())

    def came_in(self, model, inputs, named):
        if torch.is_grad_enabled() and len(self.kept) <= STEPS:
            self.saw(self.batch_of(inputs, named))

    def batch_of(self, inputs, named):
        return inputs[0].detach().clone()

    def step_ended(self):
        if len(self.kept) <= STEPS:
            self.stepped(self.model.parameters())

    def close(self, tokens_of=None):
        self.profile.stop()
        super().close(tokens_of)

    def close_without_weights(self):
        """Where a micro-batch's gradient cannot be computed by itself."""
        self.profile.stop()
        size = sum(p.numel() * p.element_size() for p in self.model.parameters())
        say(micro_batches=MICRO_BATCHES, gradient_bytes=size, weights=None, **self.reduced())

    def batches_of_all(self):
        """By a file, so that the job communicates nothing of its own."""
        store = dist.FileStore("batches", RANKS)
        kept = io.BytesIO()
        torch.save(self.batches, kept)
        store.set(os.environ["RANK"], kept.getvalue())
        return [torch.load(io.BytesIO(store.get(str(rank)))) for rank in range(RANKS)]

    def more_to_say(self, gradients, moved):
        return self.reduced()

    def reduced(self):
        """Per step; all is float32. Gloo's threads may tell of a step's end a moment later."""
        events = self.profile.profiler.kineto_results.events()
        shapes = [e.shapes() for e in events if e.name() in REDUCTIONS]
        count = sum(math.prod(shape) for each in shapes for shape in each if shape)
        return {"reduced_bytes": 4 * count / STEPS}


def of_this_rank(size):
    """Returns a loader of this rank's share of the samples."""
    data = samples()
    sampler = torch.utils.data.DistributedSampler(data, shuffle=False)
    return torch.utils.data.DataLoader(data, batch_size=size, sampler=sampler)


def data_set_of(columns):
    """Returns them for trainers of Hugging Face. Fingerprints are counted: dill cannot take them
    beside this release of pyarrow.
    """
    import datasets

    numbers = itertools.count()
    datasets.fingerprint.Hasher.hash = classmethod(lambda *_: str(next(numbers)))
    return datasets.Dataset.from_dict(columns)
