"""What the jobs beside this file share: a tiny model, its data, and an account of what each
micro-batch weighed in a step.

SGD takes p0 to p1 = p0 - rate * sum(weight * gradient) of the micro-batches of all ranks. A job
keeps p0, p1 and its micro-batches; afterwards the gradients are computed again, one by one, and the
weights follow by least squares. 1 is what a micro-batch weighs in the mean of all.

Each rank prints as its last line {"rank", "micro_batches", "gradient_bytes", "weights", "tokens",
"left_over"} of the last step, weights and tokens by rank and micro-batch; one whose library raises
prints {"rank", "refused"}.
"""

import functools
import json
import os
import sys
import traceback

import torch
import torch.distributed as dist

MICRO_BATCHES, STEPS, RATE = 4, 4, 0.1
FEATURES, WIDTH, SAMPLES = 12, 16, 8


def make_model():
    torch.manual_seed(0)
    layers = [torch.nn.Linear(FEATURES, WIDTH), torch.nn.Tanh(), torch.nn.Linear(WIDTH, 1)]
    return torch.nn.Sequential(*layers)


def mean_squared_error(model, batch):
    inputs, targets = batch
    return torch.nn.functional.mse_loss(model(inputs), targets)


def steps():
    """Yields for each step its micro-batches, other ones on each rank, as (is_last, batch)."""
    generator = torch.Generator().manual_seed(1 + int(os.environ["RANK"]))
    for _ in range(STEPS):
        yield [
            (
                number == MICRO_BATCHES - 1,
                (
                    torch.randn(SAMPLES, FEATURES, generator=generator),
                    torch.randn(SAMPLES, 1, generator=generator),
                ),
            )
            for number in range(MICRO_BATCHES)
        ]


def whole(parameter):
    full = getattr(parameter, "full_tensor", None)
    return (full() if full else parameter).detach().clone()


class Account:
    """`make`: the model again, as it was before it was wrapped; `loss_of(model, batch)`."""

    def __init__(self, make=make_model, loss_of=mean_squared_error, rate=RATE):
        self.make, self.loss_of, self.rate = make, loss_of, rate
        self.kept, self.batches = [], []

    def saw(self, batch):
        self.batches.append(batch)

    def stepped(self, parameters):
        """Once before the first step, and after each."""
        self.kept.append([whole(p) for p in parameters])
        if len(self.kept) <= STEPS:
            self.batches = []

    def close(self, tokens_of=None):
        """`tokens_of(batch)`: how many of a micro-batch count, where these are not all alike."""
        before, after = self.kept[-2:]
        gathered = self.batches_of_all()
        model = self.make()
        gradients = [self.gradient(model, before, batch) for all in gathered for batch in all]
        moved = flat([a - b for a, b in zip(before, after, strict=True)]) / self.rate
        matrix = torch.stack(gradients, dim=1) / len(gradients)
        weights = torch.linalg.lstsq(matrix, moved).solution
        left_over = (moved - matrix @ weights).norm() / moved.norm()
        tokens = [[tokens_of(batch) for batch in all] for all in gathered] if tokens_of else None
        say(
            micro_batches=len(self.batches),
            gradient_bytes=sum(p.numel() * p.element_size() for p in before),
            weights=weights.reshape(len(gathered), -1).tolist(),
            left_over=left_over.item(),
            tokens=tokens,
            **self.more_to_say(gradients, moved),
        )

    def batches_of_all(self):
        gathered = [None] * dist.get_world_size()
        dist.all_gather_object(gathered, self.batches)
        return gathered

    def more_to_say(self, gradients, moved):
        return {}

    def gradient(self, model, values, batch):
        model.zero_grad()
        for parameter, value in zip(model.parameters(), values, strict=True):
            parameter.data.copy_(value)
        self.loss_of(model, batch).backward()
        return flat([p.grad for p in model.parameters()])


def flat(tensors):
    return torch.cat([t.double().flatten() for t in tensors])


def say(**fields):
    line = json.dumps({"rank": int(os.environ["RANK"]), **fields})
    os.write(sys.stdout.fileno(), f"{line}\n".encode())  # at once, beside the other rank's


def told(main):
    """Runs the script's `main(wrapper, policy)`; what its library raises is what it is to tell."""

    @functools.wraps(main)
    def run():
        torch.set_num_threads(1)
        try:
            main(*sys.argv[1:])
        except ImportError:
            raise  # what is missing here is no answer of the library's
        except Exception as error:
            traceback.print_exc()
            say(refused=f"{type(error).__name__}: {error}"[:300])
            sys.stdout.flush()
            os._exit(1)
        if dist.is_initialized():
            dist.destroy_process_group()

    return run
