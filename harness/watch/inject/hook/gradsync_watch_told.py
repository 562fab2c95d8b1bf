"""What an account is told of a step beside its sketches: by autograd's graph, how many tokens each
micro-batch has; by torch's functions, what may change a gradient on its way; by Python's stack,
from where the job ran each backward.
"""

import contextlib
import math
import sys

import gradsync_watch_recording as recording
from gradsync_watch_calls import is_passed_over
from gradsync_watch_sketch import unseen_by_the_job

LEAF = "torch::autograd::AccumulateGrad"
# Losses of torch's own that keep which of their targets count; those of a compiled model do not.
SAME = 1e-4  # of gradients that are multiples of each other
LOSSES = ("NllLossBackward0", "NllLoss2DBackward0")
# Those that can be means over all that went in, and say so by this number.
MEANS = (
    *LOSSES,
    "MseLossBackward0",
    "BinaryCrossEntropyBackward0",
    "BinaryCrossEntropyWithLogitsBackward0",
    "SmoothL1LossBackward0",
    "HuberLossBackward0",
)
MEAN = 1


def nodes_below(tensors):
    """Yields the nodes of autograd's graph that a backward from `tensors` reaches."""
    nodes = [tensor.grad_fn for tensor in tensors if getattr(tensor, "grad_fn", None) is not None]
    seen = set(nodes)
    while nodes:
        node = nodes.pop()
        yield node
        for following, _ in node.next_functions:
            if following is not None and following not in seen:
                seen.add(following)
                nodes.append(following)


def is_leaf(node):
    return node.name() == LEAF


def name_of_comm_hook(state, hook):
    """As people know it, with its state's type, which says more of a wrapped one."""
    name = getattr(hook, "__name__", type(hook).__name__)
    return name if state is None else f"{name} of {type(state).__name__}"


def place_of_backward():
    """The functions of the job and its libraries that led here, their lines, and the mode of the
    model that ran.
    """
    functions, lines, frame = [recording.forwards.is_of_evaluation], [], sys._getframe(1)
    while frame is not None:
        if not is_passed_over(frame.f_code.co_filename):
            functions.append(frame.f_code)
            lines.append(frame.f_lineno)
        frame = frame.f_back
    return tuple(functions), tuple(lines)


def numbered(things):
    """0 for the first one, 1 for the next that differs."""
    numbers = {}
    return [numbers.setdefault(thing, len(numbers)) for thing in things]


def factor_between(before, after):
    """Returns the factor from one list of sketches to another; 0 where there is none."""
    torch = recording.torch
    if before[0].is_meta:
        return 0.0
    before, after = torch.cat(before).cpu(), torch.cat(after).cpu()
    squared = before.dot(before)
    if not squared > 0:
        return 0.0
    factor = before.dot(after) / squared
    is_multiple = (after - factor * before).norm() <= SAME * after.norm()
    return factor.item() if is_multiple else 0.0


def finite_or_0(number):
    """Returns the number, and 0 for what JSON cannot hold: infinity, by which some clip to log."""
    return float(number) if math.isfinite(number) else 0.0


class Told:
    """What a job did in one round. `comm_hook` stays: it was registered once."""

    def __init__(self, comm_hook=""):
        self.comm_hook = comm_hook
        self.loss_scale, self.clippings = 1.0, 0
        self.max_norm, self.clipped_by, self.scaled_after = 0.0, 0.0, 0.0
        self.is_used = False  # gradients or parameters, between micro-batches
        self.tokens = {}  # by micro-batch: numbers, still on their device
        self.loss_weights = {}  # likewise: by what the job multiplies the mean that its loss is
        self.places = {}  # by micro-batch: that of its first backward
        self.calls = []  # of what clears or clips gradients

    def see_tokens(self, node, micro_batch):
        if node.name() not in LOSSES:
            return
        # What a backward has freed stays unknown, and so does what has no numbers.
        with unseen_by_the_job(), contextlib.suppress(RuntimeError):
            if node._saved_target.is_meta:
                return
            counted = (node._saved_target != node._saved_ignore_index).sum()
            self.tokens[micro_batch] = self.tokens.get(micro_batch, 0) + counted

    def see_mean(self, node, micro_batch):
        """Returns handles of the hooks that see it, if the node is a mean."""
        if node.name() not in MEANS or getattr(node, "_saved_reduction", None) != MEAN:
            return []

        @recording.guarded
        def see(gradients):
            if gradients[0] is None or gradients[0].is_meta:
                return
            with unseen_by_the_job():
                known = self.loss_weights.get(micro_batch, 0)
                self.loss_weights[micro_batch] = known + gradients[0].detach().sum()

        return [node.register_prehook(see)]

    def see_call(self, what, micro_batches, site):
        """Behind so many micro-batches of the step. Calls from one line are kept once."""
        call = {"what": what, "after": micro_batches}
        call |= {"file": site.get("file", ""), "line": site.get("line", 0)}
        call |= {name: site[name] for name in ("inside", "inside_line") if name in site}
        if call not in self.calls:
            self.calls.append(call)

    def fields(self, micro_batches):
        places = [self.places.get(m, ((), ())) for m in range(micro_batches)]
        return {
            "loss_scale": self.loss_scale,
            "clippings": self.clippings,
            "max_norm": self.max_norm,
            "clipped_by": self.clipped_by,
            "scaled_after": self.scaled_after,
            "is_used": self.is_used,
            "comm_hook": self.comm_hook,
            # 0: not known
            "tokens": [int(self.tokens.get(m, 0)) for m in range(micro_batches)],
            "loss_weights": [
                finite_or_0(self.loss_weights.get(m, 0)) for m in range(micro_batches)
            ],
            "places": numbered(places),
            "functions": numbered(functions for functions, _ in places),
            "calls": self.calls,
            "is_wrapped": recording.forwards.count > 0,
        }
