"""Starts a training script as torchrun would on several machines, each a network namespace.

Ranks of one node share it; links are the topology's.

usage: unshare -n on_nodes.py TOPOLOGY.json SCRIPT [ARGUMENTS]      (without root: unshare -r -n)
The script's ranks find each other by RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT. They all end
with this process, and when one fails. Exit status: 0, or 1 where a rank failed.
"""

import os
import sys

import launch
import network

TIMEOUT_S = 3600


def main(arguments):
    if len(arguments) < 2:
        sys.exit("usage: unshare -n on_nodes.py TOPOLOGY.json SCRIPT [ARGUMENTS]")
    network.die_with_parent(os.getppid())
    os.environ["PATH"] += ":/usr/sbin:/sbin"  # ip and tc
    try:
        topology = network.read_topology(arguments[0])
    except network.TopologyError as error:
        sys.exit(f"on_nodes.py: {error}")
    os.environ["GLOO_SOCKET_IFNAME"] = launch.interface(topology)
    waiting = ["sh", "-c", 'read -r go && exec "$@"', "sh", sys.executable, *arguments[1:]]
    ranks = launch.start_ranks(topology, waiting, [None] * topology.world_size)
    launch.connect(ranks, topology)
    launch.finish(ranks, TIMEOUT_S)


if __name__ == "__main__":
    main(sys.argv[1:])
