"""What this rank has of each whole parameter that an optimizer steps, at a few steps: a bit hash,
to be compared between ranks when the job has ended. The job communicates nothing for it.

A look comes before an optimizer steps, when what the job does behind a step (an average of
parameters by hand) is done: before its first, second and third step, then each time as many steps
later again, and behind an exchange by hand, as long as all looks took less than SHARE of the time
or next to nothing; and at the end. Ranks look at the same steps but for that share, and what one
alone has is not compared.
"""

import collections
import itertools
import math
import time
import weakref

import gradsync_watch_meant as meant
import gradsync_watch_models as models
import gradsync_watch_owners as owners
import gradsync_watch_recording as recording
from gradsync_watch_hash import hardware_of, hash_of, is_constant, is_hashable, sample_of

FIRST_LOOKS = 3
SAMPLED = 64  # parameters, of which a few numbers are kept beside the hash
SHARE, NOTHING_S = 0.0025, 0.02


class Tracked:
    """Of one optimizer."""

    def __init__(self, number):
        self.number = number
        # Its parameters and, of the first one, buffers of wrapped models, and what changes in them
        # though it is frozen.
        self.index_of = {}  # by id
        self.frozen = set()  # indices
        self.unstepped = set()  # indices of what only other ranks step
        self.whole = []  # (index, weakly what this rank has whole)
        self.steps, self.next_look, self.exchanges = 0, 0, 0
        self.left = ()  # behind its last step: its first and last parameter, and their versions
        self.is_ended = False

    def things(self):
        """Yields what of it can be hashed, with its index."""
        for index, reference in self.whole:
            thing = reference()
            local = None if thing is None else recording.local(thing)
            if local is not None and is_hashable(local):
                yield index, local

    def keep_versions(self, optimizer):
        groups = optimizer.param_groups
        ends = (*groups[0]["params"][:1], *groups[-1]["params"][-1:])
        self.left = tuple((weakref.ref(end), end._version) for end in ends)

    def is_as_left(self):
        """Whether no other than its last step changed these, as far as in-place changes tell."""
        ends = [(reference(), version) for reference, version in self.left]
        return all(end is not None and end._version == version for end, version in ends)


def line_of(place):
    return place.get("file"), place.get("line")


def parameters_of(optimizer):
    return [p for group in optimizer.param_groups for p in group["params"]]


