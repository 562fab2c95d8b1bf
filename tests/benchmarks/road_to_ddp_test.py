"""The road to DDP as a user runs it: what each way sends, and whether replicas stay alike."""

import unittest

from program import QUICK, ROOT, ProgramTest, with_cells

REPLICAS = with_cells(QUICK, topology=["1x2"], strategy=["baseline"], accumulation_steps=[2]) | {
    "distance_steps": 3
}
PARAMETERS = 6  # of the mlp: three weights, three biases


class RoadToDdpTest(ProgramTest):
    def cells(self, plan):
        outcome = self.run_plan(plan)
        self.assertEqual(outcome.status, 0, outcome.err)
        return outcome, {cell["cell"]["wrapper"]: cell for cell in self.result()["cells"]}

    def test_replicas_stay_alike_where_gradients_are_averaged_and_only_there(self):
        wrappers = ["local", "by_hand", "by_hand_coalesced", "ddp"]
        outcome, cells = self.cells(with_cells(REPLICAS, wrapper=wrappers))
        for wrapper in wrappers[1:]:
            distance = cells[wrapper]["parameter_distance"]
            self.assertEqual(distance, {"last": 0, "after_step": [0, 0, 0]}, wrapper)
        drift = cells["local"]["parameter_distance"]["after_step"]
        self.assertEqual(len(drift), 3)
        self.assertGreater(drift[0], 0)
        self.assertEqual(drift, sorted(drift), "a little more with every step")
        self.assertIn("distance", outcome.out)
        self.assertIn("idle", outcome.out)
        for trial in self.trials():
            ranks = trial["ranks"]
            self.assertEqual(ranks[0]["parameter_distance"], [0, 0, 0], "rank 0 is the measure")

    def test_each_way_sends_what_it_is_named_for(self):
        plan = with_cells(
            QUICK,
            wrapper=["by_hand", "by_hand_coalesced"],
            strategy=["baseline", "no_sync"],
            accumulation_steps=[4],
        )
        outcome = self.run_plan(plan)
        self.assertEqual(outcome.status, 0, outcome.err)
        seen = {
            (cell["cell"]["wrapper"], cell["cell"]["strategy"]): cell["collectives_per_step"]
            for cell in self.result()["cells"]
        }
        counts = {key: value["all_reduce"]["count"] for key, value in seen.items()}
        self.assertEqual(
            counts,
            {
                ("by_hand", "baseline"): 4 * PARAMETERS,
                ("by_hand", "no_sync"): PARAMETERS,
                ("by_hand_coalesced", "baseline"): 4,
                ("by_hand_coalesced", "no_sync"): 1,
            },
        )
        moved = {key: value["all_reduce"]["bytes"] for key, value in seen.items()}
        self.assertEqual(moved["by_hand", "no_sync"], moved["by_hand_coalesced", "no_sync"])
        for wrapper in ("by_hand", "by_hand_coalesced"):
            self.assertEqual(moved[wrapper, "baseline"], 4 * moved[wrapper, "no_sync"])

    def test_stages_send_activations_and_their_gradients(self):
        plan = with_cells(
            QUICK,
            wrapper=["pipeline"],
            strategy=["baseline", "pipelined"],
            accumulation_steps=[3],
            micro_batch_size=[2],
        )
        outcome = self.run_plan(plan | {"distance_steps": 2})
        self.assertEqual(outcome.status, 0, outcome.err)
        activation = 2 * 512 * 4  # the mlp's first layer hands on 512 numbers an example
        for cell in self.result()["cells"]:
            one_way = {"count": 3, "bytes": 3 * activation}
            self.assertEqual(cell["collectives_per_step"], {"send": one_way, "recv": one_way})
            self.assertEqual(len(cell["idle_share"]["by_rank"]), 2)
            self.assertIsNone(cell["parameter_distance"], "stages hold no replicas")

    def test_a_mean_is_elapsed_time(self):
        """Ranks take turns in being slow, most where they wait for each other least: step by step
        the slowest add up to more than what passed."""
        plan = with_cells(QUICK, wrapper=["local", "pipeline"], accumulation_steps=[2])
        outcome = self.run_plan(plan | {"steps": 8, "launches": 3})
        self.assertEqual(outcome.status, 0, outcome.err)
        trials = self.trials()
        for cell in self.result()["cells"]:
            wrapper = cell["cell"]["wrapper"]
            of_cell = [trial for trial in trials if trial["cell"] == cell["cell"]]
            elapsed_s = [max(rank["block_s"] for rank in trial["ranks"]) for trial in of_cell]
            steps = len(of_cell) * 8
            self.assertAlmostEqual(cell["step_s"]["mean"] * steps, sum(elapsed_s), 9, wrapper)
            for trial in of_cell:
                longest_s = max(sum(rank["step_s"]) for rank in trial["ranks"])
                self.assertGreaterEqual(sum(trial["step_s"]), longest_s * (1 - 1e-9), wrapper)
                for rank in trial["ranks"]:
                    self.assertAlmostEqual(
                        rank["unaccounted_s"], rank["block_s"] - sum(rank["step_s"]), 9
                    )
            self.assertEqual(cell["interval"], "Student's t over 3 launches")
            parts_s = sum(cell["phase_s"].values()) + cell["unaccounted_s"]
            self.assertLessEqual(parts_s, cell["step_s"]["mean"] * (1 + 1e-9), wrapper)

    def test_the_plan_runs(self):
        """The suite's own plan, with small models in place of its own."""
        plan = ROOT / "benchmarks" / "plans" / "road_to_ddp.json"
        small = "launches=1 steps=1 warmup_steps=1 timeout_s=300 model=mlp scale=1 topology=1x2"
        changes = [*small.split(), "one_process.topology=1x1"]
        arguments = [word for change in changes for word in ("--set", change)]
        outcome = self.call("run", plan, "--out", self.place / "run", *arguments)
        self.assertEqual(outcome.status, 0, outcome.err)
        self.assertEqual({trial["status"] for trial in self.trials()}, {"ok"})


if __name__ == "__main__":
    unittest.main()
