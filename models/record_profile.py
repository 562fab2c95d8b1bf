#!/usr/bin/env python3
"""Records a PyTorch model as a profile, which `gradsync` replays as a paced model.

MODULE:FUNCTION is yours. It takes nothing and returns three things:

    def build():
        return model, batch, loss_of

    model              a torch.nn.Module; it is moved to the device and set to training
    batch              one micro-batch: a tensor, or dictionaries, lists and tuples of tensors;
                       it is moved to the device
    loss_of(model, batch)   runs forward and returns the loss, a scalar tensor

MODULE is a name that can be imported from the working directory, or a file ending in .py.

    models/record_profile.py models/examples/bert_mini.py:build --out bert_mini.json
    gradsync run bert_mini --model bert_mini.json
    gradsync predict memory bert_mini.json --wrapper fsdp --units BertLayer

With --fake nothing is computed and nothing is timed: FUNCTION makes its model and batch of fake
tensors, whatever their size, and the profile has what forward and backward would hold. With
--untimed the model runs, and only its memory is recorded: --device cuda then says what a GPU's
kernels hold.

Exit status: 0; 2 usage, or what FUNCTION gave cannot be recorded; 4 no torch, no such device, or
times that contradict themselves.
"""

import argparse
import contextlib
import importlib
import importlib.util
import os
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent / "profiles"))

try:
    import torch
except (ImportError, OSError) as torch_error:
    print(f"record_profile.py: torch cannot be imported: {torch_error}", file=sys.stderr)
    sys.exit(4)

from allocations import AllocatorTrace, CudaTrace, FakeTrace
from memory_recorder import MemoryRecorder
from recorded_layers import (
    DIGITS,
    flatten_names,
    nests,
    profile_layers,
    sum_of_times,
)
from recorded_memory import first_unknown, memory_of, tensors_in
from recorder import CudaClock, HostClock, Recorder, RecordError, UnsteadyError, refuse_wrong_loss
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._pytree import tree_map
from twin_files import render


def load_function(place):
    """Returns the user's function. Errors: RecordError."""
    module_name, _, function_name = place.rpartition(":")
    if not module_name or not function_name:
        raise RecordError(f"got '{place}', expected MODULE:FUNCTION")
    try:
        module = import_module(module_name)
    except Exception as error:
        raise RecordError(
            f"module '{module_name}' cannot be imported: {type(error).__name__}: {error}"
        ) from error
    function = getattr(module, function_name, None)
    if not callable(function):
        raise RecordError(f"module '{module_name}' has no function '{function_name}'")
    return function


def import_module(name):
    if not name.endswith(".py"):
        sys.path.insert(0, os.getcwd())
        return importlib.import_module(name)
    path = Path(name).resolve()
    sys.path.insert(0, str(path.parent))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def build(place):
    """Returns (model, batch, loss_of) of the user's function. Errors: RecordError."""
    function = load_function(place)
    try:
        built = function()
    except Exception as error:
        raise RecordError(f"{place} failed: {type(error).__name__}: {error}") from error
    expected = "expected (model, batch, loss_of)"
    if not isinstance(built, tuple) or len(built) != 3:
        raise RecordError(f"{place} returned {type(built).__name__}, {expected}")
    model, batch, loss_of = built
    if not isinstance(model, torch.nn.Module):
        raise RecordError(f"{place}: model is a {type(model).__name__}, expected a torch.nn.Module")
    if not callable(loss_of):
        raise RecordError(f"{place}: loss_of is a {type(loss_of).__name__}, expected a function")
    return model, batch, loss_of


def moved(value, device):
    """Returns the batch with every tensor in it on the device."""
    if hasattr(value, "to"):
        return value.to(device)
    if isinstance(value, dict):
        return {key: moved(item, device) for key, item in value.items()}
    if isinstance(value, list | tuple):
        items = [moved(item, device) for item in value]
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    return value


def record(options):
    """Returns (model, Recording, the profile's memory or None). Errors: RecordError,
    UnsteadyError.
    """
    torch.set_num_threads(options.threads)
    torch.manual_seed(options.seed)
    model, batch, loss_of = build(options.place)
    device = torch.device(options.device)
    model.to(device).train()
    batch = moved(batch, device)
    clock = CudaClock() if device.type == "cuda" else HostClock()
    recorder = Recorder(model, batch, loss_of, clock, options.accumulation_steps)
    with running(options.place):
        recording = recorder.record(options.steps, options.warmup)
        if device.type != "cpu":
            return model, recording, None
        return model, recording, record_memory(model, batch, loss_of, options)


