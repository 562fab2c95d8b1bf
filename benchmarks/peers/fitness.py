"""What a comparison needs of this machine, and what ends one. No torch."""

import itertools
import subprocess
import sys
from pathlib import Path

import launches
import network
from wrappers import MODULES


class UnfitError(Exception):
    """Something that this needs is missing here."""


# What may go wrong without a mistake here, and the exit status that says so.
STATUS = {network.TopologyError: 2, UnfitError: 4, launches.LaunchError: 5}
EXPECTED = tuple(STATUS)


def report_error(program, error):
    """Returns the exit status."""
    print(f"{program}: {error}", file=sys.stderr)
    return STATUS[type(error)]


def refuse_missing(program, peers):
    """Errors: UnfitError with the remedy. `peers`: sides beside gradsync."""
    modules = itertools.chain.from_iterable(MODULES.get(peer, ()) for peer in peers)
    for module in dict.fromkeys(modules):
        look = [sys.executable, "-c", f"import {module}"]
        if subprocess.run(look, capture_output=True).returncode != 0:
            raise UnfitError(
                f"{sys.executable} cannot import {module}: run harness/setup --oracles"
            )
    if subprocess.run([*launches.private_network(), "true"], capture_output=True).returncode != 0:
        raise UnfitError("network namespaces are forbidden here: gradsync doctor has the remedy")
    if not Path(program).exists():
        raise UnfitError(f"{program} is missing: run benchmarks/run smoke, which builds it")
