"""One launch of a peer: makes the network, starts a rank per core, merges what they measured.

usage: unshare -n launch.py SPECIFICATION      (without root: unshare -r -n)
Prints one JSON line: blocks with the slowest rank's steps, and the collectives of a step. All ranks
end with this process, and this process with its parent.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

import network

RANK = Path(__file__).resolve().parent / "rank.py"
PORT = 29500  # free: the namespace is new


def interface(topology):
    return "lo" if topology.nodes == 1 else network.INTERFACE


def environment(rank, topology):
    alone = topology.nodes == 1
    return os.environ | {
        "OMP_NUM_THREADS": "1",
        "MKL_NUM_THREADS": "1",
        "RANK": str(rank),
        "WORLD_SIZE": str(topology.world_size),
        "LOCAL_RANK": str(rank % topology.ranks_per_node),
        "LOCAL_WORLD_SIZE": str(topology.ranks_per_node),
        "MASTER_ADDR": "127.0.0.1" if alone else network.address(0),
        "MASTER_PORT": str(PORT),
        "GRADSYNC_INTERFACE": interface(topology),
    }


def start_ranks(topology, command, outputs):
    """Starts all ranks. They wait for a line on their standard input: connect() writes it."""
    ranks = []
    for rank, output in enumerate(outputs):
        on_node = rank % topology.ranks_per_node
        first = ranks[rank - on_node].pid if on_node else None
        ranks.append(start_rank(rank, topology, command, output, first))
    return ranks


def start_rank(rank, topology, command, output, first):
    """`first`: the process of its node's first rank, whose network it shares; None: it is that."""
    parent, cpus = os.getpid(), sorted(os.sched_getaffinity(0))

    def prepare():
        if topology.nodes > 1 and first is None:
            network.enter_own_network()
        elif topology.nodes > 1:
            network.enter_network_of(first)
        os.sched_setaffinity(0, {cpus[rank % len(cpus)]})  # as gradsync: one core per rank
        network.die_with_parent(parent)

    return subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=output,
        env=environment(rank, topology),
        text=True,
        preexec_fn=prepare,
    )


def connect(ranks, topology):
    """Makes the links of all ranks, and lets them go."""
    if topology.nodes > 1:
        firsts = ranks[:: topology.ranks_per_node]
        network.connect([rank.pid for rank in firsts], topology.rate_bits_per_s)
    else:
        network.run_batch("ip", ["link set lo up"])
    for rank in ranks:
        rank.stdin.write("go\n")
        rank.stdin.flush()


def finish(ranks, timeout_s):
    """Waits for all; ends all when one fails or the time is over."""
    until = time.monotonic() + timeout_s
    while any(rank.poll() is None for rank in ranks):
        late = time.monotonic() > until
        if late or any(rank.poll() not in (None, 0) for rank in ranks):
            for rank in ranks:
                rank.kill()
            sys.exit(f"the ranks took longer than {timeout_s} s" if late else 1)
        time.sleep(0.05)
    if any(rank.returncode != 0 for rank in ranks):
        sys.exit(1)


def read(output):
    output.seek(0)
    return json.loads(output.readline())


def slowest(blocks):
    """Returns the block whose steps are each the slowest rank's. `blocks`: one per rank."""
    return {
        "strategy": blocks[0]["strategy"],
        "round": blocks[0]["round"],
        "recorded": blocks[0]["recorded"],
        "step_s": [max(steps) for steps in zip(*(b["step_s"] for b in blocks), strict=True)],
        "rank_step_s": [b["step_s"] for b in blocks],
        "rank_recompute_s": [b["recompute_s"] for b in blocks],
    }


def main(specification):
    spec = json.loads(specification)
    network.die_with_parent(spec["parent"] or os.getppid())
    topology = network.read_topology(spec["topology"])
    with ExitStack() as open_files:
        outputs = [
            open_files.enter_context(tempfile.TemporaryFile("w+"))  # without a name
            for _ in range(topology.world_size)
        ]
        results = run(spec, topology, specification, outputs)
    counts = [result["collectives"] for result in results]
    if any(count != counts[0] for count in counts):
        sys.exit(f"launch.py: the ranks counted different collectives: {counts}")
    blocks = zip(*(result["blocks"] for result in results), strict=True)
    print(json.dumps({"blocks": [slowest(b) for b in blocks], "collectives": counts[0]}))


def run(spec, topology, specification, outputs):
    """Returns what each rank measured. Each has a file for what it prints."""
    command = [sys.executable, str(RANK), specification]
    ranks = start_ranks(topology, command, outputs)
    connect(ranks, topology)
    finish(ranks, spec["launch_timeout_s"])
    return [read(output) for output in outputs]


if __name__ == "__main__":
    main(sys.argv[1])
