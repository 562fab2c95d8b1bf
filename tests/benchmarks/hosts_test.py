"""The program on two and three hosts that are hosts (hosts.py), started by what starts jobs there:
torchrun with either rendezvous, srun with a slurmd on each, mpirun, and a PyTorchJob's environment.

    hosts_test.py [TwoHostsTest] [ThreeHostsTest] ...
"""

import os
import shutil
import signal
import sys
import time
import unittest

from hosts import SWITCH_ADDRESS, Hosts
from launching import TORCH_PYTHON, LauncherTest, find, has_slurm, has_torchrun
from program import PROGRAM, QUICK, free_port, with_cells
from slurm import Node, Slurm

# Long enough to be cut off in the middle of; a lost host shows before the deadline.
TO_CUT = with_cells(QUICK, model=["bert_mini"]) | {"steps": 4, "timeout_s": 15}
FOUR_WAYS = with_cells(QUICK, strategy=["baseline", "no_sync_improper", "no_sync", "accumulate"])
TORCHRUN = (TORCH_PYTHON, "-m", "torch.distributed.run", "--no-python", "--nproc-per-node=1")


class HostsTest(LauncherTest):
    """Hosts whose own names are loopbacks to themselves."""

    COUNT = 2

    def setUp(self):
        super().setUp()
        self.hosts = Hosts(self.COUNT, self.place)
        self.addCleanup(self.hosts.end)
        self.port = free_port()
        self.slurm = None

    def tearDown(self):
        if self.slurm:
            self.slurm.end()
        self.hosts.end()
        super().tearDown()

    def start_on(self, number, *command, plan=QUICK, more=(), **env):
        """Starts the program on a host, by a command that is given its command line."""
        enter = self.hosts.command(number, *command, PROGRAM)
        env = {"TMPDIR": str(self.place)} | env
        return self.start(*self.arguments(plan, *more), env=env, command=enter)

    def finish_all(self, processes):
        """Returns the outcome of the first; the others are to end well and without a word."""
        first, *others = processes
        outcome = self.finish(first)
        for process in others:
            ended = self.finish(process)
            said = f"leader: {outcome.err}\nother: {ended.err}"
            self.assertEqual((ended.status, ended.out), (outcome.status, ""), said)
        return outcome

    def assert_ran_here(self, outcome, launcher):
        self.assert_ran(outcome, launcher, f"{self.COUNT}x1", self.COUNT)
        clocks = self.result()["context"]["clocks"]
        self.assertEqual([clock["host"] for clock in clocks], self.hosts.names)

    def start_task(self, task, plan=QUICK, more=(), **env):
        place = {"RANK": str(task), "WORLD_SIZE": str(self.COUNT)}
        leader = {"MASTER_ADDR": self.hosts.names[0], "MASTER_PORT": str(self.port)}
        return self.start_on(task, plan=plan, more=more, **(place | leader | env))

    def start_tasks(self, plan=QUICK, more=(), **env):
        return [self.start_task(task, plan, more, **env) for task in range(self.COUNT)]


class Together:
    """What holds on any number of hosts."""

    def test_a_pytorchjobs_environment(self):
        pods = {"PET_NNODES": str(self.COUNT), "PET_NPROC_PER_NODE": "1"}
        self.assert_ran_here(self.finish_all(self.start_tasks(**pods)), "PyTorchJob")


class Launched:
    """By launchers, on any number of hosts."""

    @unittest.skipUnless(has_torchrun(), "this Python has no torch.distributed.run")
    def test_torchrun_by_static_rendezvous(self):
        leader = (f"--master-addr={self.hosts.names[0]}", f"--master-port={self.port}")
        nodes = f"--nnodes={self.COUNT}"
        agents = [
            self.start_on(number, *TORCHRUN, nodes, f"--node-rank={number}", *leader)
            for number in range(self.COUNT)
        ]
        self.assert_ran_here(self.finish_all(agents), "torchrun")

    @unittest.skipUnless(has_torchrun(), "this Python has no torch.distributed.run")
    def test_torchrun_by_c10d_rendezvous(self):
        meeting = f"--rdzv-endpoint={self.hosts.names[0]}:{self.port}"
        rendezvous = ("--rdzv-backend=c10d", meeting, "--rdzv-id=7")
        agents = [
            self.start_on(number, *TORCHRUN, f"--nnodes={self.COUNT}", *rendezvous)
            for number in range(self.COUNT)
        ]
        outcomes = [self.finish(agent) for agent in agents]
        # Which of them torchrun numbers 0 is its own affair.
        [leading] = [outcome for outcome in outcomes if outcome.out]
        self.assert_ran(leading, "torchrun", f"{self.COUNT}x1", self.COUNT)
        self.assertEqual([outcome.status for outcome in outcomes], [0] * self.COUNT)
        clocks = self.result()["context"]["clocks"]
        self.assertEqual(sorted(clock["host"] for clock in clocks), self.hosts.names)

    @unittest.skipUnless(has_slurm(), "no Slurm, or not root")
    def test_srun_with_a_slurmd_on_each(self):
        nodes = [
            Node(name, self.hosts.address(i), self.hosts.command(i), cpus=1)
            for i, name in enumerate(self.hosts.names)
        ]
        self.slurm = Slurm(self.place / "slurm", nodes, self.environment)
        self.wait_until(self.slurm.is_idle, what=f"idle nodes\n{self.slurm.logs()}")
        for how in ((), ("--ranks-per-node", "1")):
            with self.subTest(how=how):
                shutil.rmtree(self.place / "run", ignore_errors=True)
                srun = (find("srun"), "-N", str(self.COUNT), "-n", str(self.COUNT), "--mpi=none")
                variables = self.slurm.variables | {"MASTER_PORT": str(free_port())}
                outcome = self.finish(self.start_on(0, *srun, more=how, **variables))
                self.assert_ran_here(outcome, "srun")

    @unittest.skipUnless(find("mpirun"), "no mpirun")
    def test_mpirun(self):
        # In the place of ssh: AGENT HOST COMMAND...
        agent = self.place / "enter"
        cases = "".join(
            f'{name}) exec {" ".join(map(str, self.hosts.command(i)))} sh -c "$*" ;;\n'
            for i, name in enumerate(self.hosts.names)
        )
        agent.write_text(f'#!/bin/sh\nhost=$1\nshift\ncase "$host" in\n{cases}esac\n')
        agent.chmod(0o755)
        mpirun = (
            "mpirun", "--allow-run-as-root", "--host", ",".join(self.hosts.names),
            "-n", str(self.COUNT), "--map-by", "node", "--mca", "plm_rsh_agent", str(agent),
            "--mca", "oob_tcp_if_include", f"{SWITCH_ADDRESS}/24",
            "-x", "MASTER_ADDR", "-x", "MASTER_PORT",
            "-x", "GRADSYNC_PYTHON", "-x", "GRADSYNC_TEST_MARK",
        )  # fmt: skip
        outcome = self.call(
            *self.arguments(QUICK),
            command=(*self.hosts.at_switch(*mpirun), PROGRAM),
            env={
                "MASTER_ADDR": self.hosts.names[0],
                "MASTER_PORT": str(self.port),
                "TMPDIR": str(self.place),
            },
        )
        self.assert_ran_here(outcome, "mpirun")


