"""Jobs whose gradient is right and that synchronize more often than they need."""

import contextlib

import torch
import torch.distributed as dist
from torch._utils import _flatten_dense_tensors, _unflatten_dense_tensors
from torch.nn.functional import cross_entropy, mse_loss
from torch.nn.parallel import DistributedDataParallel
from training import (
    FEATURES,
    MICRO_BATCHES,
    STEPS,
    backward,
    batches,
    draw,
    finish,
    gradients_of,
    make_model,
    proof,
    quiet_unless,
    run,
    sgd,
    windows,
)
from truths import job, once, reduced_twice, too_often

EMBEDDED, PAIRS, MINI = 16, 16, 4


@job(reduced_twice(reductions=5), fixed=once(1, reductions=1))
def averaged_by_hand_behind_ddp(is_fixed):
    """An example wraps its model by DDP, and averages gradients by hand as well.
    https://github.com/kubeflow/pytorch-operator/issues/122, January 2019
    """
    model = DistributedDataParallel(make_model())
    proof.compare(model.module.named_parameters())
    optimizer = sgd(model.parameters())
    for inputs, targets in batches(STEPS):
        backward(model, inputs, targets)
        if not is_fixed:
            for gradient in gradients_of(model.parameters()):
                dist.all_reduce(gradient)  # to change
                gradient.div_(dist.get_world_size())
        finish(optimizer)


@job(reduced_twice(reductions=2), fixed=once(1, reductions=1))
def averaged_as_one_copy_behind_ddp(is_fixed):
    """A hook of the optimizer averages gradients over processes, as one flat copy. Asked: does DDP
    not do that? It is from a time when wrappers did not.
    https://github.com/sconlyshootery/FeatDepth/issues/79, January 2022
    """
    model = DistributedDataParallel(make_model())
    proof.compare(model.module.named_parameters())
    optimizer = sgd(model.parameters())
    for inputs, targets in batches(STEPS):
        backward(model, inputs, targets)
        if not is_fixed:
            gradients = gradients_of(model.parameters())
            flat = _flatten_dense_tensors(gradients)
            dist.all_reduce(flat)  # to change
            flat.div_(dist.get_world_size())
            means = _unflatten_dense_tensors(flat, gradients)
            for gradient, mean in zip(gradients, means, strict=True):
                gradient.copy_(mean)
        finish(optimizer)


@job(
    too_often("reduced_behind_each", reductions=16),
    fixed=once(reductions=4),
)
def averaged_by_hand_in_every_micro_batch(is_fixed):
    """What is trained is not in the wrapped model, so that gradients are averaged by hand: behind
    every backward, although it accumulates.
    https://github.com/kohya-ss/sd-scripts/pull/1064, January 2024
    """
    model = make_model()
    proof.compare(model.named_parameters())
    optimizer = sgd(model.parameters())
    for window in windows():
        for is_last, inputs, targets in window:
            backward(model, inputs, targets, MICRO_BATCHES)
            if is_last or not is_fixed:
                for gradient in gradients_of(model.parameters()):
                    dist.all_reduce(gradient, op=dist.ReduceOp.AVG)  # to change
        finish(optimizer)


def cached_loss(model, columns, is_fixed):
    """Returns a loss whose backward runs forward and backward of each mini-batch again."""
    parts = [part for column in columns for part in column.split(MINI)]
    with torch.no_grad():
        cached = [model(part).requires_grad_() for part in parts]
    half = len(cached) // 2
    scores = torch.cat(cached[:half]) @ torch.cat(cached[half:]).T
    loss = cross_entropy(scores, torch.arange(len(scores)))
    loss.backward()  # as far as the cached embeddings

    def replay(upstream):
        for i, (part, embedded) in enumerate(zip(parts, cached, strict=True)):
            is_due = not is_fixed or i == len(parts) - 1
            with torch.enable_grad(), quiet_unless(is_due, model):
                ((model(part) * embedded.grad).sum() * upstream).backward()  # to change

    handle = loss.detach().requires_grad_()
    handle.register_hook(replay)
    return handle


@job(too_often("no_no_sync", 8, micro_batches=8, reductions=8), fixed=once(8, reductions=1))
def cached_contrastive_loss(is_fixed):
    """A contrastive loss caches embeddings, and replays forward and backward of each mini-batch of
    each column in a hook of its own backward: under DDP each replay synchronizes.
    https://github.com/huggingface/sentence-transformers/issues/4027, September 2026
    """
    model = DistributedDataParallel(make_model(EMBEDDED))
    proof.compare(model.module.named_parameters())
    optimizer = sgd(model.parameters())
    own = draw()
    for _ in range(STEPS):
        columns = [torch.randn(PAIRS, FEATURES, generator=own) for _ in range(2)]
        cached_loss(model, columns, is_fixed).backward()
        finish(optimizer)


class Ranker(torch.nn.Module):
    """A table with a wrapper of its own, in a model that is wrapped again."""

    def __init__(self):
        super().__init__()
        self.table = DistributedDataParallel(torch.nn.EmbeddingBag(500, FEATURES, mode="mean"))
        self.over = make_model(1)

    def forward(self, ids):
        return self.over(self.table(ids))


def make_nested():
    ranker = Ranker()
    inner = [name for name, _ in ranker.named_parameters() if name.startswith("table.")]
    DistributedDataParallel._set_params_and_buffers_to_ignore_for_model(ranker, inner)
    return DistributedDataParallel(ranker)


def quiet(wrappers):
    stack = contextlib.ExitStack()
    for wrapper in wrappers:
        stack.enter_context(wrapper.no_sync())  # to change
    return stack


@job(too_often("no_sync_not_inside", reductions=5), fixed=once(4, reductions=2))
def wrapper_within_a_wrapper(is_fixed):
    """Accumulation entered no_sync() of the outermost DDP alone; tables with a DDP of their own,
    inside, went on to synchronize. https://github.com/meta-pytorch/torchrec/pull/4121, April 2026
    """
    model = make_nested()
    wrappers = [each for each in model.modules() if isinstance(each, DistributedDataParallel)]
    proof.compare(model.module.named_parameters())
    optimizer = sgd(model.parameters())
    own = draw()
    for window in windows():
        for is_last, _, targets in window:
            ids = torch.randint(0, 500, (len(targets), 5), generator=own)
            held = [] if is_last else wrappers if is_fixed else [model]
            with quiet(held):
                (mse_loss(model(ids), targets[:, :1]) / MICRO_BATCHES).backward()
        finish(optimizer)


@job(too_often("no_sync_of_another_model", reductions=5), fixed=once(4, reductions=2))
def wrappers_side_by_side(is_fixed):
    """Each module of a model is wrapped by itself, and one without parameters is not. The loop that
    turns synchronization off ends at the first that is not wrapped.
    https://github.com/speechbrain/speechbrain/pull/2010, October 2023
    """
    encoder = DistributedDataParallel(make_model(FEATURES))
    decoder = DistributedDataParallel(make_model())
    model = torch.nn.Sequential(encoder, torch.nn.Tanh(), decoder)
    proof.compare(model.named_parameters())
    optimizer = sgd(model.parameters())
    for window in windows():
        for is_last, inputs, targets in window:
            held = [] if is_last else [encoder, decoder] if is_fixed else [encoder]
            with quiet(held):
                backward(model, inputs, targets, MICRO_BATCHES)
        finish(optimizer)


if __name__ == "__main__":
    run()
