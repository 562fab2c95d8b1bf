"""A build that takes turns: `gradsync arm`, spoken to as a gate does: harness/arms/arm_protocol.h.

Covers: arm_command.cpp, arm_protocol.cpp, arm_wire.cpp.
"""

import json
import os
import select
import signal
import subprocess
import time
import unittest

from program import (
    PACED,
    QUICK,
    WATCHDOG_S,
    ProgramTest,
    needs_network_namespaces,
    with_cells,
)

TWO_ROWS = with_cells(QUICK, strategy=["baseline", "no_sync"])


class Arm:
    """A running `gradsync arm` and the two ends of the talk with it."""

    def __init__(self, test, plan, *arguments):
        self.test = test
        self.process = test.start("arm", test.plan_file(plan), *arguments, stdin=subprocess.PIPE)
        self.unread = b""

    def send(self, request):
        text = request if isinstance(request, str) else json.dumps(request)
        os.write(self.process.stdin.fileno(), text.encode() + b"\n")

    def answer(self):
        """The next line that is no sign of life; None at the end. Every line must be JSON."""
        until = time.monotonic() + WATCHDOG_S
        while True:
            line, found, rest = self.unread.partition(b"\n")
            if found:
                self.unread = rest
                message = json.loads(line)
                if message["event"] != "busy":
                    return message
                continue
            output = self.process.stdout.fileno()
            ready, _, _ = select.select([output], [], [], max(0, until - time.monotonic()))
            self.test.assertTrue(ready, "no answer in time")
            chunk = os.read(output, 1 << 16)
            if not chunk:
                return None
            self.unread += chunk

    def ask(self, request):
        self.send(request)
        return self.answer()

    def open(self, launch=0):
        answer = self.ask({"open": launch})
        self.test.assertEqual(answer, {"event": "opened", "launch": launch})

    def start_turn(self, cell=0, warmup_steps=1, steps=3):
        self.send({"turn": {"cell": cell, "warmup_steps": warmup_steps, "steps": steps}})

    def turn(self, **what):
        self.start_turn(**what)
        answer = self.answer()
        self.test.assertEqual(answer["event"], "trial", answer)
        return answer["trial"]

    def close_input(self):
        self.process.stdin.close()
        self.process.stdin = None

    def close_output(self):
        self.process.stdout.close()
        self.process.stdout = None

    def end(self):
        """The exit status after the end of its input."""
        self.close_input()
        return self.process.wait(timeout=WATCHDOG_S)


def counts_of(trial):
    """What of a trial is exact: everything but times."""
    return {
        "ledger": trial["ledger"],
        "bytes": [rank["peak_allocated_bytes"] for rank in trial["ranks"]],
        "categories": [rank["peak_by_category"] for rank in trial["ranks"]],
        "events": [
            [(e["op"], e["bytes"], e["micro_batch"], e["bucket"]) for e in rank["timeline_events"]]
            for rank in trial["ranks"]
        ],
        "gradient_bytes": trial["model_info"]["gradient_bytes"],
        "predicted": trial["predicted_peak_allocated_bytes"],
    }


class ArmTest(ProgramTest):
    def setUp(self):
        super().setUp()
        self.arms = []

    def tearDown(self):
        for arm in self.arms:
            if arm.process.poll() is None:
                self.assertEqual(arm.end(), 0)
        super().tearDown()

    def arm(self, plan=TWO_ROWS, *arguments):
        """An arm that has said hello, which is left in `hello`."""
        arm = Arm(self, plan, *arguments)
        self.arms.append(arm)
        arm.hello = arm.answer()
        return arm

    def all_ranks(self):
        """The ranks of every arm."""
        found = []
        for pid in self.marked_processes():
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                if file.read().split(b"\0")[1:2] == [b"rank"]:
                    found.append(pid)
        return found


