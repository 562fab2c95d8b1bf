"""From times measured on a model to the layers of a profile. No torch.

Gradients of a layer become ready together when its backward is over, in reverse order of its
parameters (README.md). So layers are cut from the measured order in which gradients became ready,
last ready first: the replay's Reducer then fills the same buckets at the same times.

    backward:  0 ---- ready: c ---- ready: b.bias, b.weight ---- ready: a ---- end
    layers:    [input: -, end - a]  [a: a - b]  [b.weight, b.bias: b - c]  [c: c - 0]
"""

from dataclasses import dataclass

# Gradients of one module that become ready within this share of backward make one layer. Larger:
# fewer layers, and gradients that come later in the replay than they did.
TOGETHER_SHARE = 0.01
# Times are written in seconds with as many digits.
DIGITS = 9


@dataclass(frozen=True)
class Arrival:
    """A parameter, and when its gradient was ready, in seconds since backward began."""

    name: str
    shape: tuple
    ready_s: float

    @property
    def owner(self):
        """The module that holds the parameter; "" for the model itself."""
        return self.name.rpartition(".")[0]


def profile_layers(arrivals, entered_s, forward_s, backward_s):
    """Returns the profile's layers.

    `arrivals` stand in order of readiness. `entered_s`: module name to seconds from the start of
    forward until it was first called; modules that were never called are absent. The first layer,
    "input", has no parameters: its times are forward before any module that has, and backward after
    the last gradient.
    """
    groups = _arrived_together(arrivals, backward_s)[::-1]
    ready_s = [backward_s, *(group[-1].ready_s for group in groups), 0.0]
    begins_s = [0.0]
    for group in groups:
        begins_s.append(max(begins_s[-1], entered_s.get(group[0].owner, 0.0)))
    begins_s.append(forward_s)
    names = ["input", *(group[0].owner or "model" for group in groups)]
    return [
        {
            "name": name,
            "forward_s": round(begins_s[i + 1] - begins_s[i], DIGITS),
            "backward_s": round(ready_s[i] - ready_s[i + 1], DIGITS),
            "parameters": [_tensor(a.name, a.shape) for a in reversed(group)],
        }
        for i, (name, group) in enumerate(zip(names, [[], *groups], strict=True))
    ]


def _arrived_together(arrivals, backward_s):
    groups = []
    for arrival in arrivals:
        last = groups[-1] if groups else None
        limit_s = TOGETHER_SHARE * backward_s
        if last and last[0].owner == arrival.owner and arrival.ready_s - last[0].ready_s <= limit_s:
            last.append(arrival)
        else:
            groups.append([arrival])
    return groups


def _tensor(name, shape):
    """A scalar is a tensor of one element here."""
    return {"name": name, "shape": list(shape) or [1]}


def buffer_entry(name, shape, item_bytes):
    """Buffers of a profile are int64: others become as many of those as hold their bytes."""
    if item_bytes == 8:
        return _tensor(name, shape)
    size = item_bytes
    for extent in shape:
        size *= extent
    return _tensor(name, (-(-size // 8),))


def nests(names):
    """Returns whether modules that register these dotted names in this order list them in it.

    A module lists its own parameters first, then those of its parts, part by part.
    """
    listed = []

    def visit(tree, path):
        listed.extend(path + leaf for leaf, below in tree.items() if below is None)
        for part, below in tree.items():
            if below is not None:
                visit(below, f"{path}{part}.")

    root = {}
    for name in names:
        *path, leaf = name.split(".")
        tree = root
        for part in path:
            tree = tree.setdefault(part, {})
        tree[leaf] = None
    visit(root, "")
    return listed == list(names)


def flatten_names(tensors):
    """Renames "a.b.weight" to "a/b/weight", which belongs to no module and stands where it is."""
    for tensor in tensors:
        tensor["name"] = tensor["name"].replace(".", "/")


def sum_of_times(layers):
    return sum(layer["forward_s"] + layer["backward_s"] for layer in layers)
