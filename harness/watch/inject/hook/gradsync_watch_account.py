"""The recording half of `gradsync watch --account`: sketches of what each micro-batch adds to the
gradient of each parameter, and of the gradient that the optimizer then reads.

What a backward will accumulate into is found in autograd's graph: its AccumulateGrad nodes,
whatever wraps the model. Each gets a hook for the length of that backward, which sees the gradient
before the wrapper's own. Which of these tensors a parameter of an optimizer stands for is asked of
FSDP, where a shard stands for a whole; else it is the parameter itself.

gradsync_watch_sketch.py has the map, gradsync_watch_standing.py what FSDP is asked,
gradsync_watch_told.py what else is known of a step, gradsync_watch_account_file.py the file.
Nothing here changes what the job computes, and what goes wrong ends the account with a line that
says so.
"""

import functools
import itertools
import threading
import weakref
import zlib

import gradsync_watch_recording as recording
from gradsync_watch_account_file import AccountFile, listed
from gradsync_watch_between import closure_of, reads
from gradsync_watch_sketch import BUCKETS, Sketches, sketch_of, torch, unseen_by_the_job
from gradsync_watch_standing import Standing, Whole
from gradsync_watch_told import (
    Told,
    factor_between,
    finite_or_0,
    is_leaf,
    name_of_comm_hook,
    nodes_below,
    place_of_backward,
)

# The account covers the first two steps of every `every` steps. With two, it sees both of two
# models that take turns, and recognises a gradient that comes a step late.
STEPS_AT_ONCE = 2
LOOKED_AT = 2  # parameters, around a clipping and where the job may have set them to zero
MOST_ROUNDS = 64  # for which a contribution waits for its parameter's optimizer


guarded = recording.guard(
    lambda: account is not None and account.is_on and recording.writer.is_on,
    lambda _, error: account.stop(recording.words_of(error)),
)


