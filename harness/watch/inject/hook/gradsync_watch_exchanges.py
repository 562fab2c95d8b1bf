"""What the job exchanges by hand: which of its collectives move gradients or parameters that an
optimizer steps, themselves or copies of them.

Tensors are looked at in the first steps alone, and told apart by where they lie; a copy by its
first few numbers, which are those of a gradient times one factor. Later the gradients of outer
optimizers, as DiLoCo's, are looked for, whose first steps come then. What each line moved is hashed
before it is moved: where all ranks moved the same, they exchanged nothing.
"""

import functools
import zlib

import gradsync_watch_recording as recording
import gradsync_watch_replicas as watched
from gradsync_watch_between import reads, torch_folder
from gradsync_watch_hash import hash_of, is_hashable

STEPS = 3  # of any optimizer, in which tensors are looked at
MOST_LATER = 500  # tensors that are looked at behind them: each among all of an outer optimizer
NUMBERS = 4  # by which a copy is known
TOLERANCE = 1e-3
INPUTS = {"all_gather": ("tensor", 1), "all_gather_into_tensor": ("input_tensor", 1)}
MOVERS = ("all_reduce", "reduce", "broadcast", *INPUTS)


def input_of(name, args, kwargs):
    word, place = INPUTS.get(name, ("tensor", 0))
    return args[place] if len(args) > place else kwargs.get(word)


def group_of(args, kwargs):
    """The name of the group that is asked for; "" where none is."""
    kind = recording.torch.distributed.ProcessGroup
    groups = [thing for thing in (*args, kwargs.get("group")) if isinstance(thing, kind)]
    return groups[0].group_name if groups else ""


@functools.cache
def is_the_jobs(file):
    """Not a call of a wrapper's: of the job's, or of a part of torch's that averages for it."""
    parts = ("distributed/algorithms/model_averaging", "distributed/optim")
    return not file.startswith(torch_folder()) or any(part in file for part in parts)


class Gradients:
    """Those of the parameters that are trained, before the first collective of a step."""

    def __init__(self, parameters):
        self.places = {}  # by address: what lies there
        self.gradients = []  # (parameter, its gradient)
        self.parameters = parameters
        for parameter in self.parameters:
            self.add(parameter, recording.local(parameter), "parameter")
            if parameter.grad is not None:
                gradient = recording.local(parameter.grad)
                self.add(parameter, gradient, "gradient")
                self.gradients.append((parameter, gradient))

    def add(self, parameter, tensor, what):
        self.places[tensor.data_ptr(), tensor.numel()] = what, [parameter]

    def are_of_now(self):
        """Whether no backward has made others since: what is sent within one comes too soon."""
        now = [recording.local(p.grad) for p in self.parameters if p.grad is not None]
        return len(now) == len(self.gradients) and all(
            mine is gradient for mine, (_, gradient) in zip(now, self.gradients, strict=True)
        )

    @functools.cached_property
    def heads(self):
        """(parameter, size, first numbers) of each gradient."""
        return [(p, gradient.numel(), numbers_of(gradient, 0)) for p, gradient in self.gradients]

    def found_in(self, tensor):
        """Returns (what, the parameters): of one itself, or of a copy of one or more of them."""
        known = self.places.get((tensor.data_ptr(), tensor.numel()))
        if known is not None:
            return known
        for order in (self.heads, self.heads[::-1]):
            for first in range(len(order)):
                parameters = self.copied(tensor, order[first:])
                if parameters:
                    return "copy", parameters
        return None, []

    @staticmethod
    def copied(tensor, heads):
        """The parameters whose gradients follow each other in the tensor, which they fill."""
        parameters, place, factor = [], 0, None
        for parameter, size, numbers in heads:
            if place + size > tensor.numel():
                break
            found = factor_between(numbers, numbers_of(tensor, place)[: len(numbers)])
            if found is None or (factor and found and abs(found / factor - 1) > TOLERANCE):
                break
            factor = factor or found
            parameters.append(parameter)
            place += size
        return parameters if place == tensor.numel() and factor else []


def numbers_of(tensor, place):
    if not tensor.is_contiguous():
        return []
    return tensor.detach().view(-1)[place : place + NUMBERS].tolist()


def factor_between(numbers, others):
    """What `others` are `numbers` times; 0 of nothing but zeros, None where they are not."""
    if len(numbers) != len(others) or not numbers:
        return None
    factor = max((b / a for a, b in zip(numbers, others, strict=True) if a), default=0, key=abs)
    are_alike = all(
        abs(a * factor - b) <= TOLERANCE * max(abs(b), abs(a * factor))
        for a, b in zip(numbers, others, strict=True)
    )
    return factor if are_alike else None


class Exchanges:
    def __init__(self):
        self.gradients = None
        self.later = 0  # so many tensors were looked at behind the first steps
        self.found = {}  # by what, operation, group and line: what was moved

    def see(self, name, args, kwargs, code):
        if not is_the_jobs(code.co_filename):
            return
        replicas, tensor = watched.replicas, input_of(name, args, kwargs)
        if not isinstance(tensor, recording.torch.Tensor) or not tensor.is_floating_point():
            return
        tensor = recording.local(tensor)
        if not replicas.may_be_of_parameters(tensor):
            return
        replicas.is_exchanged = True
        if replicas.sizes:  # of parameters that are trained
            reads.see_reduction(code)
        is_early = replicas.most_steps() < STEPS
        if (is_early or self.later < MOST_LATER) and is_hashable(tensor):
            keep = self.keep if is_early else self.keep_outer
            keep(replicas, tensor, name, group_of(args, kwargs))

    def keep(self, replicas, tensor, name, group):
        if self.gradients is None:
            self.gradients = Gradients(replicas.parameters())
        what, parameters = self.gradients.found_in(tensor)
        if what is None and not self.gradients.are_of_now():
            self.gradients = Gradients(replicas.parameters())
            what, parameters = self.gradients.found_in(tensor)
        if what is not None:
            self.add(what, parameters, tensor, name, group)

    def keep_outer(self, replicas, tensor, name, group):
        self.later += 1
        for parameter in replicas.parameters_before(STEPS):
            gradient = None if parameter.grad is None else recording.local(parameter.grad)
            if gradient is not None and gradient.data_ptr() == tensor.data_ptr():
                self.add("outer_gradient", [parameter], tensor, name, group)
                return

    def add(self, what, parameters, tensor, name, group):
        place = recording.call_site()
        key = what, name, group, place.get("file", ""), place.get("line", 0)
        moved = self.found.setdefault(key, {"parameters": [], "calls": 0, "bytes": 0, "value": 0})
        moved["parameters"] += parameters
        moved["calls"] += 1
        moved["bytes"] += tensor.numel() * tensor.element_size()
        moved["value"] = zlib.crc32(str(hash_of(tensor)).encode(), moved["value"])

    def write(self):
        """Before an optimizer steps, once the numbers of its parameters are known."""
        replicas = watched.replicas
        for (what, name, group, file, line), moved in self.found.items():
            recording.writer.write(
                "exchange",
                name=name,
                what=what,
                step=replicas.most_steps(),
                calls=moved["calls"],
                bytes=moved["bytes"],
                value=str(moved["value"]),
                group=group,
                members=replicas.members(moved["parameters"]),
                file=file,
                line=line,
            )
        self.found.clear()
        self.gradients = None


exchanges = Exchanges()


# ---- what the hook has called ----------------------------------------------------------------


@recording.guarded
def see(name, args, kwargs, code):
    if name in MOVERS:
        exchanges.see(name, args, kwargs, code)


@recording.guarded
def before_step(optimizer, args, kwargs):
    exchanges.write()
