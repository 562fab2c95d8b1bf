"""Names the blocks of a recorded pass so that a replay can follow each: a profile's "changes".

Between two marks a pass makes and frees blocks, in this order:

    4096         makes a block of 4096 bytes
    -4096        frees the youngest block of 4096 bytes
    [-4096, 2]   frees the third youngest

A gradient leaves these blocks with its mark: a wrapper may free it before the model frees others.
"""

from dataclasses import dataclass, field


class LiveBlocks:
    """The blocks of a trace that are not freed yet."""

    def __init__(self):
        self.bytes_of = {}  # by block, gradients too
        self.of_size = {}  # bytes to blocks, the youngest last; without gradients
        self.lost_gradient = False  # one was freed that had left

    def make(self, block, size):
        self.bytes_of[block] = size
        self.of_size.setdefault(size, []).append(block)

    def free(self, block):
        """Returns the block's bytes and age; bytes 0: it was not made here."""
        size = self.bytes_of.pop(block, 0)
        if not size:
            return 0, 0
        age = self._leave(block, size)
        self.lost_gradient |= age is None
        return size, age or 0

    def take(self, block):
        """Returns a gradient's bytes and its age among the blocks that it leaves, if it has not
        left them before.
        """
        size = self.bytes_of.get(block, 0)
        return size, self._leave(block, size) or 0

    def are_all_freed(self):
        return not any(self.of_size.values())

    def _leave(self, block, size):
        blocks = self.of_size.get(size, [])
        if block not in blocks:
            return None
        index = blocks.index(block)
        del blocks[index]
        return len(blocks) - index


@dataclass
class Segments:
    """Turns a trace into the profile's events."""

    live: LiveBlocks
    gradients: dict = field(default_factory=dict)  # block to parameter index
    events: list = field(default_factory=list)
    changes: list = field(default_factory=list)
    net: int = 0
    high: int = 0

    def make(self, block, size):
        if not size:
            return
        self.live.make(block, size)
        self.changes.append(size)
        self.net += size
        self.high = max(self.high, self.net)

    def free(self, block):
        size, age = self.live.free(block)
        if size:
            self.changes.append([-size, age] if age else -size)
            self.net -= size

    def close(self):
        if self.changes:
            self.events.append(["hold", self.high, self.net, self.changes])
        self.net = self.high = 0
        self.changes = []

    def mark(self, *words):
        self.close()
        self.events.append(list(words))


def number_changes(passes):
    """Puts each "hold"'s changes, its last item, into one list and their number in their place.

    Returns that list. Equal changes have one number.
    """
    numbers, listed = {}, []
    for events in passes:
        for event in events:
            if event[0] != "hold":
                continue
            key = repr(event[3])
            if key not in numbers:
                numbers[key] = len(listed)
                listed.append(event[3])
            event[3] = numbers[key]
    return listed


def forget_changes(passes):
    """What is left are sums."""
    for events in passes:
        for event in events:
            del event[3:]
        events[:] = [event for event in events if event != ["hold", 0, 0]]
