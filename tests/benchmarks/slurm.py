"""A Slurm of one or several nodes: daemons, keys and state in a folder of its own. Needs root."""

import getpass
import os
import subprocess
import time
from dataclasses import dataclass

from launching import SBIN, find
from program import WATCHDOG_S, free_port

SLURM_CONF = """
ClusterName=test
SlurmctldHost={host}({address})
SlurmUser={user}
SlurmdUser={user}
SlurmctldPort={controller_port}
SlurmdPort={node_port}
AuthType=auth/munge
AuthInfo=socket={place}/munge.socket
CredType=cred/munge
StateSaveLocation={place}/state
SlurmdSpoolDir={place}/spool.%n
SlurmctldPidFile={place}/slurmctld.pid
SlurmdPidFile={place}/slurmd.%n.pid
SlurmctldLogFile={place}/slurmctld.log
SlurmdLogFile={place}/slurmd.%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
MpiDefault=none
SwitchType=switch/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
ReturnToService=2
SlurmdTimeout=300
MessageTimeout=100
TCPTimeout=60
{nodes}
PartitionName=all Nodes=ALL Default=YES OverSubscribe=FORCE:4 State=UP
"""


@dataclass
class Node:
    name: str
    address: str
    enter: tuple = ()  # the command before another one that runs it there
    cpus: int = os.cpu_count()


class Slurm:
    """The first node has the controller too. `environment`: returns that of a daemon."""

    def __init__(self, place, nodes, environment):
        self.place = place
        self.nodes = nodes
        self.environment = environment
        self.daemons = []
        for folder in ("state", *(f"spool.{node.name}" for node in nodes)):
            (place / folder).mkdir(parents=True)
        self.configuration = place / "slurm.conf"
        self.configuration.write_text(self.configured())
        (place / "cgroup.conf").write_text("CgroupPlugin=autodetect\n")
        key = place / "munge.key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o400)
        self.daemon(
            (), "munged", "-F", "--force", f"--key-file={key}",
            f"--socket={place}/munge.socket", f"--pid-file={place}/munged.pid",
            f"--log-file={place}/munged.log", f"--seed-file={place}/munge.seed",
        )  # fmt: skip
        until = time.monotonic() + WATCHDOG_S
        while not (place / "munge.socket").exists() and time.monotonic() < until:
            time.sleep(0.01)
        self.daemon(nodes[0].enter, "slurmctld", "-D", "-f", self.configuration)
        for node in nodes:
            self.daemon(node.enter, "slurmd", "-D", "-f", self.configuration, "-N", node.name)

    def configured(self):
        first = self.nodes[0]
        lines = [
            f"NodeName={node.name} NodeAddr={node.address} CPUs={node.cpus} State=UNKNOWN"
            for node in self.nodes
        ]
        return SLURM_CONF.format(
            host=first.name,
            address=first.address,
            user=getpass.getuser(),
            place=self.place,
            controller_port=free_port(),
            node_port=free_port(),
            nodes="\n".join(lines),
        )

    @property
    def variables(self):
        """What a command of Slurm needs in its environment."""
        return {"SLURM_CONF": str(self.configuration)}

    def daemon(self, enter, program, *arguments):
        command = [*enter, find(program), *map(str, arguments)]
        self.daemons.append(
            subprocess.Popen(
                command,
                env=self.environment(**self.variables, PATH=SBIN),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
        )

    def end(self):
        for process in reversed(self.daemons):
            process.terminate()
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self.daemons = []

    def logs(self):
        return "\n".join(
            f"{log.name}: {log.read_text()[-500:]}" for log in self.place.glob("*.log")
        )

    def is_idle(self):
        look = subprocess.run(
            [*self.nodes[0].enter, find("sinfo"), "-h", "-o", "%t %D"],
            env=self.environment(**self.variables),
            capture_output=True,
            text=True,
        )
        return look.stdout.strip() == f"idle {len(self.nodes)}"
