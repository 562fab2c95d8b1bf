"""What an account is told of a step beside its sketches: by autograd's graph, how many tokens each
micro-batch has; by torch's functions, what may change a gradient on its way.
"""

import contextlib

from gradsync_watch_sketch import unseen_by_the_job

LEAF = "torch::autograd::AccumulateGrad"
# Losses of torch's own that keep which of their targets count; those of a compiled model do not.
LOSSES = ("NllLossBackward0", "NllLoss2DBackward0")


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


class Told:
    """Of one round. `comm_hook` stays: it was registered once."""

    def __init__(self, comm_hook=""):
        self.comm_hook = comm_hook
        self.loss_scale, self.clippings = 1.0, 0
        self.is_used = False  # gradients or parameters, between micro-batches
        self.tokens = {}  # by micro-batch: numbers, still on their device

    def see_tokens(self, node, micro_batch):
        if node.name() not in LOSSES:
            return
        # What a backward has freed stays unknown.
        with unseen_by_the_job(), contextlib.suppress(RuntimeError):
            counted = (node._saved_target != node._saved_ignore_index).sum()
            self.tokens[micro_batch] = self.tokens.get(micro_batch, 0) + counted

    def fields(self, micro_batches):
        return {
            "loss_scale": self.loss_scale,
            "clippings": self.clippings,
            "is_used": self.is_used,
            "comm_hook": self.comm_hook,
            # 0: not known
            "tokens": [int(self.tokens.get(m, 0)) for m in range(micro_batches)],
        }
