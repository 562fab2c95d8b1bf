"""The field "memory" of a profile: what recordings become, and which modules are units.

README.md says what the fields mean.
"""

from dataclasses import asdict

import torch
from torch.utils._pytree import tree_flatten


def memory_of(recording, model, batch, units, where):
    """Returns the field. `units`: names or classes of modules; `where`: "cpu", "cuda" or
    "fake".
    """
    dtypes = {p.dtype for p, _ in recording.parameters.values() if p.requires_grad}
    return {
        "recorded_on": where,
        "dtype": str(dtypes.pop()).removeprefix("torch."),
        "batch_bytes": sum(map(bytes_of, tensors_in(batch))),
        "buffers_bytes": [bytes_of(buffer) for buffer in model.buffers()],
        "parameters": [
            parameter_entry(name, parameter, others)
            for name, (parameter, others) in recording.parameters.items()
        ],
        "modules": [
            {"name": name, "class": type(module).__name__, **asdict(counted)}
            for name, (module, counted) in recording.modules.items()
        ],
        "units": list(units),
        "forward": recording.forward,
        "backward_first": recording.backward_first,
        "backward_later": recording.backward_later,
        **blocks_of(recording, batch),
    }


def blocks_of(recording, batch):
    """What is known of single blocks, beside sums."""
    if recording.changes is None:
        return {}
    return {
        "changes": recording.changes,
        "batch_tensors_bytes": [bytes_of(tensor) for tensor in tensors_in(batch)],
    }


def parameter_entry(name, parameter, others):
    entry = {"name": name, "shape": list(parameter.shape), "trains": parameter.requires_grad}
    return entry | ({"tied": others} if others else {})


def first_unknown(units, recording):
    """Returns the first of `units` that no module is called; None where there is none."""
    known = {name for name in recording.modules if name}
    known |= {type(module).__name__ for module, _ in recording.modules.values()}
    return next((unit for unit in units if unit not in known), None)


def tensors_in(values):
    return [value for value in tree_flatten(values)[0] if isinstance(value, torch.Tensor)]


def bytes_of(tensor):
    return tensor.numel() * tensor.element_size()
