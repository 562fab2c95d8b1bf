"""Has torch tell gradsync watch what the native library cannot see: which model ran, under which
no_sync, and from which line of the job.

It waits for torch's own modules to be imported and then stands around a few of their functions:
forwards and no_sync of wrapped models, torch.autograd.backward, optimizers, GradScaler.step. Each
call is recorded by gradsync_watch_recording.py, _models.py and _between.py;
gradsync_watch_wrapping.py stands around wrapped models.

Two rules: nothing here changes what the job computes, and nothing that goes wrong here reaches it.
Only the standard library is used, and torch only once the job has imported it.
"""

import atexit
import contextlib
import ctypes
import functools
import importlib.machinery
import os
import sys

import gradsync_watch_account as account
import gradsync_watch_allocations as allocations
import gradsync_watch_calls as calls
import gradsync_watch_exchanges as exchanges
import gradsync_watch_lines as lines
import gradsync_watch_meant as meant
import gradsync_watch_models as models
import gradsync_watch_paper as paper
import gradsync_watch_recording as recording
import gradsync_watch_replicas as replicas
import gradsync_watch_seconds as seconds
import gradsync_watch_world as world
from gradsync_watch_between import (
    begin_backward,
    end_backward,
    end_clearing,
    kept_models,
    optimizer_steps,
    reads,
    record_skipped,
)
from gradsync_watch_models import record_groups
from gradsync_watch_recording import begin_call, end_call, guarded, is_passed_by
from gradsync_watch_wrapping import (
    Depth,
    standing_for,
    watch_clipping,
    watch_compiled,
    watch_fsdp_state,
    watch_fully_shard,
    watch_init,
    watch_replicate,
    watch_replicate_over_ddp,
    watch_wrapper,
)
from gradsync_watch_writer import Writer, look_for_torch


def watch_calls(owner, name, kind, begin=begin_call, end=end_call, seen=lambda: 0, words=None):
    """Records calls of a function of a module or a class, and those within one that has seen
    something before it, which `seen()` counts. `words` of what it is called of is its detail.
    """
    original = getattr(owner, name)
    inside = Depth()

    @standing_for(original)
    def watched(*args, **kwargs):
        if is_passed_by() or (inside.value > 0 and inside.seen == seen()):
            return original(*args, **kwargs)
        if inside.value == 0:
            inside.seen = seen()
        begun = begin()
        if words and begun and args and (detail := words(args[0])):
            begun["detail"] = detail
        inside.value += 1
        try:
            return original(*args, **kwargs)
        finally:
            inside.value -= 1
            end(kind, begun)

    setattr(owner, name, watched)


def watch_autograd(module):
    forwards = recording.forwards
    watch_calls(
        module, "backward", "backward", begin_backward, end_backward, lambda: forwards.count
    )
    account_backwards(module)


def account_backwards(module):
    original = module.backward

    @standing_for(original)
    def backward(*args, **kwargs):
        if account.account is None or is_passed_by():
            return original(*args, **kwargs)
        handles = account.before_backward(args[0] if args else kwargs["tensors"])
        try:
            return original(*args, **kwargs)
        finally:
            account.after_backward(handles)

    module.backward = backward


def watch_clearing(cls):
    def end(kind, begun):
        end_clearing(kind, begun)
        account.see_clearing(begun)

    watch_calls(cls, "zero_grad", "zero_grad", end=end, words=kept_models.words_of)


def watch_modules(module):
    watch_clearing(module.Module)


def watch_hooks(module):
    def watch(name):
        original = getattr(module.Tensor, name)

        @standing_for(original)
        def register(tensor, hook):
            if tensor.is_leaf and not is_passed_by():
                meant.see_hook(tensor, hook)
            return original(tensor, hook)

        setattr(module.Tensor, name, register)

    for name in meant.REGISTERS:
        watch(name)