class Replicas:
    def __init__(self):
        self.optimizers = weakref.WeakKeyDictionary()  # to Tracked
        self.numbers = itertools.count(1)
        # By optimizer: where the job made it, and how many of that line were gone by then.
        self.places = weakref.WeakKeyDictionary()
        self.gone = collections.Counter()  # optimizers that stepped, by the line that made them
        self.began, self.spent = None, 0.0
        self.is_exchanged = False  # by hand, since the last step of any optimizer
        self.exchanged_steps, self.exchanges = 0, 0  # of these steps, those that ask for a look
        self.sizes_of = 0, 0  # so many optimizers' parameters, and so many beside, have
        self.sizes, self.half = set(), 1  # these sizes, and half of all numbers
        self.beside, self.has_sought = [], False  # weakly, what only other ranks step

    def tracked(self, optimizer):
        if optimizer not in self.optimizers:
            tracked = self.optimizers[optimizer] = Tracked(next(self.numbers))
            line = line_of(self.places.get(optimizer, {}))
            # Before it is gone, or the process ends: its parameters are there still.
            weakref.finalize(optimizer, recording.guarded(self.see_gone), tracked, line)
        return self.optimizers[optimizer]

    def see_made(self, optimizer):
        place = recording.call_site()
        self.places[optimizer] = place | {"gone_before": self.gone[line_of(place)]}
        self.tracked(optimizer)  # whose number is by the order in which they are made

    def see_gone(self, tracked, line):
        self.look_last(tracked)
        self.gone[line] += tracked.steps > 0

    def before_step(self, optimizer):
        tracked = self.tracked(optimizer)
        if self.is_exchanged:
            self.see_exchange()
        is_asked = tracked.exchanges < self.exchanges
        if (tracked.steps >= tracked.next_look or is_asked) and self.has_other_ranks():
            tracked.exchanges = self.exchanges
            if tracked.steps >= tracked.next_look:
                tracked.next_look = max(2 * tracked.steps, tracked.steps + 1)
            if tracked.steps < FIRST_LOOKS or self.is_cheap():
                start = time.thread_time()
                self.add_new(optimizer, tracked)
                self.look(tracked, start)

    def after_step(self, optimizer):
        tracked = self.tracked(optimizer)
        tracked.steps += 1
        tracked.keep_versions(optimizer)

    def see_exchange(self):
        """Looks behind the first step with one, the second, the fourth and so on."""
        self.is_exchanged = False
        self.exchanged_steps += 1
        if self.exchanged_steps & (self.exchanged_steps - 1) == 0:
            self.exchanges += 1

    @staticmethod
    def has_other_ranks():
        writer = recording.writer
        return writer.knows_rank and writer.world_size > 1

    def is_cheap(self):
        """Whether one more look, as dear as the mean so far, keeps within the share."""
        now = time.monotonic()
        share = SHARE * (now - (self.began or now))
        return self.spent * (1 + 1 / FIRST_LOOKS) < max(share, NOTHING_S)

    def look(self, tracked, start, is_last=False):
        hashing = time.thread_time()  # of other threads and processes none is spent here
        self.began = self.began or time.monotonic()
        values, samples = {}, {}
        for index, thing in tracked.things():
            if is_last and index in tracked.unstepped:
                continue  # it may come before the next forward
            values[str(index)] = str(hash_of(thing))
            is_sampled = len(samples) < SAMPLED or index in tracked.frozen
            if is_sampled and all(map(math.isfinite, sample := sample_of(thing))):
                samples[str(index)] = sample  # JSON has no other numbers
        recording.writer.write(
            "hashes",
            object=tracked.number,
            step=tracked.steps,
            is_last=is_last,
            values=values,
            samples=samples,
            took_s=time.thread_time() - start,
        )
        self.spent += time.thread_time() - hashing

    def add_new(self, optimizer, tracked):
        things, frozen, beside = parameters_of(optimizer), [], []
        if tracked.number == 1:
            for model in list(models.wrapped):
                things += [buffer for buffer in model.buffers() if is_hashable(buffer)]
            frozen, beside = self.frozen(), self.stepped_by_others()
            things += [*frozen, *beside]
        new = [thing for thing in things if id(thing) not in tracked.index_of]
        if not new:
            return
        recording.writer.write(
            "parameters",
            object=tracked.number,
            name=type(optimizer).__name__,
            hardware=hardware_of(recording.local(new[0]).device),
            parameters=list(
                self.described(tracked, new, set(map(id, frozen)), set(map(id, beside)))
            ),
            **self.places.get(optimizer, {}),
        )

    def stepped(self):
        return [p for optimizer in list(self.optimizers) for p in parameters_of(optimizer)]

    def frozen(self):
        """Returns what the job changes by itself, and no optimizer steps."""
        stepped = set(map(id, self.stepped()))
        return [p for p in models.changed_frozen() if id(p) not in stepped]

    def stepped_by_others(self):
        """Returns what other ranks may step in place of this one, as under ZeRO: the rest of the
        modules that it steps a part of, if it has a gradient and the job reduces these by hand.
        """
        if self.exchanged_steps and not self.has_sought and not models.wrapped:
            self.has_sought = True
            beside = owners.parameters_beside(self.stepped())
            self.beside = [
                weakref.ref(p)
                for p in beside
                if p.grad is not None and is_hashable(recording.local(p))
            ]
        return self.alive_beside()

    def alive_beside(self):
        return [p for reference in self.beside if (p := reference()) is not None]

    @staticmethod
    def described(tracked, new, frozen, beside):
        """`frozen`, `beside`: ids."""
        known, names = owners.owners(), owners.names_of([*new, *meant.hooks.tensors()])
        said = meant.Said(names)
        for thing in new:
            index = tracked.index_of[id(thing)] = len(tracked.index_of)
            owner, local = known.get(id(thing), owners.NONE), recording.local(thing)
            if id(thing) in frozen:
                owner = owner._replace(owner="frozen")
                tracked.frozen.add(index)
            if id(thing) in beside:
                tracked.unstepped.add(index)
            is_whole = owner.owner != "shard" and local.numel() == thing.numel()
            if is_whole:
                tracked.whole.append((index, weakref.ref(thing)))
            yield {
                "index": index,
                "name": names.get(id(thing), ""),
                "elements": local.numel(),
                "is_whole": is_whole,
                "is_constant": is_hashable(local) and is_constant(local),
                "is_stepped": id(thing) not in beside,
                **owner._asdict(),
                **said.fields_of(thing),
            }

    def parameters(self):
        """Returns the parameters of all optimizers, and those that only other ranks step."""
        return [*self.stepped(), *self.alive_beside()]

    def parameters_before(self, steps):
        """Returns the parameters of optimizers that have done fewer steps."""
        optimizers = [o for o, tracked in list(self.optimizers.items()) if tracked.steps < steps]
        return [p for optimizer in optimizers for p in parameters_of(optimizer)]

    def most_steps(self):
        return max((tracked.steps for tracked in self.optimizers.values()), default=0)

    def may_be_of_parameters(self, tensor):
        """By its size alone: that of one of them, or of more than half of all."""
        if self.sizes_of != (len(self.optimizers), len(self.beside)):
            self.sizes_of = len(self.optimizers), len(self.beside)
            sizes = [recording.local(parameter).numel() for parameter in self.parameters()]
            self.sizes, self.half = set(sizes) - {1}, max(1, sum(sizes) / 2)
        return tensor.numel() in self.sizes or tensor.numel() > self.half

    def members(self, parameters):
        """Their optimizers' numbers and their own."""
        return [
            {"object": tracked.number, "index": tracked.index_of[id(parameter)]}
            for parameter in parameters
            for tracked in list(self.optimizers.values())
            if id(parameter) in tracked.index_of
        ]

    def look_last(self, tracked):
        """Not at what was changed since the last step, on this rank alone perhaps."""
        if tracked.is_ended or self is not replicas:
            return
        tracked.is_ended = True
        if tracked.whole and tracked.steps > 0 and tracked.is_as_left() and is_idle(tracked):
            self.look(tracked, time.thread_time(), is_last=True)


def is_idle(tracked):
    """Whether its parameters can be read at once. A GPU may wait for another rank for ever."""
    if not any(thing.is_cuda for _, thing in tracked.things()):
        return True
    deadline = time.monotonic() + 1
    while not recording.torch.cuda.current_stream().query():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


replicas = Replicas()


# ---- what the hook has called ----------------------------------------------------------------


@recording.guarded
def made_optimizer(optimizer):
    replicas.see_made(optimizer)


@recording.guarded
def before_step(optimizer, args, kwargs):
    replicas.before_step(optimizer)


@recording.guarded
def after_step(optimizer, args, kwargs):
    replicas.after_step(optimizer)


@recording.guarded
def at_end():
    for tracked in list(replicas.optimizers.values()):
        replicas.look_last(tracked)


def forget():
    """In the child of a fork, which trains nothing of its parent's."""
    global replicas
    replicas = Replicas()


def begin_again():
    """In a new file, in which nothing is known yet."""
    global replicas
    places = replicas.places
    replicas = Replicas()
    replicas.places = places
    for optimizer in list(places):
        replicas.tracked(optimizer)
