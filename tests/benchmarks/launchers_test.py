"""The program under the launchers that users have: the real torchrun, Open MPI and Slurm.

A Kubernetes PyTorchJob is played by its environment: two pods on this host. Whatever starts it, the
run must be the same: one table, one set of results, the right ranks, and a plan that goes on after
a rank has died.
"""

import getpass
import os
import shutil
import signal
import socket
import subprocess
import sys
import unittest

from hosts import Hosts
from program import PACED, PROGRAM, QUICK, ProgramTest, free_port

TORCH_PYTHON = os.environ.get("GRADSYNC_TEST_PYTHON", sys.executable)
SBIN = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"


def find(program):
    return shutil.which(program, path=SBIN)


def has_torchrun():
    look = [TORCH_PYTHON, "-c", "import torch.distributed.run"]
    return subprocess.run(look, capture_output=True).returncode == 0


class LauncherTest(ProgramTest):
    def arguments(self, plan, *more):
        return ["run", self.plan_file(plan), "--out", self.place / "run", *more]

    def assert_ran(self, outcome, launcher, topology, ranks):
        self.assertEqual(outcome.status, 0, outcome.err)
        # Only the leading task prints: one table, however many tasks.
        self.assertEqual(outcome.out.count("s/step |"), 1, outcome.out)
        result = self.result()
        self.assertEqual(result["exit_status"], 0)
        self.assertEqual(result["context"]["launcher"], launcher)
        self.assertEqual({cell["cell"]["topology"] for cell in result["cells"]}, {topology})
        for trial in self.trials():
            self.assertEqual(trial["status"], "ok", trial["reason"])
            self.assertTrue(trial["ledger"]["matches"])
            self.assertEqual([rank["rank"] for rank in trial["ranks"]], list(range(ranks)))
        for clock in result["context"]["clocks"]:
            # One host: the clocks are one, and the bound must hold that.
            self.assertLessEqual(abs(clock["offset_s"]), clock["error_s"])
        for cell in result["cells"]:
            self.assertNotIn("clock", cell["null_reasons"].get("attribution", ""))

    def kill_a_rank(self, process, rank):
        """Returns the outcome and the number of the trial that the rank worked at."""
        held, order = self.hold(
            rank, lambda activity, _: activity in ("forward", "backward", "wait")
        )
        held.signal(signal.SIGKILL)
        return self.finish(process), order

    def assert_went_on(self, rank, order):
        """The trial that the rank died in failed, and no other."""
        trials = self.trials()
        expected = ["ok", "ok"]
        expected[order] = "failed"
        self.assertEqual([trial["status"] for trial in trials], expected)
        self.assertIn(f"[rank {rank}/2", trials[order]["reason"])
        self.assertIn("killed by signal 9", trials[order]["reason"])
        self.assertEqual(self.result()["exit_status"], 5)


