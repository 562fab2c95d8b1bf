"""Jobs whose gradient is what it should be, or is changed on purpose: none may be accused."""

import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard
from torch.nn.functional import cross_entropy, mse_loss
from torch.nn.parallel import DistributedDataParallel
from torch.utils.checkpoint import checkpoint
from training import (
    FEATURES,
    MICRO_BATCHES,
    Spread,
    average,
    backward,
    batches,
    make_model,
    run,
    sgd,
    train_by_hand,
    train_ddp,
    train_experts,
    train_sharded,
)
from truths import Account, job


@job(Account())
def under_ddp():
    train_ddp()


@job(Account())
def under_ddp_of_8_micro_batches():
    train_ddp(micro_batches=8)


@job(Account())
def under_ddp_of_1_micro_batch():
    train_ddp(micro_batches=1)


@job(Account())
def by_hand():
    train_by_hand(make_model(), average)


@job(Account())
def sharded():
    train_sharded(fully_shard(make_model()))


@job(Account())
def sharded_and_synchronized_once():
    train_sharded(
        fully_shard(make_model()),
        before_backward=lambda model, i, count: model.set_requires_gradient_sync(i == count - 1),
    )


@job(Account(), ranks=4)
def sharded_and_replicated():
    """HSDP, the all-reduce in the last micro-batch alone."""
    model = fully_shard(
        make_model(), mesh=init_device_mesh("cpu", (2, 2), mesh_dim_names=("replicas", "shards"))
    )
    train_sharded(
        model,
        before_backward=lambda model, i, count: model.set_requires_all_reduce(i == count - 1),
    )


@job(Account())
def sharded_by_fsdp1():
    train_sharded(FullyShardedDataParallel(make_model(), device_id=torch.device("cpu")))


@job(Account())
def sharded_by_fsdp1_in_views():
    train_sharded(
        FullyShardedDataParallel(make_model(), device_id=torch.device("cpu"), use_orig_params=True)
    )


@job(Account(also="gradients are clipped"))
def clipped():
    train_ddp(before_step=lambda model: torch.nn.utils.clip_grad_norm_(model.parameters(), 0.01))


@job(Account("groups_differ", "x the rest"))
def clipped_one_by_one():
    """Each parameter by itself: told, as factors of their own."""

    def clip(model):
        for parameter in model.parameters():
            torch.nn.utils.clip_grad_norm_([parameter], 0.01)

    train_ddp(before_step=clip)


@job(Account())
def with_fp16_hook():
    model = DistributedDataParallel(make_model())
    model.register_comm_hook(dist.group.WORLD, default_hooks.fp16_compress_hook)
    train_ddp(model)


@job(
    Account(
        "not_a_sum",
        "not a sum of these gradients",
        "in 2 of 8 steps all 8 weigh the same",
        why="the communication hook powerSGD_hook of PowerSGDState is lossy",
    )
)
def with_power_sgd():
    """Lossy by purpose: told, with how much is left over."""
    model = DistributedDataParallel(make_model())
    state = powerSGD_hook.PowerSGDState(
        dist.group.WORLD, matrix_approximation_rank=1, start_powerSGD_iter=2
    )
    model.register_comm_hook(state, powerSGD_hook.powerSGD_hook)
    train_ddp(model, steps=8)


@job(Account())
def experts_divided_by_all_ranks():
    train_experts(1 / dist.get_world_size())


@job(Account(), ranks=4)
def experts_that_two_ranks_share():
    train_experts(1 / dist.get_world_size(), expert_ranks=2)


