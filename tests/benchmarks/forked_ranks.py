"""Stands for torchrun where many training scripts are run: imports torch once, and forks the ranks.

usage: forked_ranks.py RANKS SCRIPT [ARGUMENT]...      MASTER_PORT in the environment

Each rank finds its place in the environment as torchrun gives it, and runs the script as Python
would, to the end of the interpreter. A rank that fails ends the others, and the exit status is 1.
Where GRADSYNC_FORK_SERVER is in the environment, torch has been imported there: see fork_server.py.

Nothing runs before the fork but imports: threads would not come along, and torch refuses autograd
in a process whose parent has used it.
"""

import os
import sys

import fork_server


def main():
    count, script, *arguments = int(sys.argv[1]), *sys.argv[2:]
    if fork_server.VARIABLE in os.environ:
        return sys.exit(fork_server.ranks_of_a_job(count, script, arguments) != 0)
    fork_server.import_torch()
    rank, pids = fork_server.fork_ranks(count)
    if rank is not None:
        fork_server.take_place(rank, count)
        return fork_server.run_script(script, *arguments)
    # Nothing of its own is left to do, and to take all modules apart takes long.
    return os._exit(fork_server.end_of(pids) != 0)


if __name__ == "__main__":
    main()