def record_fake(options):
    """Returns (model, the profile's memory) of tensors that hold nothing. Errors: RecordError."""
    torch.set_num_threads(options.threads)
    with FakeTensorMode(allow_non_fake_inputs=True):
        model, batch, loss_of = build(options.place)
        model.train()
        with running(options.place):
            refuse_wrong_loss(loss_of(model, batch))
            return model, record_memory(model, batch, loss_of, options)


def record_untimed(options):
    """Returns (model, the profile's memory). Errors: RecordError."""
    torch.set_num_threads(options.threads)
    torch.manual_seed(options.seed)
    model, batch, loss_of = build(options.place)
    model.to(options.device).train()
    batch = moved(batch, torch.device(options.device))
    with running(options.place):
        loss = loss_of(model, batch)
        refuse_wrong_loss(loss)
        loss.backward()  # libraries take their workspaces
        del loss
        model.zero_grad()
        return model, record_memory(model, batch, loss_of, options)


def record_memory(model, batch, loss_of, options):
    def make_trace():
        if not options.fake:
            return CudaTrace() if options.device == "cuda" else AllocatorTrace()
        return FakeTrace([*model.parameters(), *model.buffers(), *tensors_in(batch)])

    dtype = getattr(torch, options.dtype)
    for parameter in model.parameters():
        parameter.data = with_dtype(parameter.data, dtype)

    def loss_of_cast(model, batch):
        return loss_of(model, tree_map(lambda value: with_dtype(value, dtype), batch))

    recording = MemoryRecorder(model, batch, loss_of_cast, make_trace).record()
    if unit := first_unknown(options.units, recording):
        raise RecordError(
            f"--units: got '{unit}', expected the name or the class of a module with parameters"
        )
    where = "fake" if options.fake else options.device
    return memory_of(recording, model, batch, options.units, where)


def with_dtype(value, dtype):
    """As MixedPrecisionPolicy casts parameters and inputs; buffers stay what they are."""
    is_real = isinstance(value, torch.Tensor) and value.is_floating_point()
    return value.to(dtype) if is_real else value


@contextlib.contextmanager
def running(place):
    """What the user's model raises becomes a RecordError."""
    try:
        yield
    except (RecordError, UnsteadyError):
        raise
    except Exception as error:
        raise RecordError(
            f"{place}: forward or backward failed: {type(error).__name__}: {error}"
        ) from error


def profile_of(recording, memory, name, model_name, options):
    """Returns the profile, of which every layer is checked to add up to the micro-batch."""
    layers = profile_layers(
        recording.arrivals, recording.entered_s, recording.forward_s, recording.backward_s
    )
    refuse_other_sum(layers, recording.micro_batch_s)
    tensors = [tensor for layer in layers for tensor in layer["parameters"]]
    if not nests([tensor["name"] for tensor in tensors]):
        flatten_names([*tensors, *recording.buffers])
    where = f"{options.threads} thread(s)"
    if options.device == "cuda":
        where = torch.cuda.get_device_name()
    return {
        "schema": "gradsync.profile/1",
        "name": name,
        "about": f"{model_name}, {len(tensors)} tensors: recorded on {options.device}, {where}",
        "source": f"written by models/record_profile.py {options.place}: torch "
        f"{torch.__version__}, medians over {options.steps} steps of "
        f"{options.accumulation_steps} micro-batches",
        "layers": layers,
        "optimizer_s": round(recording.optimizer_s, DIGITS),
        "dtype": "float32",
        "buffers": recording.buffers,
        **({"memory": memory} if memory else {}),
    }


def untimed_profile_of(memory, name, model_name, options):
    """Returns the profile of memory alone: it has no layers."""
    where = "fake tensors" if options.fake else options.device
    how = "--fake" if options.fake else "--untimed"
    trained = sum(parameter["trains"] for parameter in memory["parameters"])
    return {
        "schema": "gradsync.profile/1",
        "name": name,
        "about": f"{model_name}, {trained} tensors: recorded on {where}, without times",
        "source": f"written by models/record_profile.py {options.place} {how}: torch "
        f"{torch.__version__}",
        "dtype": "float32",
        "memory": memory,
    }