class ByHandTest(LauncherTest):
    """Started on each host with RANK, WORLD_SIZE and MASTER_ADDR, as a PyTorchJob does too."""

    def start_task(self, task, plan=QUICK, *more, tasks=2, **env):
        env = {
            "RANK": str(task),
            "WORLD_SIZE": str(tasks),
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(self.port),
        } | env
        return self.start(*self.arguments(plan, *more), env=env)

    def setUp(self):
        super().setUp()
        self.port = free_port()

    def test_two_hosts_of_one_rank(self):
        follower = self.start_task(1)
        self.assert_ran(self.finish(self.start_task(0)), "environment", "2x1", 2)
        ended = self.finish(follower)
        self.assertEqual((ended.status, ended.out), (0, ""), ended.err)

    def test_pods_that_host_two_ranks_each(self):
        pod = {"PET_NNODES": "2", "PET_NPROC_PER_NODE": "2"}
        follower = self.start_task(1, tasks=4, **pod)
        self.assert_ran(self.finish(self.start_task(0, tasks=4, **pod)), "PyTorchJob", "2x2", 4)
        self.assertEqual(self.finish(follower).status, 0)

    def test_a_rank_dies_and_the_plan_goes_on(self):
        plan = PACED | {"cells": PACED["cells"] | {"scale": [1]}, "steps": 1}
        plan["cells"]["model"] = ["paced_bert_base_t4"]
        follower = self.start_task(1, plan)
        outcome, order = self.kill_a_rank(self.start_task(0, plan), 1)
        self.assertEqual(outcome.status, 5, outcome.err)
        self.assert_went_on(1, order)
        self.assertEqual(self.finish(follower).status, 5)

    def test_a_host_is_lost(self):
        plan = PACED | {"cells": PACED["cells"] | {"scale": [1]}, "steps": 1000}
        follower = self.start_task(1, plan)
        leader = self.start_task(0, plan)
        self.wait_until(lambda: len(self.rank_processes()) == 2, what="two ranks")
        follower.kill()
        outcome = self.finish(leader)
        self.assertEqual(outcome.status, 5, outcome.err)
        self.assertIn("task 1 on", outcome.err)
        self.assertEqual(self.result()["exit_status"], 5)

    def test_interrupt(self):
        plan = PACED | {"cells": PACED["cells"] | {"scale": [1]}, "steps": 1000}
        follower = self.start_task(1, plan)
        leader = self.start_task(0, plan)
        self.wait_until(lambda: len(self.rank_processes()) == 2, what="two ranks")
        leader.send_signal(signal.SIGINT)
        self.assertEqual(self.finish(leader).status, 130)
        self.assertEqual(self.finish(follower).status, 130)

    def test_different_plans_are_refused_before_any_rank(self):
        other = self.plan_file(QUICK | {"steps": 9}, "other.json")
        place = {"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1"}
        follower = self.start("run", other, env=place | {"MASTER_PORT": str(self.port)})
        leader = self.finish(self.start_task(0))
        self.assert_refused(leader, "task 1 on", "plan/steps is 9 there and 3 here")
        self.assertEqual(self.finish(follower).status, 2)
        self.assertFalse((self.place / "run").exists())

    def test_nobody_leads(self):
        outcome = self.finish(self.start_task(1, QUICK, "--join-timeout", "0.5"))
        self.assert_refused(outcome, "task 0 does not answer", str(self.port), status=4)

    def test_a_task_never_comes(self):
        for timeout_s in (0.5, 5, 50):  # on a busy machine the leader's own part needs longer
            outcome = self.finish(self.start_task(0, QUICK, "--join-timeout", timeout_s))
            if "task 0, 1 of 2" not in outcome.err:
                break
        self.assert_refused(outcome, f"task 1 of 2 did not join within {timeout_s} s", status=4)

    def test_the_port_is_taken(self):
        with socket.socket() as taken:
            taken.bind(("0.0.0.0", self.port))
            taken.listen()
            outcome = self.finish(self.start_task(0))
        self.assert_refused(outcome, f"port {self.port} (MASTER_PORT)", status=4)

    def test_half_an_environment(self):
        outcome = self.call(*self.arguments(QUICK), env={"RANK": "0"})
        self.assert_refused(outcome, "WORLD_SIZE is unset")
        outcome = self.call(*self.arguments(QUICK, "--launcher", "none"), env={"RANK": "0"})
        self.assertEqual(outcome.status, 0, outcome.err)

    def test_a_topology_cannot_be_chosen(self):
        outcome = self.finish(self.start_task(0, QUICK, "--topology", "1x2"))
        self.assert_refused(outcome, "topology=1x2", "--launcher none")

    def test_scaled_cells_are_skipped(self):
        outcome = self.call(
            *self.arguments(PACED),
            env={"RANK": "0", "WORLD_SIZE": "1", "MASTER_PORT": str(self.port)},
        )
        self.assertEqual(outcome.status, 4, outcome.err)
        self.assertIn("scale 50 needs links scaled", self.trials()[0]["reason"])