@job(Account())
def with_unused_parameters():
    """A head that takes part on every second micro-batch alone."""

    class Headed(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.body, self.head = make_model(), torch.nn.Linear(FEATURES, FEATURES)
            self.calls = 0

        def forward(self, inputs):
            self.calls += 1
            hidden = self.body(inputs)
            return self.head(hidden) if self.calls % 2 == 0 else hidden

    model = DistributedDataParallel(Headed(), find_unused_parameters=True)
    optimizer = sgd(model)
    for step in batches():
        for inputs, targets in step:
            backward(model, inputs, targets)
        optimizer.step()
        optimizer.zero_grad()


@job(Account())
def with_tied_parameters():
    layer = torch.nn.Linear(FEATURES, FEATURES)
    train_ddp(DistributedDataParallel(torch.nn.Sequential(layer, torch.nn.ReLU(), layer)))


@job(Account())
def with_checkpoints():
    class Checkpointed(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.body, self.head = make_model(), torch.nn.Linear(FEATURES, FEATURES)

        def forward(self, inputs):
            inputs.requires_grad_()
            return self.head(checkpoint(self.body, inputs, use_reentrant=True))

    train_ddp(DistributedDataParallel(Checkpointed(), static_graph=True), micro_batches=1)


@job(Account())
def two_optimizers():
    model = make_model()
    optimizers = [sgd(model[0]), sgd(model[2])]
    for step in batches():
        for inputs, targets in step:
            backward(model, inputs, targets)
        average(model)
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad()


@job(Account())
def two_that_take_turns():
    """A generator and a critic: the generator's loss reaches the critic, whose gradient of it is
    cleared.
    """
    generator, critic = make_model(), make_model()
    of_generator, of_critic = sgd(generator), sgd(critic)
    for [(inputs, targets)] in batches(steps=6, micro_batches=1):
        of_critic.zero_grad()
        (critic(generator(inputs).detach()).mean() - critic(targets).mean()).backward()
        average(critic)
        of_critic.step()
        of_generator.zero_grad()
        (-critic(generator(inputs)).mean()).backward()
        average(generator)
        of_generator.step()


@job(Account("dropped", "micro-batch 1 of 2 weighs 0"))
def sharpness_aware():
    """SAM: the first gradient is used to move the parameters, and cleared."""
    model = DistributedDataParallel(make_model())
    optimizer = sgd(model)
    for [(inputs, targets)] in batches(micro_batches=1):
        backward(model, inputs, targets)
        moves = [0.05 * p.grad / p.grad.norm() for p in model.parameters()]
        with torch.no_grad():
            for parameter, move in zip(model.parameters(), moves, strict=True):
                parameter.add_(move)
        model.zero_grad()
        backward(model, inputs, targets)
        with torch.no_grad():
            for parameter, move in zip(model.parameters(), moves, strict=True):
                parameter.sub_(move)
        optimizer.step()
        optimizer.zero_grad()


@job(Account("not_told_apart", "8 of 8 contributions cannot be distinguished"))
def fed_the_same():
    """All ranks get the same data: no weight can be distinguished from another's."""
    torch.data_seed = 5
    train_ddp()


@job(Account("not_a_sum", "not a sum of these gradients"))
def with_noise():
    """Noise is added by purpose, as for privacy."""

    def disturb(model):
        generator = torch.Generator().manual_seed(3)
        for parameter in model.parameters():
            noise = torch.randn(parameter.shape, generator=generator)
            parameter.grad.add_(noise * parameter.grad.std())

    train_ddp(before_step=disturb)


@job(Account())
def scaled():
    """A gradient scaler that finds infinities in its first step."""
    model = DistributedDataParallel(make_model())
    optimizer = sgd(model)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**120)
    for step in batches(steps=6):
        for inputs, targets in step:
            scaler.scale(mse_loss(model(inputs), targets)).backward()
        scaler.step(optimizer)
        scaler.update(2.0**10)
        optimizer.zero_grad()


@job(Account())
def divided_wrongly_inside_of_the_loss():
    """Not correct, and not to be seen: the divisor is on both sides of the equation.
    https://github.com/areal-project/AReaL/pull/1273
    """
    model = DistributedDataParallel(make_model())
    optimizer = sgd(model)
    for step in batches():
        for inputs, targets in step:
            backward(model, inputs, targets, divisor=MICRO_BATCHES**2)
        optimizer.step()
        optimizer.zero_grad()


@job(Account())
def gathered_without_its_sum():
    """Neither: what comes back through the activations that all ranks' experts shared is cut, not
    summed, and each contribution is wrong as it comes. https://github.com/NVIDIA-NeMo/Automodel/pull/1260
    """
    rank, ranks = dist.get_rank(), dist.get_world_size()
    Spread.backward = staticmethod(lambda context, gradient: (gradient.chunk(ranks)[rank], None))
    train_experts(1 / ranks)


@job(Account("not_told_apart", "its contributions cannot be distinguished"))
def added_up_in_sixteen_bits():
    """Many micro-batches whose gradients all point one way, in bfloat16: what each lost is less
    than what rounding hides, and no more is said.
    """
    model = make_model().to(torch.bfloat16)
    optimizer = sgd(model)
    for step in batches(micro_batches=40):
        for inputs, targets in step:
            backward(model, inputs.bfloat16(), targets.bfloat16() / 8 + 3, divisor=40)
        average(model)
        optimizer.step()
        optimizer.zero_grad()


@job(Account("rounded", "less than micro-batch 1"))
def swallowed_in_sixteen_bits():
    """The first micro-batch's gradient is 500 times the others', of which bfloat16 rounds a part
    away when they are added to it. Each parameter's gradient is what it is multiplied by.
    """
    parameters = [torch.nn.Parameter(torch.zeros(FEATURES, FEATURES)) for _ in range(300)]
    model = torch.nn.ParameterList(parameters).to(torch.bfloat16)
    optimizer = sgd(model)
    generator = torch.Generator().manual_seed(torch.data_seed)
    for _ in range(2):
        for size in (1, 0.002, 0.002, 0.002):
            drawn = torch.randn(len(model), FEATURES, FEATURES, generator=generator)
            drawn = (size * drawn).bfloat16()
            sum((p * x).sum() for p, x in zip(model, drawn, strict=True)).backward()
        average(model)
        optimizer.step()
        optimizer.zero_grad()


def weigh_by_tokens(each_micro_batch):
    """Ranks' micro-batches have other numbers of tokens, the losses are means over them, and behind
    the loss gradients count as there are tokens: of a rank, or of each micro-batch.
    """
    model = make_model()
    optimizer = sgd(model)
    for step in batches():
        kept = [8 - i - 2 * dist.get_rank() for i in range(len(step))]
        total = torch.tensor(float(sum(kept)))
        dist.all_reduce(total)
        gradients = [torch.zeros_like(p) for p in model.parameters()]
        for count, (inputs, targets) in zip(kept, step, strict=True):
            labels = targets.argmax(1)
            labels[count:] = -100
            loss = cross_entropy(model(inputs), labels)
            (loss if each_micro_batch else loss * count / sum(kept)).backward()
            for gradient, parameter in zip(gradients, model.parameters(), strict=True):
                gradient.add_(parameter.grad, alpha=count if each_micro_batch else sum(kept))
                parameter.grad = None
        for gradient, parameter in zip(gradients, model.parameters(), strict=True):
            parameter.grad = gradient / total
        average(model, factor=1)
        optimizer.step()
        optimizer.zero_grad()


@job(
    Account(
        "by_tokens",
        "weights stand in the ratio of tokens: micro-batches have 3 to 8 of them",
        "averaged over 4 micro-batches behind the loss",
    )
)
def micro_batches_weighed_by_tokens():
    weigh_by_tokens(each_micro_batch=True)


@job(Account("by_tokens", "weights stand in the ratio of tokens: ranks have 18 to 26 of them"))
def ranks_weighed_by_tokens():
    weigh_by_tokens(each_micro_batch=False)


if __name__ == "__main__":
    run()