class Account:
    """The account of this process. A round lies between two steps of optimizers."""

    def __init__(self, folder, every, share):
        self.every, self.share = every, share
        self.is_on = True
        self.lock = threading.RLock()  # autograd may run hooks on a thread of its own
        self.file = AccountFile(folder, every, share)
        self.round, self.backwards, self.micro_batch = 0, 0, -1
        self.has_stepped = False  # since the last backward: the next one begins another round
        self.depth, self.forwards = 0, 0
        self.pending = {}  # id of a leaf to (the leaf, weakly; its Sketches)
        self.incomplete = set()  # rounds with a backward that was not recorded
        self.optimizers = weakref.WeakKeyDictionary()  # to (number, round of its last step)
        self.next_optimizer = 0
        self.sampled = {}  # id of a leaf of a parameter: whether it is in the sample
        self.standing = Standing()
        self.uses, self.versions = 0, None
        self.told = Told()
        self.steps_inside = []  # of optimizers: backwards when they began
        self.clipped = []  # (what a parameter stands for, its gradient's sketch), for a while

    def is_accounted(self):
        return self.round % self.every < STEPS_AT_ONCE

    # What a backward adds.

    def before_backward(self, tensors):
        self.depth += 1
        if self.depth == 1:
            if self.has_stepped:
                self.begin_round()
            self.begin_micro_batch()
        if not self.is_accounted():
            self.incomplete.add(self.round)
            return []
        self.told.places.setdefault(self.micro_batch, place_of_backward())
        handles, place = [], (self.round, self.micro_batch)
        for node in nodes_below(tensors):
            if is_leaf(node):
                leaf = node.variable
                if self.sampled.get(id(leaf), True):
                    handles.append(leaf.register_hook(self.hook_of(leaf, place)))
            else:
                self.told.see_tokens(node, self.micro_batch)
                handles += self.told.see_mean(node, self.micro_batch)
        return handles

    def begin_micro_batch(self):
        self.backwards += 1
        has_forward = recording.forwards.count > self.forwards
        if has_forward or self.forwards == 0 or self.micro_batch < 0:
            self.micro_batch += 1
        self.forwards = recording.forwards.count
        uses, versions = recording.uses.count, self.versions_now()
        if self.micro_batch > 0 and (uses, versions) != (self.uses, self.versions):
            is_set_to_zero = versions == self.versions and self.are_zero()
            if is_set_to_zero:
                site = reads.read[1] if reads.read else {}
                self.told.see_call("set_to_zero", self.micro_batch, site)
            self.told.is_used |= not is_set_to_zero
        self.uses, self.versions = uses, versions

    def after_backward(self, handles):
        self.depth -= 1
        for handle in handles:
            handle.remove()

    def are_zero(self):
        """Whether gradients that are there have nothing in them: of some, on this rank."""
        pieces = [piece for _, found in self.some_gradients() for piece, _ in found]
        with unseen_by_the_job():
            return bool(pieces) and not any(p.is_meta or p.any().item() for p in pieces)

    def some_gradients(self):
        """Returns what the largest parameters stand for, each with its gradient."""
        found = {id(each): each for _, each in self.standing.found.values()}.values()
        largest = sorted(
            (each for each in found if each.leaf() is not None), key=lambda each: -each.elements
        )
        with_pieces = ((each, each.gradients()) for each in largest)
        return list(itertools.islice((pair for pair in with_pieces if pair[1]), LOOKED_AT))

    def sketch_some(self):
        with unseen_by_the_job():
            return [
                (standing, sum(sketch_of(piece, offset) for piece, offset in pieces))
                for standing, pieces in self.some_gradients()
            ]

    def begin_clipping(self):
        self.clipped = self.sketch_some() if self.is_accounted() else []

    def end_clipping(self, max_norm):
        """Keeps what was clipped until the optimizer reads it."""
        now = dict(self.sketch_some())
        if self.clipped and all(standing in now for standing, _ in self.clipped):
            self.told.max_norm = max_norm
            after = [now[standing] for standing, _ in self.clipped]
            self.told.clipped_by = factor_between([each for _, each in self.clipped], after)
            self.clipped = list(now.items())

    def see_scaled_after(self):
        now = dict(self.sketch_some())
        kept = [(each, now[standing]) for standing, each in self.clipped if standing in now]
        if kept and self.told.clipped_by:
            self.told.scaled_after = factor_between(*zip(*kept, strict=True))
        self.clipped = []

    def versions_now(self):
        """How often known parameters were changed in place: other than by a step, they are used."""
        found = self.standing.found.values()
        kept = [parameter() for parameter, standing in found if isinstance(standing, Whole)]
        return sum(parameter._version for parameter in kept if parameter is not None)

    def hook_of(self, leaf, place):
        key, reference = id(leaf), weakref.ref(leaf)

        @guarded
        def see(gradient):
            with self.lock, unseen_by_the_job():
                local = gradient.to_local() if hasattr(gradient, "to_local") else gradient
                if local.is_sparse:
                    local = local.to_dense()
                sketch = sketch_of(local)
                known = self.pending.get(key)
                if known is None or known[0]() is not reference():
                    known = self.pending[key] = (reference, Sketches())
                known[1].add(place, sketch)

        return see

    def see_call(self, what, site):
        if self.is_accounted() and not self.has_stepped and self.micro_batch >= 0:
            self.told.see_call(what, self.micro_batch + 1, site)

    # What the optimizer reads.

    def before_step(self, optimizer, args, kwargs):
        self.steps_inside.append(self.backwards)
        if closure_of(args, kwargs) is None:
            self.read(optimizer)

    def after_step(self, optimizer, args, kwargs):
        begun = self.steps_inside.pop()
        closure, inside = closure_of(args, kwargs), self.backwards - begun
        if closure is not None or inside > 0:
            # Its closure ran once, then it read what stands there still; or it ran more often.
            self.read(optimizer, is_told=getattr(closure, "runs", inside) <= 1)
        self.has_stepped = True

    def begin_round(self):
        self.round += 1
        self.micro_batch, self.forwards = -1, 0
        self.has_stepped = False
        self.told = Told(self.told.comm_hook)
        self.incomplete = {each for each in self.incomplete if each > self.round - MOST_ROUNDS}
        for key, (leaf, sketches) in list(self.pending.items()):
            sketches.forget_until(self.round - MOST_ROUNDS)
            if leaf() is None or not len(sketches):
                del self.pending[key]

    def skip(self):
        """A gradient scaler found gradients that are not finite: nothing is read."""
        self.pending.clear()
        self.has_stepped = True

    def number_of(self, optimizer):
        if optimizer not in self.optimizers:
            self.optimizers[optimizer] = [self.next_optimizer, self.round - 1]
            self.next_optimizer += 1
        return self.optimizers[optimizer]

    def read(self, optimizer, is_told=True):
        number, last = self.number_of(optimizer)
        self.optimizers[optimizer][1] = self.round
        window = set(range(last + 1, self.round + 1))
        is_whole = is_told and self.is_accounted() and not (window & self.incomplete)
        parameters = [p for group in optimizer.param_groups for p in group["params"]]
        records, done = [], set()
        for index, standing in enumerate(self.standing.of_all(parameters)):
            leaf = standing.leaf()
            if id(standing) in done or leaf is None:
                continue
            done.add(id(standing))
            self.sampled[id(leaf)] = is_sampled = self.is_sampled(number, index)
            _, sketches = self.pending.pop(id(leaf), (None, Sketches()))
            if is_whole and is_sampled and self.micro_batch >= 0:
                records.append((index, standing, sketches))
        if records:
            self.see_scaled_after()
            self.write_step(number, records)

    def is_sampled(self, optimizer, index):
        part = zlib.crc32(f"{optimizer}.{index}".encode()) % 10000
        return index == 0 or part < self.share * 10000

    def write_step(self, number, records):
        with unseen_by_the_job():
            for index, standing, sketches in records:
                self.write_parameter(number, index, standing, sketches)
        self.file.write(
            "step",
            step=self.round,
            optimizer=number,
            micro_batches=self.micro_batch + 1,
            **self.told.fields(self.micro_batch + 1),
        )
        self.is_on = not self.file.is_full

    def write_parameter(self, number, index, standing, sketches):
        gradients = standing.gradients()
        if not len(sketches) and gradients is None:
            return
        values = standing.values()
        dtype = str(gradients[0][0].dtype if gradients else values[0][0].dtype)
        total = functools.partial(sum, start=torch().zeros(BUCKETS, dtype=torch().float64))
        value = total(sketch_of(piece, offset).cpu() for piece, offset in values)
        gradient = total(sketch_of(piece, offset).cpu() for piece, offset in gradients or ())
        self.file.write(
            "parameter",
            step=self.round,
            optimizer=number,
            index=index,
            name=self.standing.name_of(standing, f"{number}.{index}"),
            dtype=dtype.removeprefix("torch."),
            elements=standing.elements,
            offset=min((offset for piece, offset in values if piece.numel()), default=0),
            length=sum(piece.numel() for piece, _ in values),
            gradient=listed(gradient),
            value=listed(value),
            contributions=list(self.contributions(sketches)),
        )

    def contributions(self, sketches):
        """Older ones are numbered over all their rounds."""
        for number, ((round_, micro_batch), sketch) in enumerate(sketches.in_order()):
            is_older = round_ != self.round
            place = number if is_older else micro_batch
            yield {"micro_batch": place, "is_older": is_older, "sketch": listed(sketch)}

    def stop(self, reason):
        if self.is_on:
            self.file.write("fault", sentence=f"the account stopped: {reason}")
            self.is_on = False

    def forget(self):
        """In the child of a fork."""
        self.lock = threading.RLock()
        self.file = self.file.anew()
        self.pending.clear()


