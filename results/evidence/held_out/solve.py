"""Solves for the costs of the host, from measured cells."""

# By how much a step of Newton's method moves a constant.
SMALL_S = 1e-5
SMALL_S_PER_BYTE = 1e-11
MOST_STEPS = 8
NEAR_S = 1e-7


def moved_by(left, slopes):
    """What leaves nothing of `left` over, or least where one constant has to do for both."""
    if len(slopes) == 1:
        (of_one,) = slopes
        return [sum(a * b for a, b in zip(left, of_one, strict=True)) / sum(a * a for a in of_one)]
    (a, c), (b, d) = slopes
    determinant = a * d - b * c
    return [
        (left[0] * d - left[1] * b) / determinant,
        (left[1] * a - left[0] * c) / determinant,
    ]


def small_of(name):
    return SMALL_S_PER_BYTE if name.endswith("_per_byte_s") else SMALL_S


def solved(known, unknown, predicted, measured):
    """Returns `known` with the constants `unknown`, which hold a first guess, so that the seconds
    of as many cells are those that were measured; `predicted(constants)`: theirs with such
    constants. By Newton's method: steps are linear in pieces. Nothing costs less than nothing: a
    constant that would is 0, and the other one leaves least over."""
    unknown = dict(unknown)
    free = list(unknown)
    for _ in range(MOST_STEPS):
        at = predicted(known | unknown)
        left = [step - steps for step, steps in zip(measured, at, strict=True)]
        if max(map(abs, left)) < NEAR_S:
            break
        slopes = []
        for name in free:
            small = small_of(name)
            more = predicted(known | unknown | {name: unknown[name] + small})
            slopes.append([(m - a) / small for m, a in zip(more, at, strict=True)])
        for name, by in zip(list(free), moved_by(left, slopes), strict=True):
            unknown[name] += by
            if unknown[name] < 0 and len(free) > 1:
                unknown[name] = 0.0
                free.remove(name)
        unknown = {name: max(0.0, value) for name, value in unknown.items()}
    return known | unknown


def with_host_costs(known, predicted, measured):
    """Returns `known` with the collective_s and micro_batch_s that two cells' steps tell."""
    return solved(known, {"collective_s": 2e-4, "micro_batch_s": 5e-4}, predicted, measured)
