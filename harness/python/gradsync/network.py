"""The network of Python's ranks, as harness/launch/fabric.cpp makes it for gradsync's own.

    node 0: eth0 --tbf--> [this process's namespace: a bridge] <--tbf-- eth0 :node 1

Each node is a network namespace of its own, whose link is shaped where it is fed: its ranks share
it, and reach each other by its loopback. One node is this namespace's loopback. Nothing has a name,
so everything goes with the last process that is in it.
"""

import ctypes
import json
import os
import re
import signal
import subprocess
from dataclasses import dataclass
from pathlib import Path

CLONE_NEWNET = 0x40000000
PR_SET_PDEATHSIG = 1
INTERFACE = "eth0"
# harness/launch/link_shape.cpp has these too, and why.
BURST_S, SMALLEST_BURST, LARGEST_BATCH, QUEUE = 500e-6, 16 * 1024, 65536, "100ms"
UNITS = {"Gbps": 1e9, "Mbps": 1e6, "Kbps": 1e3, "bps": 1.0}
RATE = re.compile(rf"\d+(\.\d+)? ?({'|'.join(UNITS)})")
# harness/launch/fabric.cpp: before any link exists, so that the links are born with them.
SETTINGS = {
    "/proc/sys/net/ipv4/tcp_congestion_control": "reno",
    "/proc/sys/net/ipv4/tcp_slow_start_after_idle": "0",
    "/proc/sys/net/ipv6/conf/default/disable_ipv6": "1",
}

libc = ctypes.CDLL(None, use_errno=True)


class TopologyError(Exception):
    """A topology that ranks of Python cannot have."""


@dataclass(frozen=True)
class Topology:
    nodes: int
    ranks_per_node: int
    rate_bits_per_s: float | None  # of each node's link; None: unshaped

    @property
    def world_size(self):
        return self.nodes * self.ranks_per_node


def read_topology(path):
    """Returns the Topology in a gradsync.topology/1 file, which gradsync itself checks in full.

    Errors: TopologyError."""
    try:
        fields = json.loads(Path(path).read_text())
        nodes, ranks = fields["nodes"], fields["ranks_per_node"]
    except OSError as error:
        raise TopologyError(f"{path}: cannot be read: {error.strerror}") from error
    except (ValueError, KeyError, TypeError) as error:
        raise TopologyError(f"{path}: no topology: {error!r}") from error
    if fields.get("intra_node") is not None:
        raise TopologyError(
            f"{path}: got intra_node, expected for peers nodes whose ranks have no shaped link"
        )
    link = fields.get("inter_node") if nodes > 1 else None
    return Topology(nodes, ranks, bits_per_s(link["rate"]) if link else None)


def bits_per_s(text):
    unit = next(unit for unit in UNITS if text.endswith(unit))
    return float(text.removesuffix(unit)) * UNITS[unit]


def shape_link(rate_bits_per_s):
    """Returns (bytes of burst, bytes of the largest batch)."""
    burst = max(SMALLEST_BURST, int(rate_bits_per_s / 8 * BURST_S))
    return burst, min(burst // 2, LARGEST_BATCH)


def address(node):
    return f"10.77.{node}.1"


def die_with_parent(parent):
    """The calling process is killed when its parent ends, however that happens."""
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(125)


def private_network():
    """Returns what runs a command in a new network namespace, of which it is root."""
    return ["unshare", *([] if os.geteuid() == 0 else ["-r"]), "-n"]


def enter_own_network():
    """Moves the calling process into a new network namespace."""
    if libc.unshare(CLONE_NEWNET) != 0:
        os._exit(125)
    for path, value in SETTINGS.items():
        try:
            Path(path).write_text(value)
        except OSError:
            continue  # a kernel without it has nothing to set


def enter_network_of(pid):
    """Moves the calling process into the network namespace of another."""
    namespace = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY)
    if libc.setns(namespace, CLONE_NEWNET) != 0:
        os._exit(125)
    os.close(namespace)


def run_batch(program, lines, pid=None):
    """Runs `ip` or `tc` here, or in the network namespace of `pid`."""
    inside = ["nsenter", "-t", str(pid), "-n"] if pid else []
    subprocess.run(
        [*inside, program, "-batch", "-"], input="\n".join(lines) + "\n", text=True, check=True
    )


def connect(pids, rate_bits_per_s):
    """Links the namespaces of these processes, one per node, by a bridge in our own."""
    lines = ["link set lo up", "link add br0 type bridge", "link set br0 up"]
    for node, pid in enumerate(pids):
        lines.append(f"link add port{node} type veth peer name {INTERFACE} netns {pid}")
        lines.append(f"link set port{node} master br0 up")
    run_batch("ip", lines)
    for node, pid in enumerate(pids):
        configure_host(node, pid, rate_bits_per_s)


def configure_host(node, pid, rate_bits_per_s):
    lines = ["link set lo up", f"addr add {address(node)}/16 dev {INTERFACE}"]
    lines.append(f"link set {INTERFACE} up")
    if rate_bits_per_s is None:
        run_batch("ip", lines, pid)
        return
    burst, batch = shape_link(rate_bits_per_s)
    run_batch("ip", [*lines, f"link set {INTERFACE} gso_max_size {batch}"], pid)
    tbf = f"tbf rate {rate_bits_per_s:.0f}bit burst {burst}b latency {QUEUE}"
    run_batch("tc", [f"qdisc add dev {INTERFACE} root {tbf}"], pid)