account = None


def start(folder, wish):
    """Begins the account that `wish` asks for: "EVERY SHARE"; nothing where it is empty."""
    global account
    account = None
    if wish:
        every, share = wish.split()
        account = Account(folder, int(every), float(share))


# ---- what the hook has called ----------------------------------------------------------------


@guarded
def before_backward(tensors):
    tensors = [tensors] if isinstance(tensors, torch().Tensor) else list(tensors)
    with account.lock:
        return account.before_backward(tensors)


@guarded
def after_backward(handles):
    with account.lock:
        account.after_backward(handles or [])


@guarded
def before_step(optimizer, args, kwargs):
    account.before_step(optimizer, args, kwargs)


@guarded
def after_step(optimizer, args, kwargs):
    account.after_step(optimizer, args, kwargs)


@guarded
def skipped_step():
    account.skip()


@guarded
def see_loss_scale(scaler):
    account.told.loss_scale = float(scaler.get_scale())


@guarded
def see_clipping(what):
    account.told.clippings += 1
    account.see_call(what, recording.call_sites())
    account.begin_clipping()


@guarded
def see_clipped(what, args, kwargs):
    """`args` of a function have the parameters first, those of a method its model."""
    max_norm = args[1] if len(args) > 1 else kwargs.get("max_norm", 0)
    is_norm = what != "clip_value" and isinstance(max_norm, int | float)
    account.end_clipping(finite_or_0(max_norm) if is_norm else 0.0)


@guarded
def see_clearing(begun):
    account.see_call("zero_grad", begun or {})


@guarded
def see_comm_hook(state, hook):
    account.told.comm_hook = name_of_comm_hook(state, hook)