class Hello(ArmTest):
    def test_it_names_its_build_and_what_can_be_opened(self):
        hello = self.arm().hello
        self.assertEqual((hello["schema"], hello["event"]), ("gradsync.arm/1", "hello"))
        names = (
            "gradsync",
            "commit",
            "build_type",
            "sanitize",
            "timing_valid",
            "compiler",
            "torch",
        )
        self.assertEqual(set(hello["build"]), set(names))
        (launch,) = hello["launches"]
        self.assertEqual((launch["part"], launch["topology"], launch["scale"]), ("", "1x2", 1))
        strategies = [cell["strategy"] for cell in launch["cells"]]
        self.assertEqual(strategies, ["baseline", "no_sync"])

    def test_cells_that_cannot_share_ranks_are_launches_of_their_own(self):
        cells = TWO_ROWS["cells"] | {"topology": ["1x2", "1x3"]}
        parts = [{"name": "first"}, {"name": "second", "cells": {"topology": ["1x2"]}}]
        hello = self.arm(TWO_ROWS | {"cells": cells, "parts": parts}).hello
        self.assertEqual(
            [(launch["part"], launch["topology"]) for launch in hello["launches"]],
            [("first", "1x2"), ("first", "1x3"), ("second", "1x2")],
        )
        self.assertEqual([len(launch["cells"]) for launch in hello["launches"]], [2, 2, 2])

    def test_it_takes_the_plans_options(self):
        hello = self.arm(TWO_ROWS, "--strategy", "no_sync", "--set", "accumulation_steps=3").hello
        (cell,) = hello["launches"][0]["cells"]
        self.assertEqual((cell["strategy"], cell["accumulation_steps"]), ("no_sync", 3))

    def test_people_are_not_shown_it(self):
        self.assertNotIn("arm", self.call("--help").out.split())


class Turns(ArmTest):
    def test_two_builds_take_turns_and_count_as_a_run_does(self):
        self.assertEqual(self.run_plan(TWO_ROWS).status, 0)
        alone = {trial["cell"]["strategy"]: counts_of(trial) for trial in self.trials()}
        arms = [self.arm(), self.arm()]
        for arm in arms:
            arm.open()
        ranks = sorted(self.all_ranks())
        self.assertEqual(len(ranks), 4)
        for turn in range(3):
            for cell, strategy in enumerate(("baseline", "no_sync")):
                for arm in arms:
                    trial = arm.turn(cell=cell, steps=2 + turn)
                    self.assertEqual(trial["status"], "ok", trial["reason"])
                    self.assertEqual(trial["cell"]["strategy"], strategy)
                    self.assertEqual(counts_of(trial), alone[strategy])
                    place = (trial["launch"], trial["round"], trial["order"])
                    self.assertEqual(place, (0, turn, 2 * turn + cell))
                    lengths = (len(trial["warmup_step_s"]), len(trial["step_s"]))
                    self.assertEqual(lengths, (1, 2 + turn))
        self.assertEqual(sorted(self.all_ranks()), ranks, "the ranks stayed")
        self.assertEqual([arm.end() for arm in arms], [0, 0])

    def test_opened_again_all_is_fresh(self):
        arm = self.arm()
        arm.open()
        first = self.all_ranks()
        arm.turn()
        arm.open()
        trial = arm.turn()
        self.assertEqual((trial["launch"], trial["round"], trial["order"]), (1, 0, 0))
        self.assertEqual(set(first) & set(self.all_ranks()), set())

    def test_closed_no_rank_is_left(self):
        arm = self.arm()
        arm.open()
        self.assertEqual(arm.ask({"close": True}), {"event": "closed"})
        self.assertEqual(self.all_ranks(), [])
        self.assertEqual(arm.end(), 0)

    def test_idle_ranks_wait_without_computing(self):
        arm = self.arm()
        arm.open()
        arm.turn()
        idle_s = 2.0
        ranks = self.all_ranks()
        before = [processor_time_s(pid) for pid in ranks]
        time.sleep(idle_s)
        spent = [processor_time_s(pid) - was for pid, was in zip(ranks, before, strict=True)]
        self.assertLess(max(spent), idle_s / 4, "one that spins would take all of it")

    @needs_network_namespaces
    def test_on_links_of_their_own(self):
        plan = with_cells(TWO_ROWS, topology=["2x1_1gbit"])
        arms = [self.arm(plan), self.arm(plan)]
        for arm in arms:
            arm.open()
        for arm in arms:
            trial = arm.turn()
            self.assertEqual(trial["status"], "ok", trial["reason"])
            self.assertEqual({rank["node"] for rank in trial["ranks"]}, {0, 1})
        self.assertEqual([arm.end() for arm in arms], [0, 0])


