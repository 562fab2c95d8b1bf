"""What a test asks for: the arguments of @pytest.mark.gradsync."""

from dataclasses import dataclass

from gradsync.testing.sizes import parse_bytes

NAME = "gradsync"
TIMEOUT_S = 120
MOST_RANKS = 64  # of one machine; more are a slip
HELP = (
    "gradsync(ranks, syncs_per_step=None, max_bytes_per_step=None, max_peak=None, "
    "fail_on_excess=None, account=None, counts=None, timeout_s=120): runs the test on that many "
    "gloo ranks and fails where it synchronizes gradients more often, moves more bytes or holds "
    "more than said, or where micro-batches count for more or less than they should"
)


class MarkerError(Exception):
    """A marker that cannot be meant: a sentence."""


@dataclass(frozen=True)
class Request:
    """What one test asks for. Sizes are bytes; None: not asked."""

    ranks: int
    syncs_per_step: int | None = None
    max_bytes_per_step: int | None = None
    max_peak: int | None = None
    fail_on_excess: bool = True  # by the verdict; not unless said where syncs_per_step is given
    account: bool = False  # what every micro-batch weighs in the gradient
    counts: bool | None = None  # True: must be in the file; False: never; None: where it is there
    timeout_s: float = TIMEOUT_S


def whole_number(least, most=None):
    expected = f"a whole number from {least}" + (f" to {most}" if most else " on")

    def parse(value):
        is_number = isinstance(value, int) and not isinstance(value, bool)
        if not is_number or value < least or (most and value > most):
            raise ValueError(expected)
        return value

    return parse


def seconds(value):
    if isinstance(value, bool) or not isinstance(value, int | float) or value <= 0:
        raise ValueError("seconds, more than 0")
    return float(value)


def truth(value):
    if not isinstance(value, bool):
        raise ValueError("True or False")
    return value


ARGUMENTS = {
    "ranks": whole_number(1, MOST_RANKS),
    "syncs_per_step": whole_number(0),
    "max_bytes_per_step": parse_bytes,
    "max_peak": parse_bytes,
    "fail_on_excess": truth,
    "account": truth,
    "counts": truth,
    "timeout_s": seconds,
}


def parse(args, kwargs):
    """Returns the Request in a marker's arguments. Errors: MarkerError."""
    if args:
        raise MarkerError(f"got {args[0]!r} without a name, expected ranks={args[0]!r}")
    values = {}
    for name, value in kwargs.items():
        if name not in ARGUMENTS:
            expected = ", ".join(ARGUMENTS)
            raise MarkerError(f"there is no argument {name}, expected one of {expected}")
        if value is None and name != "ranks":
            continue
        try:
            values[name] = ARGUMENTS[name](value)
        except ValueError as error:
            raise MarkerError(f"{name}: got {value!r}, expected {error}") from None
    if "ranks" not in values:
        raise MarkerError("ranks is missing: on how many the test runs")
    if values.get("account") and "max_peak" in values:
        raise MarkerError(
            "got account and max_peak, expected one of them: an account holds tensors of its own"
        )
    values.setdefault("fail_on_excess", "syncs_per_step" not in values)
    return Request(**values)


def request_of(item):
    """Returns the Request of a test; None where it has no such marker. Errors: MarkerError."""
    marker = item.get_closest_marker(NAME)
    return marker and parse(marker.args, marker.kwargs)
