"""Jobs that take turns: what a fix saves, what watching costs, what running again takes.

results/evidence/make.py peers saving|recomputation|watch_cost OPTIONS      --help lists them
"""

from peers import recomputation, saving, watch_cost

STEPS = {each.__name__.split(".")[-1]: each.main for each in (saving, recomputation, watch_cost)}


def pages():
    """Returns nothing: the figures of its page are published's."""
    return {}
