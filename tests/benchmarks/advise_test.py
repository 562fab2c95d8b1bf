"""`gradsync advise`: its first choice is the best of all, and what it says of each.

Covers: advise_command.cpp.
"""

import json
import unittest

from predict_test import recorded
from program import ProgramTest

BLOCKS = 6
LINE = {"rate": "2Gbps"}


def profile(forward_s=0.01):
    """A recorded model whose memory is known, with layers of a megabyte that take time."""
    layers = [
        {
            "name": f"blocks.{i}",
            "forward_s": forward_s,
            "backward_s": 2 * forward_s,
            "parameters": [{"name": f"blocks.{i}.weight", "shape": [512, 512]}],
        }
        for i in range(BLOCKS)
    ]
    return recorded(BLOCKS) | {"layers": layers, "optimizer_s": 0.001, "buffers": []}


class AdviseTest(ProgramTest):
    def setUp(self):
        super().setUp()
        self.profile = self.written("model.json", profile())

    def written(self, name, content):
        file = self.place / name
        file.write_text(json.dumps(content))
        return str(file)

    def topology(self, name, **fields):
        content = {"schema": "gradsync.topology/1", "inter_node": LINE, **fields}
        return self.written(f"{name}.json", content)

    def printed(self, *arguments):
        outcome = self.call(*arguments, "--json")
        self.assertEqual(outcome.status, 0, outcome.err)
        return json.loads(outcome.out)

    def two(self):
        return self.topology("two", nodes=2, ranks_per_node=1)

    def advised(self, *arguments):
        return self.printed("advise", *arguments)

    def test_the_first_is_the_best_of_an_exhaustive_list(self):
        of = (self.profile, "--topology", self.two(), "--strategy", "baseline,no_sync")
        of = ("predict", "step", *of, "--accumulation-steps", "4")
        ddp = self.printed(
            *of,
            *("--set", "compression=none,bf16"),
            *("--set", "bucket_cap_bytes=0,1MiB,5MiB,10MiB,50MiB,100MiB,250MiB,1000MiB"),
        )
        fsdp = self.printed(
            *(*of, "--wrapper", "fsdp", "--set", "reduce_dtype=float32,bfloat16"),
            *("--set", "reshard_after_forward=true,false"),
            *("--set", "reshard_after_backward=true,false"),
        )
        best_s = min(row["step_s"] for row in ddp + fsdp)
        rows = self.advised(self.profile, "--topology", self.two(), "--global-batch", "8")
        self.assertAlmostEqual(rows[0]["step_s"], best_s, 9)
        times = [row["step_s"] for row in rows]
        self.assertEqual(times, sorted(times))
        for row in rows:
            low, high = row["interval90_s"]
            self.assertTrue(low <= row["step_s"] <= high)

    def test_no_row_makes_another_needless(self):
        rows = self.advised(self.profile, "--topology", self.two(), "--global-batch", "8")
        for a in rows:
            for b in rows:
                peaks = [row["predicted_peak_allocated_bytes"] for row in (a, b)]
                if a is b or (peaks[0] is None) != (peaks[1] is None):
                    continue
                faster = a["step_s"] < 0.999 * b["step_s"]
                smaller = peaks[0] is not None and peaks[0] < peaks[1]
                fewer = len(a["changes"]) < len(b["changes"])
                as_good = a["step_s"] <= b["step_s"] and peaks[0] == peaks[1] and fewer
                self.assertFalse(as_good or (faster and smaller and fewer), (a, b))

    def test_a_budget_leaves_out_what_holds_more(self):
        of = (self.profile, "--topology", self.two(), "--global-batch", "8", "--most", "1000")
        peaks = {row["predicted_peak_allocated_bytes"] for row in self.advised(*of)} - {None}
        self.assertGreater(len(peaks), 1)
        budget = sorted(peaks)[0]
        rows = self.advised(*of, "--budget", f"{budget}B")
        self.assertEqual({row["predicted_peak_allocated_bytes"] for row in rows}, {budget})
        self.assertIn("compression", json.dumps(self.advised(*of)))

    def test_micro_batches_share_the_global_batch(self):
        large = self.written("large.json", profile(forward_s=0.015))
        rows = self.advised(
            *(f"{self.profile}=1", f"{large}=2", "--topology", self.two(), "--most", "1000"),
            *("--global-batch", "8"),
        )
        seen = {(row["micro_batch_samples"], row["cell"]["accumulation_steps"]) for row in rows}
        self.assertLessEqual(seen, {(1, 4), (2, 2)})
        self.assertEqual(rows[0]["micro_batch_samples"], 2)

    def test_the_table_says_what_to_change(self):
        outcome = self.call(
            *("advise", self.profile, "--topology", self.two(), "--global-batch", "8")
        )
        self.assertEqual(outcome.status, 0, outcome.err)
        words = " ".join(outcome.out.split())
        for text in ("| what to change", "no_sync() around forward and backward", "ways were"):
            self.assertIn(text, words)

    def test_refusals(self):
        on = ("--topology", self.two(), "--global-batch", "8")
        for arguments, words in (
            ((self.profile, "--topology", self.two(), "--global-batch", "7"), ["a multiple of 2"]),
            ((f"{self.profile}=none", *on), ["PROFILE=SAMPLES"]),
            (("bert_mini", *on), ["record_profile.py"]),
            ((self.profile, *on, "--budget", "1KiB"), ["none of", "is known to fit"]),
            ((self.profile, *on, "--budget", "much"), ["--budget", "much"]),
            ((self.profile, "--topology", "1x2", "--global-batch", "8"), ["no rate"]),
        ):
            self.assert_refused(self.call("advise", *arguments), *words)


if __name__ == "__main__":
    unittest.main(verbosity=2)
