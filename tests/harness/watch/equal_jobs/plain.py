"""A loop of one's own whose samples are split as it is told: one rank of a launcher.

    plain.py NORMALIZED_BY MICRO_BATCHES MICRO_BATCH_SIZE

The loss is a mean over the tokens of the step, of this rank's step or of a micro_batch. "once" is
the mean of whole sequences, of which nobody divides by the micro-batches; "unseeded" has parameters
of its own in every run, and "drawn" other samples in every split.
"""

import contextlib
import sys

import torch
import torch.distributed as dist
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel

WORDS, WIDTH, LENGTH, SAMPLES, STEPS = 50, 16, 12, 64, 2


def sequences(are_whole):
    """Returns inputs and labels, [SAMPLES, LENGTH]: sequences of other lengths, the rest padded."""
    generator = torch.Generator().manual_seed(0)
    inputs = torch.randint(WORDS, (SAMPLES, LENGTH), generator=generator)
    labels = torch.randint(WORDS, (SAMPLES, LENGTH), generator=generator)
    lengths = torch.randint(2, LENGTH, (SAMPLES, 1), generator=generator)
    if not are_whole:
        labels[torch.arange(LENGTH) >= lengths] = -100
    return inputs, labels


def micro_batches_of(step, rank, ranks, count, size):
    """Yields the samples of each micro-batch: a step has the same ones however it is split."""
    first = step * ranks * count * size
    for i in range(count):
        begin = first + (i * ranks + rank) * size
        yield torch.arange(begin, begin + size) % SAMPLES


def tokens_in(labels):
    return (labels != -100).sum().item()


def divisor_of(normalized_by, labels, of_step):
    """Returns the divisor of a micro-batch's sum of losses: DDP's mean over ranks is the loss."""
    if normalized_by == "step":
        total = torch.tensor(float(sum(map(tokens_in, of_step))))
        dist.all_reduce(total)
        return total.item() / dist.get_world_size()
    if normalized_by == "rank":
        return sum(map(tokens_in, of_step))
    return tokens_in(labels) * (1 if normalized_by == "once" else len(of_step))


def main():
    normalized_by, count, size = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    torch.set_num_threads(1)
    torch.manual_seed(1)
    if normalized_by == "unseeded":
        torch.seed()
    dist.init_process_group("gloo")
    rank, ranks = dist.get_rank(), dist.get_world_size()
    inputs, labels = sequences(are_whole=normalized_by == "once")
    if normalized_by == "drawn":
        inputs = inputs.roll(ranks, 0)
    model = torch.nn.Sequential(torch.nn.Embedding(WORDS, WIDTH), torch.nn.Linear(WIDTH, WORDS))
    model = DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(STEPS):
        chosen = list(micro_batches_of(step, rank, ranks, count, size))
        for i, samples in enumerate(chosen):
            with model.no_sync() if i + 1 < count else contextlib.nullcontext():
                logits = model(inputs[samples]).flatten(0, 1)
                loss = cross_entropy(logits, labels[samples].flatten(), reduction="sum")
                divisor = divisor_of(normalized_by, labels[samples], [labels[c] for c in chosen])
                (loss / divisor).backward()
        optimizer.step()
        optimizer.zero_grad()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
