"""Correct jobs whose model or wrapper looks strange: a checker must not accuse them."""

import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard
from torch.nn.functional import mse_loss
from torch.nn.parallel import DistributedDataParallel
from torch.utils.checkpoint import checkpoint
from training import (
    FEATURES,
    HIDDEN,
    OUTPUTS,
    backward,
    ddp,
    end_step,
    finish,
    follow,
    loss_of,
    make_net,
    proof,
    quiet_unless,
    run,
    sgd,
    steps,
    train,
)
from truth import SCALED, UNREAD, odd

CPU = torch.device("cpu")


@odd(reductions=4)
def sharded_and_reduced_each_time():
    """fully_shard's own way: each micro-batch reduces, and less memory is held."""
    train(fully_shard(follow(make_net())))


@odd()
def sharded_and_reduced_once():
    model = fully_shard(follow(make_net()))
    train(model, before=lambda batch: model.set_requires_gradient_sync(batch.is_last))


@odd(ranks=4, reductions=5)
def replicas_of_shards_reduced_once():
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("replicate", "shard"))
    model = fully_shard(follow(make_net()), mesh=mesh)
    train(model, before=lambda batch: model.set_requires_all_reduce(batch.is_last))


@odd()
def sharded_by_fsdp1_in_no_sync():
    net = follow(make_net())
    model = FullyShardedDataParallel(net, device_id=CPU, use_orig_params=True)
    proof.wrapper = model
    train(model)


class Headed(torch.nn.Module):
    """A head that takes part in every second micro-batch alone."""

    def __init__(self):
        super().__init__()
        self.body, self.head = make_net(), torch.nn.Linear(OUTPUTS, OUTPUTS)
        self.calls = 0

    def forward(self, inputs):
        self.calls += 1
        hidden = self.body(inputs)
        return self.head(hidden) if self.calls % 2 == 0 else hidden


@odd("https://github.com/pytorch/pytorch/issues/69031", 2021, weights=UNREAD)
def a_head_that_is_not_always_used():
    model = ddp(Headed(), find_unused_parameters=True)
    optimizer = sgd(model)
    for step in steps():
        for batch in step:
            with quiet_unless(batch.is_last, model):
                (mse_loss(model(batch.inputs), batch.targets) / batch.count).backward()
        finish(optimizer)


class Tied(torch.nn.Module):
    """One matrix leads in and out again."""

    def __init__(self):
        super().__init__()
        self.matrix = torch.nn.Parameter(torch.randn(HIDDEN, FEATURES) / 5)

    def forward(self, inputs):
        return ((inputs @ self.matrix.T).tanh() @ self.matrix)[:, :OUTPUTS]


@odd()
def tied_parameters():
    train(ddp(Tied()))


@odd("https://github.com/pytorch/pytorch/issues/109191", 2023)
def recomputed_without_reentry():
    class Recomputed(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = make_net(FEATURES, FEATURES), make_net()

        def forward(self, inputs):
            return self.second(checkpoint(self.first, inputs, use_reentrant=False))

    train(ddp(Recomputed()))


@odd()
def a_static_graph():
    train(ddp(static_graph=True), data=steps(micro_batches=1))


@odd()
def compressed_to_sixteen_bits():
    model = ddp()
    model.register_comm_hook(dist.group.WORLD, default_hooks.bf16_compress_hook)
    train(model)


@odd(weights=UNREAD, reductions=2)
def two_models_whose_optimizers_take_turns():
    generator, critic = follow(make_net(8, 8), "generator"), follow(make_net(8, 1), "critic")
    made_by, judged_by = DistributedDataParallel(generator), DistributedDataParallel(critic)
    of_generator, of_critic = sgd(generator), sgd(critic)
    for [batch] in steps(micro_batches=1):
        made = made_by(batch.inputs[:, :8]).detach()
        (judged_by(made) - judged_by(batch.targets)).square().mean().backward()
        of_critic.step()
        of_critic.zero_grad()
        critic.requires_grad_(False)
        (-critic(made_by(batch.inputs[:, :8])).mean()).backward()
        critic.requires_grad_(True)
        finish(of_generator)


@odd(weights=UNREAD)
def unfrozen_and_wrapped_again():
    net = follow(make_net())
    net[0].requires_grad_(False)
    model = DistributedDataParallel(net)
    optimizer = sgd(net[2])
    for number, [batch] in enumerate(steps(micro_batches=1)):
        if number == 4:
            net[0].requires_grad_(True)
            model = DistributedDataParallel(net)
            optimizer.add_param_group({"params": list(net[0].parameters())})
        mse_loss(model(batch.inputs), batch.targets).backward()
        finish(optimizer)


@odd()
def half_of_the_model_is_frozen():
    net = make_net()
    net[0].requires_grad_(False)
    train(ddp(net), sgd(net[2]))


@odd(weights=SCALED)
def a_scaler_that_skips():
    """A gradient scaler skips steps where its scale has grown too large, the same on all ranks."""
    model = ddp()
    optimizer = sgd(model, 1e-4)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**118, growth_interval=2)
    for [batch] in steps(16, micro_batches=1):
        scaler.scale(loss_of(model, batch) * 1000).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
        end_step()


@odd(weights=UNREAD, reductions=0, drifts=("",))
def averaged_every_fifth_step():
    """Local SGD: ranks step by themselves, and average parameters now and then."""
    net = follow(make_net())
    optimizer = sgd(net)
    for number, [batch] in enumerate(steps(20, micro_batches=1), 1):
        backward(net, batch)
        optimizer.step()
        optimizer.zero_grad()
        if number % 5 == 0:
            with torch.no_grad():
                for parameter in net.parameters():
                    dist.all_reduce(parameter)
                    parameter.div_(dist.get_world_size())
        end_step()


@odd(weights=UNREAD, drifts=("head",))
def a_head_of_each_rank():
    """A body that all ranks share, and a head for each rank's own data."""
    body = follow(make_net(FEATURES, HIDDEN), "body")
    torch.manual_seed(10 + dist.get_rank())
    head = follow(torch.nn.Linear(HIDDEN, OUTPUTS), "head")
    model = DistributedDataParallel(body)
    optimizer = sgd([*body.parameters(), *head.parameters()])
    for [batch] in steps(micro_batches=1):
        mse_loss(head(model(batch.inputs)), batch.targets).backward()
        finish(optimizer)


@odd(weights=UNREAD, reductions=0, drifts=("",))
def an_ensemble():
    """Each rank trains a member from random numbers of its own; losses are averaged for the log."""
    torch.manual_seed(dist.get_rank())
    member = follow(make_net())
    optimizer = sgd(member)
    for [batch] in steps(micro_batches=1):
        loss = mse_loss(member(batch.inputs), batch.targets)
        loss.backward()
        dist.all_reduce(loss.detach().clone())
        finish(optimizer)


@odd("https://github.com/facebookresearch/unbiased-teacher/issues/31", 2021, weights=UNREAD)
def a_teacher_beside_every_replica():
    """A moving average of the model is kept by each rank: equal, as replicas are."""
    net = make_net()
    teacher = follow(make_net(), "teacher")
    teacher.load_state_dict(net.state_dict())
    teacher.requires_grad_(False)
    model = DistributedDataParallel(follow(net, "net"))
    optimizer = sgd(model)
    for step in steps():
        for batch in step:
            with quiet_unless(batch.is_last, model):
                (mse_loss(model(batch.inputs), batch.targets) / batch.count).backward()
        finish(optimizer)
        for mine, now in zip(teacher.parameters(), net.parameters(), strict=True):
            mine.data.lerp_(now.data, 0.1)


if __name__ == "__main__":
    run()