def watch_optimizers(module):
    watch_init(module.Optimizer, replicas.made_optimizer)
    watch_clearing(module.Optimizer)
    module.register_optimizer_step_pre_hook(guarded(optimizer_steps.before))
    module.register_optimizer_step_post_hook(guarded(optimizer_steps.after))
    module.register_optimizer_step_pre_hook(lambda *_: record_groups())
    module.register_optimizer_step_pre_hook(replicas.before_step)
    module.register_optimizer_step_pre_hook(exchanges.before_step)
    module.register_optimizer_step_post_hook(replicas.after_step)
    module.register_optimizer_step_pre_hook(account.before_step)
    module.register_optimizer_step_post_hook(account.after_step)
    module.register_optimizer_step_pre_hook(allocations.before_step)
    module.register_optimizer_step_post_hook(allocations.after_step)
    module.register_optimizer_step_post_hook(lines.after_step)
    module.register_optimizer_step_post_hook(seconds.after_step)


def watch_clippings(module):
    watch_clipping(module, "clip_grad_norm_", "clip_norm")
    watch_clipping(module, "clip_grad_value_", "clip_value")
    if hasattr(module, "_clip_grads_with_norm_"):  # of torch 2.6 and later
        watch_clipping(module, "_clip_grads_with_norm_", "clip_norm")


def watch_grad_scaler(module):
    cls = module.GradScaler
    original = cls.step

    @standing_for(original)
    def step(self, *args, **kwargs):
        steps = optimizer_steps.count
        begun = begin_call()
        account.see_loss_scale(self)
        result = original(self, *args, **kwargs)
        record_skipped(begun, steps, args, kwargs)
        if optimizer_steps.count == steps:
            account.skipped_step()
        return result

    cls.step = step


def watch_gpu_memory(module):
    original = module.reset_peak_memory_stats

    @standing_for(original)
    def reset_peak_memory_stats(*args, **kwargs):
        recording.gpu_peak.before_reset()
        return original(*args, **kwargs)

    module.reset_peak_memory_stats = reset_peak_memory_stats
    allocations.watch_memory(module, standing_for)


def watch_collectives(module):
    paper.watch_exchanges(module, standing_for)
    calls.watch_collectives(module, standing_for)
    world.watch_groups(module)


def watch_gpu(module):
    if getattr(sys.modules.get("torch.version"), "hip", None):
        recording.writer.fault(
            "this torch is built for ROCm, on which gradsync watch was not tried: collectives that "
            "a HIP graph replays (libamdhip64.so) are not seen"
        )
    calls.watch_gpu(module, standing_for)
    allocations.watch_gpu(module)


def say_not_seen(library):
    recording.writer.fault(
        f"the job uses {library}: what its kernels exchange between GPUs is not seen"
    )


def watch_symmetric_memory(module):
    """Torch imports it by itself: only a job that asks for such memory uses it."""
    say_once = functools.cache(
        guarded(lambda: say_not_seen("symmetric memory (torch.distributed._symmetric_memory)"))
    )

    def watch(name):
        original = getattr(module, name)

        @standing_for(original)
        def watched(*args, **kwargs):
            say_once()
            return original(*args, **kwargs)

        setattr(module, name, watched)

    # Those that this torch has.
    for name in ("empty", "enable_symm_mem_for_group", "get_symm_mem_workspace", "rendezvous"):
        if hasattr(module, name):
            watch(name)


def watch_nvshmem(_module):
    say_not_seen("NVSHMEM (nvshmem.core)")


def flush_at_end_of_workers(module):
    """Processes that multiprocessing forks end without atexit, but with its own finalizers."""

    def at_fork(flush):
        module.Finalize(None, flush, exitpriority=0)

    module.register_after_fork(flush_at_end, at_fork)