@unittest.skipUnless(os.geteuid() == 0, "a host needs mounts of its own")
class HostsTest(LauncherTest):
    """Two hosts whose own names are loopbacks to themselves."""

    def setUp(self):
        super().setUp()
        self.hosts = Hosts(2, self.place)
        self.addCleanup(self.hosts.end)
        self.port = free_port()

    def tearDown(self):
        self.hosts.end()
        super().tearDown()

    def start_task(self, task, *more, **env):
        place = {"RANK": str(task), "WORLD_SIZE": "2"}
        leader = {"MASTER_ADDR": self.hosts.names[0], "MASTER_PORT": str(self.port)}
        command = self.hosts.command(task, PROGRAM)
        return self.start(*self.arguments(QUICK, *more), env=place | leader | env, command=command)

    def test_the_leaders_name_is_a_loopback_on_its_own_host(self):
        follower = self.start_task(1)
        self.assert_ran(self.finish(self.start_task(0)), "environment", "2x1", 2)
        ended = self.finish(follower)
        self.assertEqual((ended.status, ended.out), (0, ""), ended.err)
        clocks = self.result()["context"]["clocks"]
        self.assertEqual([clock["host"] for clock in clocks], self.hosts.names)

    def test_an_interface_is_chosen(self):
        follower = self.start_task(1, GLOO_SOCKET_IFNAME="eth0")
        leader = self.finish(self.start_task(0, "--interface", "eth0"))
        self.assert_ran(leader, "environment", "2x1", 2)
        self.assertEqual(self.finish(follower).status, 0)

    def test_an_interface_that_is_not_there(self):
        outcome = self.finish(self.start_task(0, "--interface", "eth9"))
        self.assert_refused(outcome, "--interface: got 'eth9'", "lo, eth0")


@unittest.skipUnless(has_torchrun(), "this Python has no torch.distributed.run")
class TorchrunTest(LauncherTest):
    TORCHRUN = (TORCH_PYTHON, "-m", "torch.distributed.run", "--no-python")

    def torchrun(self, plan, *options):
        flags = (*self.TORCHRUN, "--nproc-per-node", "2", f"--master-port={free_port()}", *options)
        # torchrun keeps its logs in a folder that it leaves behind.
        env = {"TMPDIR": str(self.place)}
        return self.start(*self.arguments(plan), command=(*flags, PROGRAM), env=env)

    def test_one_node(self):
        self.assert_ran(self.finish(self.torchrun(QUICK)), "torchrun", "1x2", 2)

    def test_its_dynamic_rendezvous(self):
        process = self.torchrun(
            QUICK, "--rdzv-backend=c10d", f"--rdzv-endpoint=127.0.0.1:{free_port()}"
        )
        self.assert_ran(self.finish(process), "torchrun", "1x2", 2)

    def test_a_rank_dies_and_the_plan_goes_on(self):
        plan = PACED | {"cells": PACED["cells"] | {"scale": [1]}, "steps": 1}
        outcome, order = self.kill_a_rank(self.torchrun(plan), 1)
        self.assertNotEqual(outcome.status, 0)  # torchrun's own word for a failed job
        self.assert_went_on(1, order)


@unittest.skipUnless(find("mpirun"), "no mpirun")
class MpirunTest(LauncherTest):
    def mpirun(self, *more, tasks=2):
        flags = ["mpirun", "--oversubscribe", "-n", str(tasks)]
        if os.geteuid() == 0:
            flags.insert(1, "--allow-run-as-root")
        port = {"MASTER_PORT": str(free_port())}
        return self.call(*self.arguments(QUICK, *more), command=(*flags, PROGRAM), env=port)

    def test_a_task_per_rank(self):
        self.assert_ran(self.mpirun(), "mpirun", "1x2", 2)

    def test_a_task_per_node(self):
        outcome = self.mpirun("--ranks-per-node", "2", tasks=1)
        self.assert_ran(outcome, "mpirun", "1x2", 2)