def processor_time_s(pid):
    """What all threads of a process have used."""
    with open(f"/proc/{pid}/stat") as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class ExtraWork(ArmTest):
    def test_every_step_of_every_turn_does_as_much_more(self):
        arm = self.arm(TWO_ROWS, "--extra-work", "10%")
        arm.open()
        for cell in (0, 1):
            done = 0
            per_step = set()
            for steps in (3, 5, 2):
                work = arm.turn(cell=cell, steps=steps)["model_info"]["extra_work"]
                self.assertEqual(work["share"], 0.1)
                per_step.add(work["operations_per_step"])
                done += (1 + steps) * work["operations_per_step"]
                self.assertEqual(work["operations"], done)
            self.assertEqual(len(per_step), 1)

    def test_a_larger_share_is_more_work_and_no_more_memory(self):
        operations = []
        counts = []
        for share in ("0%", "10%", "2000%"):
            arm = self.arm(TWO_ROWS, "--extra-work", share)
            arm.open()
            trial = arm.turn()
            self.assertEqual(trial["status"], "ok", trial["reason"])
            counts.append(counts_of(trial))
            operations.append(trial["model_info"].get("extra_work", {}).get("operations_per_step"))
            self.assertEqual(arm.end(), 0)
        self.assertIsNone(operations[0])
        self.assertLess(operations[1], operations[2], "200 times the share")
        self.assertEqual(counts[1], counts[0])
        self.assertEqual(counts[2], counts[0])

    def test_a_share_needs_its_sign(self):
        outcome = self.call("arm", self.plan_file(TWO_ROWS), "--extra-work", "3")
        self.assert_refused(outcome, "--extra-work", "got '3'", '"3%"')


