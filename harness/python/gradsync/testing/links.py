"""Two ranks with a link between them: each in a network namespace of its own, shaped where it is
fed, as of two machines.

A process in between, main([FOLDER, process that it must not outlive, RATE, seconds]), is the host
of both: it runs the ranks of FOLDER (crew.py), and leaves what became of them in
FOLDER/outcome.json.
"""

import json
import os
import shutil
import subprocess
from pathlib import Path

from gradsync import network
from gradsync.testing import crew

CHECK_S = 30
PROGRAMS = ("unshare", "nsenter", "ip", "tc")
PATH = os.pathsep.join(filter(None, [os.environ.get("PATH"), "/usr/sbin", "/sbin"]))
# What it takes: a bridge, two ends of a cable, a shaped one.
TRIAL = (
    "ip link add br0 type bridge && ip link add veth0 type veth peer name veth1 && "
    "tc qdisc add dev veth0 root tbf rate 1gbit burst 64kb latency 100ms"
)


def why_impossible():
    """Returns why there can be no shaped link here, a sentence; None: there can be."""
    missing = [name for name in PROGRAMS if shutil.which(name, path=PATH) is None]
    if missing:
        return f"there is no {', '.join(missing)} here (Debian: iproute2, util-linux)"
    try:
        done = subprocess.run(
            [*network.private_network(), "sh", "-c", TRIAL],
            capture_output=True,
            text=True,
            timeout=CHECK_S,
            env=os.environ | {"PATH": PATH},
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"network namespaces cannot be tried: {error}"
    if done.returncode == 0:
        return None
    words = (done.stderr.strip() or f"status {done.returncode}").splitlines()[-1]
    return f"network namespaces are not allowed here: {words}"


def run_over(rate):
    """Returns what runs ranks over a link of `rate`, as runs.run_function() takes it.

    Errors: ValueError with what was expected.
    """
    if not isinstance(rate, str) or not network.RATE.fullmatch(rate):
        raise ValueError(f'a rate such as "200Mbps" (units: {", ".join(network.UNITS)})')

    def run(folder, size, timeout_s):
        process = subprocess.Popen(
            [*network.private_network(), *crew.python("links", folder, rate, timeout_s)],
            env=os.environ | {"PATH": PATH},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            said = process.communicate(timeout=timeout_s + 2 * crew.LEAVE_S)[1]
        finally:
            process.kill()  # its ranks die with it
            process.wait()
        file = Path(folder) / "outcome.json"
        if not file.exists():
            raise RuntimeError(f"the link could not be made: {said.strip()}")
        return read_outcome(file)

    return run


def read_outcome(file):
    kept = json.loads(file.read_text())
    return crew.Outcome([crew.Rank(**rank) for rank in kept["ranks"]], kept["first"])


def write_outcome(file, outcome):
    ranks = [vars(rank) for rank in outcome.ranks]
    file.write_text(json.dumps({"ranks": ranks, "first": outcome.first}))


def main(arguments):
    folder, parent, rate, timeout_s = arguments
    network.die_with_parent(int(parent))
    more = {"GLOO_SOCKET_IFNAME": network.INTERFACE, "MASTER_ADDR": network.address(0)}
    ranks = crew.Crew(folder, 2, more, in_child=network.enter_own_network)
    try:
        network.connect([process.pid for process in ranks.processes], network.bits_per_s(rate))
    except BaseException:
        ranks.end()
        raise
    ranks.let_go()
    write_outcome(Path(folder) / "outcome.json", ranks.run(float(timeout_s)))