WATCHED = {
    wrapper.module: functools.partial(watch_wrapper, wrapper)
    for wrapper in models.WRAPPERS.values()
    if wrapper.is_unsynced
} | {
    "multiprocessing.util": flush_at_end_of_workers,
    "nvshmem.core": watch_nvshmem,
    "torch._dynamo.eval_frame": watch_compiled,
    "torch._tensor": watch_hooks,
    "torch.amp.grad_scaler": watch_grad_scaler,
    "torch.autograd": watch_autograd,
    "torch.autograd.profiler": seconds.watch_profiler,
    "torch.cuda": watch_gpu,
    "torch.cuda.memory": watch_gpu_memory,
    "torch.distributed._composable.replicate": watch_replicate_over_ddp,
    "torch.distributed._composable.replicate_with_fsdp": watch_replicate,
    "torch.distributed._symmetric_memory": watch_symmetric_memory,
    "torch.distributed.distributed_c10d": watch_collectives,
    "torch.distributed.fsdp._fully_shard._fsdp_state": watch_fsdp_state,
    "torch.distributed.fsdp._fully_shard._fully_shard": watch_fully_shard,
    "torch.distributed.rendezvous": world.watch_rendezvous,
    "torch.nn.modules.module": watch_modules,
    "torch.nn.utils.clip_grad": watch_clippings,
    "torch.optim.optimizer": watch_optimizers,
}


@functools.cache
def count_tensors():
    """Has the preloaded library, where it is, count from here on what this thread's tensors hold:
    while torch is imported, before there is one.
    """
    look_for_torch()
    with contextlib.suppress(AttributeError, KeyError, OSError):
        library = os.environ["GRADSYNC_WATCH_LIBRARY"]
        ctypes.CDLL(library, mode=os.RTLD_NOLOAD).gradsync_count_tensors()


def watch_module(module):
    name = module.__name__
    try:
        recording.torch = sys.modules.get("torch")
        WATCHED[name](module)
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
        with contextlib.suppress(Exception):
            recording.writer.fault(f"the Python hook cannot watch {name}: {reason}")


class Finder:
    """Finds the modules of WATCHED as Python would, and has each watched once it has run."""

    is_from_the_start = False  # of the process: no tensor was made before

    @staticmethod
    def find_spec(name, path=None, target=None):
        if name not in WATCHED:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is None or spec.loader is None:
            return None
        execute = spec.loader.exec_module

        def exec_module(module):
            execute(module)
            if Finder.is_from_the_start and name.startswith("torch."):
                count_tensors()
            watch_module(module)

        spec.loader.exec_module = exec_module
        return spec


@guarded
def flush_at_end():
    recording.writer.write_peers()
    reads.tell()
    replicas.at_end()
    allocations.at_end()
    seconds.at_end()
    if recording.writer.file is not None:
        recording.gpu_peak.write()
    recording.writer.flush()


def forget_parent():
    recording.forget_parent()
    replicas.forget()
    seconds.forget()
    meant.forget()
    if account.account is not None:
        account.account.forget()


def start():
    """Begins to watch this process; nothing happens where gradsync watch did not ask for it."""
    folder = os.environ.get("GRADSYNC_WATCH_DIR")
    if folder and recording.writer is None:
        world.begin()
        Finder.is_from_the_start = True
        seconds.start(folder, os.environ.get("GRADSYNC_WATCH_SECONDS", ""))
        install(folder, os.environ.get("GRADSYNC_WATCH_ACCOUNT", ""))


def install(folder, wish):
    recording.writer = Writer(folder)
    account.start(folder, wish)
    os.register_at_fork(after_in_child=forget_parent)
    atexit.register(flush_at_end)
    sys.meta_path.insert(0, Finder)


def begin(folder, wish=""):
    """Begins to watch a process that runs already, or watches it once more; see end(). `wish`: for
    an account, as GRADSYNC_WATCH_ACCOUNT.
    """
    if recording.writer is None:
        install(folder, wish)
        for name in WATCHED.keys() & sys.modules.keys():
            watch_module(sys.modules[name])
    else:
        recording.writer = Writer(folder)
        account.start(folder, wish)
        replicas.begin_again()
    models.record_earlier_wraps()


def end():
    """Records nothing from here on. Returns (store, rank, number of ranks) of the process group
    that there was; without one the store is None.
    """
    flush_at_end()
    writer = recording.writer
    writer.is_on = False
    return writer.store, writer.rank, writer.world_size
