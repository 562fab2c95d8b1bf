"""The trace of a run, held against the rules of the Trace Event Format and against its trials."""

import json
import unittest
from collections import defaultdict

from program import QUICK, ProgramTest, with_cells
from trace_rules import TraceRules

BOTH = with_cells(
    QUICK,
    model=["bert_tiny"],
    wrapper=["ddp", "fsdp"],
    strategy=["no_sync"],
    micro_batch_size=[2],
    sequence_length=[16],
    bucket_cap_bytes=[65536],  # several buckets
)


class TraceTest(TraceRules, ProgramTest):
    recorded = None  # the events and the trials of one run, for all tests

    def setUp(self):
        super().setUp()
        if TraceTest.recorded is None:
            outcome = self.run_plan(BOTH)
            self.assertEqual(outcome.status, 0, outcome.err)
            text = self.call("report", self.place / "run", "--format", "trace").out
            TraceTest.recorded = json.loads(text)["traceEvents"], self.trials()
        self.events, self.run_trials = TraceTest.recorded

    def ranks_recorded(self):
        return [rank for trial in self.run_trials for rank in trial["ranks"]]

    def process_of(self, trial, rank):
        steps = [event for event in self.of_kind("X") if event["name"] == "step"]
        names = self.names("process_name")
        (process,) = [
            step["pid"]
            for step in steps
            if step["args"]["cell"] == trial["cell"]
            and names[step["pid"], 0].endswith(f" rank {rank}")
        ]
        return process

    def collectives_recorded(self):
        return sum(len(rank["timeline_events"]) for rank in self.ranks_recorded())

    def test_a_process_is_a_rank(self):
        processes = self.names("process_name")
        self.assertEqual(len(processes), len(self.ranks_recorded()))
        for rank in (0, 1):
            self.assertEqual(sum(name.endswith(f"rank {rank}") for name in processes.values()), 2)

    def test_buckets_are_those_of_the_trials(self):
        for trial in self.run_trials:
            wanted = [
                (f"all_reduce bucket {event['bucket']}", event["bytes"])
                for event in trial["ranks"][0]["timeline_events"]
                if event["bucket"] >= 0
            ]
            self.assertEqual(len(wanted) > 1, trial["cell"]["wrapper"] == "ddp")
            process = self.process_of(trial, 0)
            drawn = [
                (event["name"], event["args"]["bytes"])
                for event in self.of_kind("X")
                if event["pid"] == process and " bucket " in event["name"]
            ]
            self.assertEqual(drawn, wanted)

    def test_memory_is_a_counter_where_it_was_recorded(self):
        counters = defaultdict(list)
        for event in self.of_kind("C"):
            counters[event["pid"]].append(event)
        first_ranks = {self.process_of(trial, 0): trial["ranks"][0] for trial in self.run_trials}
        self.assertEqual(set(counters), set(first_ranks))
        for process, drawn in counters.items():
            times = [event["ts"] for event in drawn]
            self.assertEqual(times, sorted(times))
            self.assertEqual(len({frozenset(event["args"]) for event in drawn}), 1)
            held = [sum(event["args"].values()) for event in drawn]
            points = first_ranks[process]["memory_timeline"]
            self.assertEqual(held, [sum(point["bytes"].values()) for point in points])


if __name__ == "__main__":
    unittest.main(verbosity=2)
