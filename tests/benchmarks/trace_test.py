"""The trace of a run, held against the rules of the Trace Event Format and against its trials.

What a viewer does with a file that breaks them is to drop events: slices that overlap, arrows that
end nowhere. None of these rules is checked by parsing the file.
"""

import json
import unittest
from collections import defaultdict

from program import QUICK, ProgramTest, with_cells

COMPUTE = 1
BOTH = with_cells(
    QUICK,
    model=["bert_tiny"],
    wrapper=["ddp", "fsdp"],
    strategy=["no_sync"],
    micro_batch_size=[2],
    sequence_length=[16],
    bucket_cap_bytes=[65536],  # several buckets
)
# What each kind of event has; times are microseconds.
FIELDS = {
    "M": {"args"},
    "X": {"ts", "dur", "args"},
    "C": {"ts", "args"},
    "s": {"ts", "cat", "id"},
    "f": {"ts", "cat", "id", "bp"},
}


def nanoseconds(event):
    return round(event["ts"] * 1000)


def end_ns(event):
    return nanoseconds(event) + round(event["dur"] * 1000)


class TraceTest(ProgramTest):
    recorded = None  # the events and the trials of one run, for all tests

    def setUp(self):
        super().setUp()
        if TraceTest.recorded is None:
            outcome = self.run_plan(BOTH)
            self.assertEqual(outcome.status, 0, outcome.err)
            text = self.call("report", self.place / "run", "--format", "trace").out
            TraceTest.recorded = json.loads(text)["traceEvents"], self.trials()
        self.events, self.run_trials = TraceTest.recorded

    def of_kind(self, kind):
        return [event for event in self.events if event["ph"] == kind]

    def names(self, kind):
        """The names of processes or threads, each named once."""
        named = [event for event in self.of_kind("M") if event["name"] == kind]
        places = {(event["pid"], event["tid"]): event["args"]["name"] for event in named}
        self.assertEqual(len(places), len(named))
        return places

    def slices_by_thread(self):
        threads = defaultdict(list)
        for event in self.of_kind("X"):
            threads[event["pid"], event["tid"]].append(event)
        return threads

    def slice_around(self, event):
        """The outermost one of its thread at its time."""
        found = [
            slice_
            for slice_ in self.slices_by_thread()[event["pid"], event["tid"]]
            if nanoseconds(slice_) <= nanoseconds(event) < end_ns(slice_)
        ]
        self.assertNotEqual(found, [], f"an arrow at {event} touches no slice")
        return max(found, key=lambda slice_: slice_["dur"])

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

    def test_every_event_has_what_its_kind_needs(self):
        for event in self.events:
            self.assertLessEqual({"ph", "name", "pid", "tid"} | FIELDS[event["ph"]], event.keys())
            self.assertIsInstance(event["pid"], int)
            self.assertIsInstance(event["tid"], int)
            if event["ph"] != "M":
                self.assertGreaterEqual(event["ts"], 0)
            self.assertGreaterEqual(event.get("dur", 0), 0)

    def test_a_process_is_a_rank_and_its_threads_have_names(self):
        processes = self.names("process_name")
        self.assertEqual(len(processes), len(self.ranks_recorded()))
        for rank in (0, 1):
            self.assertEqual(sum(name.endswith(f"rank {rank}") for name in processes.values()), 2)
        threads = self.names("thread_name")
        self.assertEqual(set(self.slices_by_thread()), set(threads), "named, and not empty")
        for (_, thread), name in threads.items():
            if thread == COMPUTE:
                self.assertEqual(name, "compute")
            else:
                self.assertRegex(name, r"^communication( \d+)?$")

    def test_slices_of_a_thread_nest_or_follow_each_other(self):
        for slices in self.slices_by_thread().values():
            around = []  # those that are open, the outermost first
            for slice_ in sorted(slices, key=lambda one: (nanoseconds(one), -end_ns(one))):
                while around and around[-1] <= nanoseconds(slice_):
                    around.pop()
                if around:
                    self.assertLessEqual(end_ns(slice_), around[-1], slice_)
                around.append(end_ns(slice_))

    def test_an_arrow_leads_from_compute_to_the_collective_it_launched(self):
        arrows = defaultdict(list)
        for event in self.of_kind("s") + self.of_kind("f"):
            arrows[event["id"]].append(event)
        recorded = [event for rank in self.ranks_recorded() for event in rank["timeline_events"]]
        self.assertEqual(len(arrows), len(recorded))
        self.assertGreater(len(arrows), 0)
        for begin, *ends in arrows.values():
            (end,) = ends
            self.assertEqual((begin["ph"], end["ph"], end["bp"]), ("s", "f", "e"))
            for field in ("name", "cat", "pid"):
                self.assertEqual(begin[field], end[field])
            self.assertEqual(begin["tid"], COMPUTE)
            self.assertNotEqual(end["tid"], COMPUTE)
            collective = self.slice_around(end)
            self.assertEqual(collective["name"], begin["name"])
            self.assertEqual(nanoseconds(collective), nanoseconds(begin))
            self.assertEqual(nanoseconds(end), end_ns(collective) - 1)
            self.assertEqual(self.slice_around(begin)["name"], "step")

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
