"""Parameters that an optimizer steps and that no wrapper reduces: the rest of the model is
synchronized as it should be, and counts look right.
"""

import torch
import torch.distributed as dist
from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard
from torch.nn.functional import cross_entropy, mse_loss, normalize
from torch.nn.parallel import DistributedDataParallel
from training import (
    BATCH,
    FEATURES,
    HIDDEN,
    LEARNING_RATE,
    OUTPUTS,
    STEPS,
    average,
    backward,
    batches,
    draw,
    finish,
    make_model,
    proof,
    quiet_unless,
    run,
    sgd,
    windows,
)
from truths import drifts, job, once

CLASSES, EMBEDDED = 20, 16
UNFROZEN_AT = 8
SWITCHED_AT = 12


class ProxyLoss(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.proxies = torch.nn.Parameter(torch.randn(CLASSES, EMBEDDED))

    def forward(self, embedded, labels):
        return cross_entropy(10 * normalize(embedded) @ normalize(self.proxies).T, labels)


@job(
    drifts("in_no_wrapper", {"proxies": 2}, also=("once_per_step",), reductions=1),
    fixed=once(1, reductions=2),
)
def loss_with_parameters(is_fixed):
    """A loss such as ArcFace has a weight matrix of its own. Asked: must it be wrapped as well?
    Yes. https://github.com/KevinMusgrave/pytorch-metric-learning/issues/710, August 2024
    """
    model, loss_of = DistributedDataParallel(make_model(EMBEDDED)), ProxyLoss()
    proxies = loss_of.proxies
    proof.compare({"proxies": proxies, **dict(model.module.named_parameters())})
    if is_fixed:
        loss_of = DistributedDataParallel(loss_of)
    groups = [{"params": model.parameters()}, {"params": [proxies], "lr": 0.5}]
    optimizer = torch.optim.SGD(groups, lr=LEARNING_RATE)  # to change
    own = draw()
    for inputs, _ in batches(STEPS):
        labels = torch.randint(0, CLASSES, (BATCH,), generator=own)
        loss_of(model(inputs), labels).backward()
        finish(optimizer)


@job(
    drifts(
        "added_behind_wrap", {"2": 2}, also=("once_per_step", "unused_parameters"), reductions=1
    ),
    fixed=once(1, reductions=1),
)
def head_replaced_behind_ddp(is_fixed):
    """A layer is assigned anew after the model was wrapped: DDP's hooks are on the old one's
    parameters. https://github.com/pytorch/pytorch/issues/12603, November 2018
    """
    net = make_model()
    head = torch.nn.Linear(HIDDEN, OUTPUTS)
    if is_fixed:
        net[2] = head
    # Without this option DDP complains of the old head: it takes no part in the loss.
    model = DistributedDataParallel(net, find_unused_parameters=not is_fixed)  # to change
    net[2] = head
    proof.compare(net.named_parameters())
    optimizer = sgd(net.parameters())
    for inputs, targets in batches(STEPS):
        backward(model, inputs, targets)
        finish(optimizer)


@job(
    drifts("added_behind_wrap", {"0": 10}, also=("once_per_step",), reductions=1),
    fixed=once(1, reductions=1),
)
def backbone_unfrozen_behind_ddp(is_fixed):
    """A callback unfreezes the backbone after some epochs; DDP reduces what required gradients when
    the model was wrapped. The way out that was found: never freeze it, and train it with a learning
    rate of 0. https://github.com/Lightning-AI/pytorch-lightning/issues/20340, October 2024
    """
    net = make_model()
    backbone, head = net[0], net[2]
    backbone.requires_grad_(is_fixed)
    model = DistributedDataParallel(net)  # to change
    proof.compare(net.named_parameters())
    of_backbone = {"params": backbone.parameters(), "lr": 0.0}
    optimizer = sgd([{"params": head.parameters()}, of_backbone])
    for step, (inputs, targets) in enumerate(batches(STEPS)):
        if step == UNFROZEN_AT:
            backbone.requires_grad_(True)
            optimizer.param_groups[1]["lr"] = LEARNING_RATE
        backward(model, inputs, targets)
        finish(optimizer)


class Adapted(torch.nn.Module):
    """A layer with an adapter of low rank, when it has one."""

    def __init__(self):
        super().__init__()
        self.base = torch.nn.Linear(FEATURES, OUTPUTS).requires_grad_(False)

    def add_adapter(self, rank=4):
        self.down = torch.nn.Parameter(torch.randn(rank, FEATURES) / FEATURES)
        self.up = torch.nn.Parameter(torch.zeros(OUTPUTS, rank))

    def forward(self, inputs):
        return self.base(inputs) + inputs @ self.down.T @ self.up.T


def average_when_accumulated(parameters):
    for parameter in parameters:
        parameter.register_post_accumulate_grad_hook(lambda each: average([each.grad]))


@job(
    drifts("added_behind_wrap", {"up": 2, "down": 3}, synchronized=0, reductions=0),
    fixed=once(1, reductions=2),
)
def adapters_behind_fully_shard(is_fixed):
    """Adapters are added after the model was sharded, and no wrapper has them: their gradients are
    called replicated and are not. The fix: hooks that average them.
    https://github.com/hao-ai-lab/FastVideo/pull/1666, July 2026
    """
    model = Adapted()
    fully_shard(model)  # to change
    model.add_adapter()
    adapters = {"down": model.down, "up": model.up}
    proof.compare(adapters)
    if is_fixed:
        average_when_accumulated(adapters.values())
    optimizer = sgd(adapters.values(), 1.0)
    for inputs, targets in batches(STEPS):
        backward(model, inputs, targets)
        finish(optimizer)


class Rotated(torch.nn.Module):
    """Scales and turns its inputs before it uses them."""

    def __init__(self):
        super().__init__()
        self.turn = torch.nn.Linear(FEATURES, FEATURES, bias=False)
        self.net = make_model()

    def forward(self, inputs):
        return self.net(self.turn(inputs))


@job(
    drifts("wrapper_ignores", {"turn": 2}, also=("once_per_step",), reductions=1),
    fixed=once(1, reductions=2),
)
def ignored_by_fsdp(is_fixed):
    """Modules that FSDP would not flatten are named to it as ignored. They are trained as well, and
    FSDP does not reduce what it ignores.
    https://github.com/BrotherHappy/OSTQuant/issues/15, September 2025, which cites
    https://github.com/pytorch/pytorch/issues/98281, April 2023
    """
    net = Rotated()
    how = {"ignored_modules": [net.turn], "device_id": torch.device("cpu")}
    model = FullyShardedDataParallel(net, **how)  # to change
    proof.compare({"turn.weight": net.turn.weight})
    optimizer = sgd(model.parameters())
    for inputs, targets in batches(STEPS):
        backward(model, inputs, targets)
        if is_fixed:
            average([net.turn.weight.grad])
        finish(optimizer)


class TwoAdapters(torch.nn.Module):
    """A layer with two adapters, one of which is active."""

    def __init__(self):
        super().__init__()
        self.base = torch.nn.Linear(FEATURES, OUTPUTS)
        self.adapters = torch.nn.ModuleList(
            torch.nn.Linear(FEATURES, OUTPUTS, bias=False) for _ in range(2)
        )
        self.active = 0

    def names_of(self, adapter):
        return [name for name, _ in self.named_parameters() if f"adapters.{adapter}." in name]

    def forward(self, inputs):
        return self.base(inputs) + self.adapters[self.active](inputs)


@job(
    drifts(
        "wrapper_ignores",
        {"adapters.1": 14},
        also=("once_per_step", "unused_parameters"),
        reductions=1,
    ),
    fixed=once(1, names_line=True, also=("unused_parameters",), reductions=1),
)
def ignored_by_ddp(is_fixed):
    """DDP complains of adapters that are not active; proposed was to name them to DDP as ignored,
    when it wraps. This job activates one of them later; that is not in the report.
    https://github.com/huggingface/peft/pull/900, September 2023
    """
    net = TwoAdapters()
    idle = net.names_of(1)
    if not is_fixed:
        DistributedDataParallel._set_params_and_buffers_to_ignore_for_model(net, idle)
    model = DistributedDataParallel(net, find_unused_parameters=True)  # to change
    proof.compare(net.named_parameters())
    optimizer = sgd(net.parameters())
    for step, (inputs, targets) in enumerate(batches(STEPS)):
        net.active = int(step >= SWITCHED_AT)
        backward(model, inputs, targets)
        finish(optimizer)


@job(
    drifts("in_no_wrapper", {"critic": 2}, also=("once_per_step",), reductions=1),
    fixed=once(1, reductions=2),
)
def discriminator_not_wrapped(is_fixed):
    """Asked: why is the generator wrapped by DDP, and the discriminator not? By mistake.
    https://github.com/CyberAgentAILab/RALF/issues/21, January 2025
    """
    generator = DistributedDataParallel(make_model(FEATURES))
    critic = make_model(1)
    named = {f"critic.{name}": each for name, each in critic.named_parameters()}
    proof.compare({**named, **dict(generator.module.named_parameters())})
    if is_fixed:
        critic = DistributedDataParallel(critic)
    of_generator = sgd(generator.parameters())
    of_critic = torch.optim.SGD(critic.parameters(), lr=LEARNING_RATE)  # to change
    for inputs, real in batches(STEPS, FEATURES):
        with torch.no_grad():
            made = generator(inputs)
        (critic(made).mean() - critic(real).mean()).backward()
        of_critic.step()
        of_critic.zero_grad()
        for parameter in critic.parameters():
            parameter.requires_grad_(False)
        (-critic(generator(inputs)).mean()).backward()
        for parameter in critic.parameters():
            parameter.requires_grad_(True)
        finish(of_generator)


class Codebook(torch.nn.Module):
    """Vectors that follow the mean of what was nearest to them."""

    def __init__(self, is_averaged):
        super().__init__()
        self.is_averaged = is_averaged
        self.register_buffer("codes", torch.randn(16, HIDDEN))

    def forward(self, hidden):
        nearest = torch.cdist(hidden.detach(), self.codes).argmin(1)
        if self.training:
            self.update(hidden.detach(), nearest)
        quantized = self.codes[nearest]
        return hidden + (quantized - hidden).detach(), mse_loss(hidden, quantized)

    def update(self, hidden, nearest):
        counts = torch.nn.functional.one_hot(nearest, len(self.codes)).T.to(hidden.dtype)
        sums, sizes = counts @ hidden, counts.sum(1, keepdim=True)
        if self.is_averaged:
            dist.all_reduce(sums)
            dist.all_reduce(sizes)
        means = torch.where(sizes > 0, sums / sizes.clamp(min=1), self.codes)
        self.codes.lerp_(means, 0.2)


class Quantized(torch.nn.Module):
    def __init__(self, book):
        super().__init__()
        self.encode = torch.nn.Linear(FEATURES, HIDDEN)
        self.decode = torch.nn.Linear(HIDDEN, FEATURES)
        self.book = book

    def forward(self, inputs):
        quantized, commitment = self.book(self.encode(inputs))
        return self.decode(quantized), commitment


@job(
    once(1, drift={"book.codes": 2}, also=("buffers_differ",), reductions=1),
    fixed=once(1, reductions=3),
)
def codebook_of_each_rank(is_fixed):
    """A codebook follows a moving average of each worker's own batch. The fix sums counts and
    vectors over workers before each update. Here DDP does not broadcast buffers, which would throw
    away all but the first worker's. https://github.com/espnet/espnet/pull/6284, October 2025
    """
    net = Quantized(Codebook(is_averaged=is_fixed))
    model = DistributedDataParallel(net, broadcast_buffers=False)
    proof.compare({**dict(net.named_parameters()), **dict(net.named_buffers())})
    optimizer = sgd(net.parameters())
    for inputs, _ in batches(STEPS):
        again, commitment = model(inputs)
        (mse_loss(again, inputs) + 0.25 * commitment).backward()
        finish(optimizer)


class Learned(torch.nn.Module):
    """Codes that an optimizer of their own trains within forward."""

    def __init__(self, is_averaged):
        super().__init__()
        self.is_averaged = is_averaged
        self.encode, self.decode = torch.nn.Linear(FEATURES, 16), torch.nn.Linear(16, FEATURES)
        self.codes = torch.nn.Parameter(torch.randn(64, 16))
        self.of_codes = torch.optim.SGD([self.codes], lr=2.0)

    def forward(self, inputs):
        hidden = self.encode(inputs)
        nearest = torch.cdist(hidden.detach(), self.codes.detach()).argmin(1)
        mse_loss(self.codes[nearest], hidden.detach()).backward()
        if self.is_averaged:
            average([self.codes.grad])
        self.of_codes.step()
        self.of_codes.zero_grad(set_to_none=False)  # DDP stops where it finds no gradient here
        quantized = self.codes.detach()[nearest]
        return self.decode(hidden + (quantized - hidden).detach()), mse_loss(hidden, quantized)


@job(
    drifts(
        "drifts_though_reduced",
        {"codes": 2},
        4,
        names_line=True,
        also=("unused_parameters",),
        reductions=1,
    ),
    fixed=once(4, names_line=True, also=("unused_parameters",), reductions=5),
)
def codebook_with_an_optimizer(is_fixed):
    """A codebook that an optimizer of its own trains in forward is not synchronized, while the one
    that follows a moving average is. Proposed, and agreed to: sum its gradient before that step.
    https://github.com/lucidrains/vector-quantize-pytorch/issues/222, August 2025
    """
    net = Learned(is_averaged=is_fixed)
    # The codes have no part in the outer backward.
    model = DistributedDataParallel(net, find_unused_parameters=True)  # to change
    proof.compare(net.named_parameters())
    optimizer = sgd([each for name, each in net.named_parameters() if name != "codes"])
    for window in windows():
        for is_last, inputs, _ in window:
            with quiet_unless(is_last, model):
                again, commitment = model(inputs)
                ((mse_loss(again, inputs) + 0.25 * commitment) / len(window)).backward()
        finish(optimizer)


if __name__ == "__main__":
    run()