class CutOff:
    """A host whose cable is taken out in the middle of a step."""

    # What a rank does then, if the others wait for it.
    MOMENTS = ("forward", "backward", "wait")

    def cut_in(self, moment, lost):
        processes = self.start_tasks(TO_CUT)
        rank, _ = self.hold(lost, lambda activity, _: activity == moment, step=2)
        self.hosts.link(lost, "down")
        begin = time.monotonic()
        rank.signal(signal.SIGCONT)
        outcomes = [self.finish(process) for process in processes]
        print(f"cut in {moment}: ended {time.monotonic() - begin:.1f} s later", file=sys.stderr)
        self.assertEqual(outcomes[0].status, 5, outcomes[0].err)
        self.assertIn(f"task {lost} on {self.hosts.names[lost]}", outcomes[0].err)
        for other in range(1, self.COUNT):
            if other != lost:
                self.assertNotIn(f"task {other} on", outcomes[0].err)
        self.assertNotEqual(outcomes[lost].status, 0)
        self.hosts.link(lost, "up")

    def check(self, moment):
        self.cut_in(moment, lost=self.COUNT - 1)
        outcome = self.finish_all(self.start_tasks(TO_CUT, ("--resume",)))
        self.assertEqual(outcome.status, 0, outcome.err)
        self.assertEqual([trial["status"] for trial in self.trials()[-1:]], ["ok"])


@unittest.skipUnless(os.geteuid() == 0, "a host needs mounts of its own")
class TwoHostsTest(HostsTest, Together, Launched):
    def test_an_interface_is_chosen(self):
        follower = self.start_task(1, GLOO_SOCKET_IFNAME="eth0")
        leader = self.start_task(0, more=("--interface", "eth0"))
        self.assert_ran_here(self.finish_all([leader, follower]), "environment")

    def test_an_interface_that_is_not_there(self):
        outcome = self.finish(self.start_task(0, more=("--interface", "eth9")))
        self.assert_refused(outcome, "--interface: got 'eth9'", "lo, eth0")

    def test_the_four_ways_have_times_where_each_host_has_a_core(self):
        outcome = self.finish_all(self.start_tasks(FOUR_WAYS))
        self.assert_ran_here(outcome, "environment")
        for cell in self.result()["cells"]:
            alone = os.cpu_count() >= self.COUNT
            waited = "waited" in cell["null_reasons"].get("step_s", "")
            self.assertTrue(waited or (cell["step_s"] is not None) == alone, cell["null_reasons"])


@unittest.skipUnless(os.geteuid() == 0, "a host needs mounts of its own")
class ThreeHostsTest(HostsTest, Together):
    COUNT = 3

    def test_times_are_refused_where_hosts_share_a_core(self):
        outcome = self.finish_all(self.start_tasks(FOUR_WAYS))
        self.assert_ran_here(outcome, "environment")
        for cell in self.result()["cells"]:
            self.assertIsNone(cell["step_s"])
            self.assertEqual(
                cell["null_reasons"]["step_s"], "3 compute threads share 2 cores", outcome.out
            )


@unittest.skipUnless(os.geteuid() == 0, "a host needs mounts of its own")
class SlowThreeHostsTest(HostsTest, Launched):
    COUNT = 3


@unittest.skipUnless(os.geteuid() == 0, "a host needs mounts of its own")
class CutOffTest(HostsTest, CutOff):
    def test_in_the_backward(self):
        self.check("backward")


@unittest.skipUnless(os.geteuid() == 0, "a host needs mounts of its own")
class SlowCutOffTest(HostsTest, CutOff):
    """Twenty times each, on two hosts."""

    def test_again_and_again(self):
        for moment in self.MOMENTS:
            for repetition in range(20):
                with self.subTest(moment=moment, repetition=repetition):
                    shutil.rmtree(self.place / "run", ignore_errors=True)
                    self.check(moment)


@unittest.skipUnless(os.geteuid() == 0, "a host needs mounts of its own")
class SlowCutOffOfThreeTest(SlowCutOffTest):
    COUNT = 3


if __name__ == "__main__":
    unittest.main(verbosity=2)
