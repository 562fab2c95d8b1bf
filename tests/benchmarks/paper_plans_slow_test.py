"""Every shipped plan on GPUs of paper and over gloo on the CPU: the same counts, bytes and order of
collectives on every rank, part by part, with fewer steps and smaller batches. What paper refuses is
one of REFUSED. Printed is what came of each part.
"""

import json
import unittest

from paper_run_test import PaperPlanTest, has_module
from program import ROOT, can_unshare, private_flags

PLANS = ROOT / "benchmarks" / "plans"
BRIEF = {"steps": 1, "warmup_steps": 2, "launches": 1, "rounds": 1, "timeout_s": 300}
BRIEF |= {"every_micro_batch": True}  # else the CPU passes over those that repeat, and paper none
# Fields of a plan or a part that set its length; they change no step.
LENGTHS = {*BRIEF, "total_steps", "distance_steps"}
# How much is computed, which no collective depends on. The convnet's batches are of its classes.
SMALLER = {"micro_batch_size": [1], "sequence_length": [8]}
BUDGET = "memory_budget_bytes"  # left out: a GPU's is of what its allocator reserves
REFUSED = {
    "gate": 'got "yields", expected "spins" where backend is not "gloo"',
    "mixtral_8x7b": 'got "fake", expected "nccl" where device is "paper"',
}


def shortened(plan):
    kept = {name: value for name, value in plan.items() if name not in LENGTHS}
    cells = {name: value for name, value in plan.get("cells", {}).items() if name != BUDGET}
    if cells.get("model") != ["convnet"]:
        cells = cells | {name: value for name, value in SMALLER.items() if name in cells}
    return kept | {"cells": cells}


def parts_of(name):
    """Returns a plan for each part of a shipped one, by the part's name."""
    plan = shortened(json.loads((PLANS / f"{name}.json").read_text())) | BRIEF
    parts = plan.pop("parts", [])
    if not parts:
        return {"": plan}
    return {part["name"]: plan | {"parts": [shortened(part)]} for part in parts}


@unittest.skipUnless(has_module(), "this build has no CUDA module")
@unittest.skipUnless(can_unshare(*private_flags(), "-n"), "network namespaces are forbidden here")
class ShippedPlansTest(PaperPlanTest):
    def check(self, name):
        for part, plan in parts_of(name).items():
            with self.subTest(name, part=part):
                came = "differs"
                try:
                    came = self.came_of(f"{name}_{part}", plan)
                finally:
                    print(f"{name:20} {part:18} {came}", flush=True)

    def came_of(self, place, plan):
        why = REFUSED.get(plan["name"])
        if why is None:
            return f"{len(self.assert_same_collectives(plan, out=place))} cells equal"
        self.assert_refused(self.run_plan(plan, "--device", "paper"), why)
        return f"refused: {why}"


for file in sorted(PLANS.glob("*.json")):
    if not file.name.endswith(".schema.json"):
        setattr(
            ShippedPlansTest, f"test_{file.stem}", lambda self, name=file.stem: self.check(name)
        )


if __name__ == "__main__":
    unittest.main(verbosity=2)
