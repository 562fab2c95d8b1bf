"""The rules of the Trace Event Format, for tests of traces.

What a viewer does with a file that breaks them is to drop events: slices that overlap, arrows that
end nowhere. None of these rules is checked by parsing the file.
"""

from collections import defaultdict

COMPUTE = 1
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


class TraceRules:
    """Tests of `self.events`, beside a unittest.TestCase."""

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

    def test_every_event_has_what_its_kind_needs(self):
        for event in self.events:
            self.assertLessEqual({"ph", "name", "pid", "tid"} | FIELDS[event["ph"]], event.keys())
            self.assertIsInstance(event["pid"], int)
            self.assertIsInstance(event["tid"], int)
            if event["ph"] != "M":
                self.assertGreaterEqual(event["ts"], 0)
            self.assertGreaterEqual(event.get("dur", 0), 0)

    def test_threads_have_names(self):
        threads = self.names("thread_name")
        self.assertEqual(set(self.slices_by_thread()), set(threads), "named, and not empty")
        for (_, thread), name in threads.items():
            if thread == COMPUTE:
                self.assertEqual(name, "compute")
            else:
                self.assertRegex(name, r"^(compute \d+|communication( \d+)?)$")

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
        self.assertEqual(len(arrows), self.collectives_recorded())
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
            self.assertRegex(self.slice_around(begin)["name"], r"^step( \d+)?$")
