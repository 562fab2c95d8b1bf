"""The program under the launchers that users have: the real torchrun, Open MPI and Slurm.

A Kubernetes PyTorchJob is played by its environment: two pods on this host. Whatever starts it, the
run must be the same: one table, one set of results, the right ranks, and a plan that goes on after
a rank has died.

Covers: outside_launcher.cpp, harness/comm/store.cpp.
"""

import os
import shutil
import signal
import socket
import unittest

from launching import TORCH_PYTHON, LauncherTest, find, has_slurm, has_torchrun
from program import PACED, PROGRAM, QUICK, free_port
from slurm import Node, Slurm


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


@unittest.skipUnless(
    has_slurm(),
    "no Slurm, or not root",
)
class SrunTest(LauncherTest):
    """A Slurm of one machine."""

    def setUp(self):
        super().setUp()
        host = socket.gethostname().split(".")[0]
        self.slurm = Slurm(self.place / "slurm", [Node(host, "127.0.0.1")], self.environment)
        self.addCleanup(self.slurm.end)
        self.wait_until(self.slurm.is_idle, what=f"an idle node\n{self.slurm.logs()}")

    def tearDown(self):
        """The daemons carry the mark too: end them before looking for what is left."""
        self.slurm.end()
        super().tearDown()

    def srun(self, *more, tasks=2):
        flags = (find("srun"), "-n", str(tasks), "--overcommit", "--mpi=none")
        return self.call(
            *self.arguments(QUICK, *more),
            command=(*flags, PROGRAM),
            env=self.slurm.variables | {"MASTER_PORT": str(free_port())},
        )

    def test_tasks_per_rank_and_per_node(self):
        self.assert_ran(self.srun(), "srun", "1x2", 2)
        shutil.rmtree(self.place / "run")
        outcome = self.srun("--ranks-per-node", "2", tasks=1)
        self.assert_ran(outcome, "srun", "1x2", 2)


if __name__ == "__main__":
    unittest.main(verbosity=2)
