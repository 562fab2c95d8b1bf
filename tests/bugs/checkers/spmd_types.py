"""spmd_types: whether what the ranks compute with has the types that it should have.

It types forwards, and collectives that are called by hand. What wrappers reduce it takes on trust,
so these annotations say it, for jobs of the shared loop whose parameters are replicas:

- parameters are Replicate over all ranks, and a micro-batch's samples Varying
- a backward leaves gradients Partial; one behind a forward of DDP that is to synchronize,
  Replicate
- a loss is Partial: the step's is the sum over ranks
- a gradient is Replicate where an optimizer reads it

Jobs under FSDP are passed over, since the package does not support it yet, and so are jobs whose
ranks are not replicas on one axis: they need annotations of their own. BUGS_SPMD_TYPES is the
folder that has the package, such as .../venv/lib/python3.11/site-packages.
"""

import os
import sys
import tempfile
from pathlib import Path

import launch

FOREIGN = {"experts", "parallel", "local_sgd"}  # kinds whose ranks do not share one mesh axis
ERROR = "SpmdTypeError"
UNSUPPORTED = 77  # how a rank ends that needs what the package does not support


def leave(*_, **__):
    sys.exit(UNSUPPORTED)


def annotate():
    """Annotates what the shared loop makes, and checks types while the job runs."""
    import spmd_types as spmd
    import torch
    import training
    import truth
    from spmd_types.checker import typecheck
    from torch.nn.parallel import DistributedDataParallel
    from torch.optim.optimizer import register_optimizer_step_pre_hook

    wrapped = {}  # by parameter: the DDP around it
    world = torch.distributed.distributed_c10d._get_default_group
    follow, steps, called = training.follow, training.steps, truth.called
    backward = torch.Tensor.backward

    def typed_called(words):
        with spmd.set_current_mesh([world()]), typecheck("permissive"):
            called(words)

    def typed_follow(net, prefix=""):
        for parameter in net.parameters():
            spmd.assert_type(parameter, {world(): spmd.R})
            parameter.register_post_accumulate_grad_hook(behind_backward)
        return follow(net, prefix)

    def typed_steps(*args, **options):
        for step in steps(*args, **options):
            for batch in step:
                spmd.assert_type(batch.inputs, {world(): spmd.V})
                spmd.assert_type(batch.targets, {world(): spmd.V})
            yield step

    def typed_backward(loss, *args, **options):
        set_local_type(loss, spmd.P)
        return backward(loss, *args, **options)

    def behind_backward(parameter):
        synced = wrapped.get(parameter, False)
        set_local_type(parameter.grad, spmd.R if synced else spmd.P)

    def set_local_type(tensor, kind):
        axis = spmd.normalize_axis(world())
        if axis in spmd.get_local_type(tensor):
            spmd.mutate_type(tensor, axis, src=spmd.get_axis_local_type(tensor, axis), dst=kind)
        else:
            spmd.assert_type(tensor, {axis: kind})

    def before_forward(module, *_):
        if isinstance(module, DistributedDataParallel):
            synced = module.require_backward_grad_sync and torch.is_grad_enabled()
            wrapped.update((each, synced) for each in module._module_parameters)

    def before_step(optimizer, *_):
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None and spmd.has_local_type(parameter.grad):
                    spmd.assert_type(parameter.grad, {world(): spmd.R})

    training.follow, training.steps, truth.called = typed_follow, typed_steps, typed_called
    torch.Tensor.backward = typed_backward
    torch.distributed.fsdp.fully_shard = leave
    torch.distributed.fsdp.FullyShardedDataParallel.__init__ = leave
    torch.nn.modules.module.register_module_forward_pre_hook(before_forward)
    register_optimizer_step_pre_hook(before_step)


def check(job, is_fixed):
    if job.is_elsewhere or job.right.drifts or job.kind in FOREIGN:
        return "passed over", ""
    error, text = typed(job, is_fixed)
    if error == UNSUPPORTED:
        return "passed over", ""
    if error and ERROR not in text:
        return "failed", text
    if is_fixed or job.wrong is None:
        return ("accused" if error else "quiet"), text
    if not error:
        return "silent", text
    if typed(job, True)[0]:
        return "other", text
    at_line = f'{job.script}", line {job.line},' in text
    return ("line" if at_line else "named"), text


def typed(job, is_fixed):
    """Returns whether a rank failed, and the end of its words."""
    with tempfile.TemporaryDirectory(prefix="bugs_") as folder:
        output = Path(folder) / "output"

        def rank():
            sys.path.append(os.environ.get("BUGS_SPMD_TYPES", ""))
            annotate()
            launch.run_script(job.script, *job.words(is_fixed))

        status = launch.run_ranks(job.truth(is_fixed).ranks, rank, output)
        lines = output.read_text().splitlines() if status else []
    kept = [line for line in lines if "Error" in line or "/jobs/" in line]
    return status, "\n".join((kept or lines)[-6:])