class Failures(ArmTest):
    def kill_a_rank(self, rank=1, activity="forward"):
        def caught():
            process = self.rank_processes().get(rank)
            return process and process.look()[1] == activity and process

        self.wait_until(caught, what=f"rank {rank} in {activity}").signal(signal.SIGKILL)

    def test_a_rank_killed_in_a_turn_ends_the_turn_and_not_the_arm(self):
        arm = self.arm(PACED)
        arm.open()
        self.assertEqual(arm.turn(steps=1)["status"], "ok")
        arm.start_turn(steps=20)
        self.kill_a_rank()
        trial = arm.answer()["trial"]
        self.assertEqual((trial["status"], trial["order"]), ("failed", 1))
        self.assertTrue(trial["reason"].startswith("[rank 1/2 node0] killed by signal 9"), trial)
        self.assertEqual(self.rank_processes(), {})
        refused = arm.ask({"turn": {"cell": 0, "warmup_steps": 1, "steps": 1}})
        self.assertEqual((refused["event"], refused["status"]), ("failed", "config"))
        self.assertIn("open first", refused["reason"])
        arm.open()
        self.assertEqual(arm.turn(cell=1, steps=1)["status"], "ok")
        self.assertEqual(arm.end(), 0)

    def test_a_rank_killed_between_turns_is_noticed_by_the_next(self):
        arm = self.arm()
        arm.open()
        arm.turn()
        self.rank_processes()[0].signal(signal.SIGKILL)
        trial = arm.turn()
        self.assertEqual(trial["status"], "failed")
        self.assertIn("killed by signal 9", trial["reason"])
        arm.open()
        self.assertEqual(arm.turn()["status"], "ok")

    def test_a_budget_that_is_too_small_is_a_result(self):
        plan = with_cells(QUICK, memory_budget_bytes=[1, "1GB"])
        arm = self.arm(plan)
        arm.open()
        self.assertEqual(arm.turn(cell=1)["status"], "ok")
        trial = arm.turn(cell=0)
        self.assertEqual(trial["status"], "oom")
        arm.open()
        self.assertEqual(arm.turn(cell=1)["status"], "ok")

    def test_requests_that_make_no_sense_are_answered(self):
        arm = self.arm()
        for request, text in (
            ("open sesame", "JSON"),
            ([1], "object"),
            ({"dance": True}, "open, turn or close"),
            ({"open": 1}, "less than 1"),
            ({"open": "0"}, "'open'"),
        ):
            answer = arm.ask(request)
            self.assertEqual((answer["event"], answer["status"]), ("failed", "config"), request)
            self.assertIn(text, answer["reason"])
        for turn, text in (
            ({"cell": 2, "warmup_steps": 1, "steps": 1}, "turn.cell"),
            ({"cell": 0, "warmup_steps": 1}, "turn.steps"),
        ):
            arm.open()
            answer = arm.ask({"turn": turn})
            self.assertEqual((answer["event"], answer["status"]), ("failed", "config"), turn)
            self.assertIn(text, answer["reason"])
        arm.open()
        self.assertEqual(arm.turn()["status"], "ok")

    def test_plans_without_turns_are_refused(self):
        plan = self.plan_file(QUICK | {"window_rule": "as_published", "warmup_steps": 0})
        self.assert_refused(self.call("arm", plan), "window_rule", "honest")


class Ends(ArmTest):
    def test_at_the_end_of_its_input(self):
        arm = self.arm()
        arm.open()
        self.assertEqual(arm.end(), 0)
        self.assert_nothing_left()

    def test_what_was_asked_before_the_end_of_the_input_is_answered(self):
        arm = self.arm()
        arm.send({"open": 0})
        arm.start_turn()
        arm.close_input()
        self.assertEqual(arm.answer()["event"], "opened")
        self.assertEqual(arm.answer()["trial"]["status"], "ok")
        self.assertIsNone(arm.answer())
        self.assertEqual(arm.process.wait(timeout=WATCHDOG_S), 0)

    def test_in_a_turn_when_the_gate_is_gone(self):
        arm = self.arm(PACED)
        arm.open()
        arm.start_turn(steps=10_000)  # for hours
        self.wait_until(
            lambda: self.rank_processes()[0].look()[1] == "forward", what="the turn's first step"
        )
        arm.close_input()
        arm.close_output()
        self.assertEqual(arm.process.wait(timeout=WATCHDOG_S), 0)
        self.assert_nothing_left()

    def signalled(self, number, *, in_turn):
        arm = self.arm(PACED)
        arm.open()
        if in_turn:
            arm.start_turn(steps=10_000)
        arm.process.send_signal(number)
        self.assertIsNone(arm.answer())
        self.assertEqual(arm.process.wait(timeout=WATCHDOG_S), 130)
        self.assert_nothing_left()

    def test_terminated_in_a_turn(self):
        self.signalled(signal.SIGTERM, in_turn=True)

    def test_interrupted_while_idle(self):
        self.signalled(signal.SIGINT, in_turn=False)

    @needs_network_namespaces
    def test_killed_with_namespaces(self):
        arm = self.arm(with_cells(PACED, topology=["t4_2x1"]))
        arm.open()
        for rank in self.rank_processes().values():
            rank.signal(signal.SIGSTOP)  # a running rank would notice the end by itself
        arm.process.kill()
        arm.process.wait(timeout=WATCHDOG_S)
        self.assert_nothing_left()


if __name__ == "__main__":
    unittest.main(verbosity=2)
