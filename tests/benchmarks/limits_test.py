"""The program in a container's limits: control groups that the test makes, and removes again.

Covers: context.cpp, runnable_launches.cpp.
"""

import contextlib
import os
import time
import unittest
from pathlib import Path

from program import PROGRAM, QUICK, ProgramTest, with_cells

PERIOD_US = 100_000
HALF_A_CORE = 0.5
GIB = 1 << 30


def own_group(controller):
    """This process's control group in the tree that has `controller`: its folder and version."""
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, group = line.split(":", 2)
        if controller in controllers.split(","):
            return mounted("cgroup", controller, group), 1
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, group = line.split(":", 2)
        if controllers == "":
            return mounted("cgroup2", "rw", group), 2
    return None, 0


def mounted(kind, option, group):
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        before, _, after = line.partition(" - ")
        root, folder = before.split()[3:5]
        if after.split()[0] == kind and option in after.split()[2].split(","):
            below = group.removeprefix("" if root == "/" else root)
            return Path(folder + below)
    return None


@contextlib.contextmanager
def group_with(controller, **limits):
    """Yields the file that takes processes into a new group with these limits, or None."""
    folder, _ = own_group(controller)
    made = folder / f"gradsync_test_{os.getpid()}" if folder else None
    try:
        if made:
            made.mkdir()
            for name, value in limits.items():
                (made / name.replace("__", ".")).write_text(str(value))
    except OSError:
        remove(made)
        made = None
    try:
        yield made / "cgroup.procs" if made else None
    finally:
        remove(made)


def remove(folder):
    """The kernel keeps a group for a moment after its last process."""
    for _ in range(500):
        if folder is None or not folder.exists():
            return
        try:
            folder.rmdir()
        except OSError:
            time.sleep(0.02)


def half_a_core():
    quota = int(HALF_A_CORE * PERIOD_US)
    if own_group("cpu")[1] == 1:
        return group_with("cpu", cpu__cfs_quota_us=quota, cpu__cfs_period_us=PERIOD_US)
    return group_with("cpu", cpu__max=f"{quota} {PERIOD_US}")


def memory_of(limit_bytes):
    if own_group("memory")[1] == 1:
        return group_with("memory", memory__limit_in_bytes=limit_bytes)
    return group_with("memory", memory__max=limit_bytes)


class LimitsTest(ProgramTest):
    def call_in(self, group, *arguments):
        """Starts the program in a control group: a shell that joins it first becomes it."""
        if group is None:
            self.skipTest("this user may make no control groups here")
        join = ("sh", "-c", 'echo $$ > "$0" && exec "$@"', str(group), PROGRAM)
        return self.call(*arguments, command=join)

    def test_under_a_quota_times_are_refused_and_counts_kept(self):
        with half_a_core() as group:
            outcome = self.call_in(group, "run", self.plan_file(QUICK), "--out", self.place / "run")
            self.assertEqual(outcome.status, 0, outcome.err)
            [cell] = self.result()["cells"]
            self.assertEqual(cell["status"], "ok")
            self.assertIsNone(cell["step_s"])
            self.assertIn("a CPU quota of 0.5 cores", cell["null_reasons"]["step_s"])
            self.assertGreater(cell["collectives_per_step"]["all_reduce"]["count"], 0)
            self.assertIn("a CPU quota of 0.5 cores", outcome.out)
            self.assertEqual(self.result()["context"]["cpu_quota"], HALF_A_CORE)

    def test_ranks_that_a_quota_holds_know_for_how_long(self):
        with half_a_core() as group:
            # Longer than a period of the quota, which three steps need not be.
            steps = ("--steps", "40")
            self.call_in(group, "run", self.plan_file(QUICK), *steps, "--out", self.place / "run")
            held = [rank["throttled_s"] for rank in self.trials()[0]["ranks"]]
            self.assertGreater(max(held), 0)

    def test_what_does_not_fit_is_skipped_before_it_starts(self):
        with memory_of(GIB) as group:
            plan = self.plan_file(with_cells(QUICK, model=["mlp", "bert_base"]))
            outcome = self.call_in(group, "run", plan, "--out", self.place / "run")
            self.assertEqual(outcome.status, 0, outcome.err)
            statuses = {trial["cell"]["model"]: trial["status"] for trial in self.trials()}
            self.assertEqual(statuses, {"mlp": "ok", "bert_base": "skipped"})
            [skipped] = [trial for trial in self.trials() if trial["status"] == "skipped"]
            self.assertRegex(skipped["reason"], r"a rank would hold some .* are available to each")

    def test_workloads_that_fit_one_by_one_take_turns(self):
        """Beside each other they would hold 2.6 GiB, one at a time 1."""
        caps = ["1MB", "2MB", "5MB", "10MB", "25MB", "50MB"]
        small = {"micro_batch_size": [1], "sequence_length": [16]}
        plan = with_cells(QUICK, model=["bert_mini"], bucket_cap_bytes=caps, **small)
        with memory_of(16 * GIB // 10) as group:
            outcome = self.call_in(group, "run", self.plan_file(plan), "--out", self.place / "run")
            self.assertEqual(outcome.status, 0, outcome.err)
            self.assertEqual([trial["status"] for trial in self.trials()], ["ok"] * 6)

    def test_a_neighbour_on_the_same_cores_is_noticed(self):
        for _ in range(2 * os.cpu_count()):
            self.start("-c", "while :; do :; done", command=("sh",))
        steps = ("--steps", "40")
        outcome = self.run_plan(QUICK, *steps, env={"GRADSYNC_BUSY_TIMES": ""})
        self.assertEqual(outcome.status, 0, outcome.err)
        [cell] = self.result()["cells"]
        self.assertIsNone(cell["step_s"])
        self.assertRegex(cell["null_reasons"]["step_s"], r"rank \d waited \d+ % of its time")
        self.assertGreater(cell["collectives_per_step"]["all_reduce"]["count"], 0)
        self.assertEqual(self.run_plan(QUICK, out="kept").status, 0)
        self.assertIsNotNone(self.result("kept")["cells"][0]["step_s"])
        self.end_all()

    def test_the_doctor_sees_them(self):
        with half_a_core() as group:
            outcome = self.call_in(group, "doctor")
            self.assertIn("a quota of 0.5 cores", outcome.out)
        with memory_of(3 * GIB) as group:
            outcome = self.call_in(group, "doctor")
            self.assertIn("of a limit of 3.00 GiB", outcome.out)


if __name__ == "__main__":
    unittest.main(verbosity=2)