def refuse_other_sum(layers, micro_batch_s):
    """Errors: UnsteadyError where layers do not add up to the micro-batch within rounding."""
    total_s = sum_of_times(layers)
    if abs(total_s - micro_batch_s) > 2 * len(layers) * 10**-DIGITS:
        raise UnsteadyError(
            f"forward and backward of the layers add up to {total_s:.9f} s, expected the "
            f"micro-batch's {micro_batch_s:.9f} s"
        )


def write(path, text):
    """Writes the file whole or not at all. Errors: RecordError."""
    try:
        with tempfile.NamedTemporaryFile("w", dir=path.parent, delete=False) as file:
            file.write(text)
        os.chmod(file.name, 0o644)
        os.replace(file.name, path)
    except OSError as error:
        raise RecordError(f"{path}: cannot be written: {error.strerror}") from error


def at_least(least):
    def count(text):
        if not text.isdecimal() or int(text) < least:
            raise argparse.ArgumentTypeError(f"got '{text}', expected an integer from {least}")
        return int(text)

    return count


def parse(arguments):
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("place", metavar="MODULE:FUNCTION")
    add("--device", choices=["cpu", "cuda"], default="cpu")
    add("--steps", type=at_least(1), default=10, help="timed steps, with and without hooks each")
    add("--warmup", type=at_least(0), default=3, help="steps before (default: %(default)s)")
    add(
        "--accumulation-steps",
        type=at_least(1),
        default=4,
        help="micro-batches per step (default: %(default)s)",
    )
    add("--threads", type=at_least(1), default=1, help="as a rank has (default: %(default)s)")
    add("--seed", type=int, default=42, help="of torch, set before FUNCTION is called")
    add(
        "--units",
        type=lambda text: text.split(","),
        default=[],
        metavar="MODULE,...",
        help="modules that fully_shard is given, by name or by class (default: the model alone)",
    )
    add(
        "--dtype",
        choices=["float32", "bfloat16"],
        default="float32",
        help="of parameters and inputs while memory is recorded; times are those of float32",
    )
    add("--fake", action="store_true", help="record memory alone, on tensors that hold nothing")
    add("--untimed", action="store_true", help="record memory alone, of the device that there is")
    add("--name", help="the profile's (default: that of --out's file, else FUNCTION)")
    add("--out", type=Path, metavar="FILE", help="ends in .json (default: standard output)")
    options = parser.parse_args(arguments)
    if options.out and options.out.suffix != ".json":
        parser.error(f"argument --out: got '{options.out}', expected a name that ends in .json")
    if options.fake and options.device != "cpu":
        parser.error(f"argument --fake: got --device {options.device}, expected cpu")
    return options


def main(arguments=None):
    options = parse(arguments)
    if options.device == "cuda" and not torch.cuda.is_available():
        print("record_profile.py: --device cuda: there is no such device here", file=sys.stderr)
        return 4
    name = options.name or (options.out.stem if options.out else options.place.split(":")[-1])
    recording = None
    try:
        if options.fake:
            model, memory = record_fake(options)
            profile = untimed_profile_of(memory, name, type(model).__name__, options)
        elif options.untimed:
            model, memory = record_untimed(options)
            profile = untimed_profile_of(memory, name, type(model).__name__, options)
        else:
            model, recording, memory = record(options)
            profile = profile_of(recording, memory, name, type(model).__name__, options)
        text = render(profile) + "\n"
        if options.out:
            write(options.out, text)
    except RecordError as error:
        print(f"record_profile.py: {error}", file=sys.stderr)
        return 2
    except UnsteadyError as error:
        print(f"record_profile.py: {error}", file=sys.stderr)
        return 4
    if not options.out:
        sys.stdout.write(text)
    if recording:
        tell(recording)
    return 0


def tell(recording):
    print(
        f"micro-batch {recording.micro_batch_s:.4g} s: forward {recording.forward_s:.4g} s, "
        f"backward {recording.backward_s:.4g} s; optimizer {recording.optimizer_s:.4g} s; "
        f"{len(recording.arrivals)} gradients; {len(recording.frozen)} frozen parameters left out; "
        f"{recording.hooks_ratio:.3f} times as long with hooks, which is taken out",
        file=sys.stderr,
    )


if __name__ == "__main__":
    sys.exit(main())