SLURM_CONF = """
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmUser={user}
SlurmdUser={user}
SlurmctldPort={controller_port}
SlurmdPort={node_port}
AuthType=auth/munge
AuthInfo=socket={place}/munge.socket
CredType=cred/munge
StateSaveLocation={place}/state
SlurmdSpoolDir={place}/spool
SlurmctldPidFile={place}/slurmctld.pid
SlurmdPidFile={place}/slurmd.pid
SlurmctldLogFile={place}/slurmctld.log
SlurmdLogFile={place}/slurmd.log
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
NodeName={host} NodeAddr=127.0.0.1 CPUs={cpus} State=UNKNOWN
PartitionName=all Nodes={host} Default=YES OverSubscribe=FORCE:4 State=UP
"""


@unittest.skipUnless(
    all(map(find, ("slurmctld", "slurmd", "srun", "munged"))) and os.geteuid() == 0,
    "no Slurm, or not root",
)
class SrunTest(LauncherTest):
    """A Slurm of one machine, with daemons, keys and state in the test's own directory."""

    def setUp(self):
        super().setUp()
        self.daemons = []
        self.slurm = self.place / "slurm"
        for folder in ("state", "spool"):
            (self.slurm / folder).mkdir(parents=True)
        host = socket.gethostname().split(".")[0]
        self.configuration = self.slurm / "slurm.conf"
        self.configuration.write_text(
            SLURM_CONF.format(
                host=host,
                user=getpass.getuser(),
                place=self.slurm,
                controller_port=free_port(),
                node_port=free_port(),
                cpus=os.cpu_count(),
            )
        )
        (self.slurm / "cgroup.conf").write_text("CgroupPlugin=autodetect\n")
        key = self.slurm / "munge.key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o400)
        self.daemon(
            "munged", "-F", "--force", f"--key-file={key}",
            f"--socket={self.slurm}/munge.socket", f"--pid-file={self.slurm}/munged.pid",
            f"--log-file={self.slurm}/munged.log", f"--seed-file={self.slurm}/munge.seed",
        )  # fmt: skip
        self.wait_until((self.slurm / "munge.socket").exists, what="munged")
        self.daemon("slurmctld", "-D", "-f", self.configuration)
        self.daemon("slurmd", "-D", "-f", self.configuration, "-N", host)
        self.wait_until(self.node_is_idle, what=f"an idle node\n{self.logs()}")

    def daemon(self, program, *arguments):
        self.daemons.append(
            subprocess.Popen(
                [find(program), *map(str, arguments)],
                env=self.environment(SLURM_CONF=str(self.configuration), PATH=SBIN),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
        )

    def tearDown(self):
        """The daemons carry the mark too: end them before looking for what is left."""
        for process in reversed(self.daemons):
            process.terminate()
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        super().tearDown()

    def logs(self):
        return "\n".join(
            f"{log.name}: {log.read_text()[-500:]}" for log in self.slurm.glob("*.log")
        )

    def node_is_idle(self):
        look = subprocess.run(
            [find("sinfo"), "-h", "-o", "%t"],
            env=self.environment(SLURM_CONF=str(self.configuration)),
            capture_output=True,
            text=True,
        )
        return look.stdout.strip() == "idle"

    def srun(self, *more, tasks=2):
        flags = (find("srun"), "-n", str(tasks), "--overcommit", "--mpi=none")
        return self.call(
            *self.arguments(QUICK, *more),
            command=(*flags, PROGRAM),
            env={"SLURM_CONF": str(self.configuration), "MASTER_PORT": str(free_port())},
        )

    def test_tasks_per_rank_and_per_node(self):
        self.assert_ran(self.srun(), "srun", "1x2", 2)
        shutil.rmtree(self.place / "run")
        outcome = self.srun("--ranks-per-node", "2", tasks=1)
        self.assert_ran(outcome, "srun", "1x2", 2)


if __name__ == "__main__":
    unittest.main(verbosity=2)
