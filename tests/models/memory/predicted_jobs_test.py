"""The peak that a recorded profile predicts, beside what the job's own allocator counted.

Small models of transformers are recorded, then trained on two gloo ranks under DDP and fully_shard;
every CPU tensor of the job is counted. Fast: two models; SixModelsTest: six, every accumulation.

Covers: models/profiles/memory_recorder.py, models/profiles/allocations.py,
models/profiles/recorded_memory.py, ddp_job.cpp, fully_shard_job.cpp, shard_group.cpp,
job_prediction.cpp.
"""

import contextlib
import io
import json
import math
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

ROOT = Path(__file__).resolve().parents[3]
sys.path[:0] = [
    str(ROOT / place)
    for place in ("models", "models/profiles", "harness/python", "tests/models/memory")
]

try:
    import torch
    import transformers  # noqa: F401
except (ImportError, OSError) as error:
    print(f"skipped: torch and transformers cannot be imported ({error})")
    sys.exit(77)

import record_profile  # noqa: E402
import recorder  # noqa: E402
import small_transformers  # noqa: E402
import training_jobs  # noqa: E402
from gradsync.testing import runs  # noqa: E402

PROGRAM = os.environ.get("GRADSYNC_PROGRAM", str(ROOT / "build/release/gradsync"))
SIX = ("gpt2", "llama", "qwen2", "mixtral", "t5", "vit")
WITHIN = 0.01
COUNTS = 2  # of each job; the least is compared, see training_jobs.gloo_lets_go()
TIMEOUT_S = 900


def record(folder, model, *options):
    """Returns the path of the model's profile, however busy the machine is."""
    path = Path(folder) / f"{model}.json"
    place = f"{Path(small_transformers.__file__)}:{model}"
    arguments = [place, "--units", small_transformers.BLOCKS[model], "--out", str(path)]
    arguments += ["--steps", "1", "--warmup", "1"]
    said = io.StringIO()
    with (
        mock.patch.object(recorder, "HOOKS_RATIO", (0, math.inf)),
        contextlib.redirect_stderr(said),
    ):
        status = record_profile.main([*arguments, *options])
    if status != 0:
        raise AssertionError(said.getvalue())
    return path


def predict(profile, *options):
    command = [PROGRAM, "predict", "memory", str(profile), "--topology", "1x2", "--json", *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    if done.returncode != 0:
        raise AssertionError(done.stderr)
    return json.loads(done.stdout)


def cells_of(model, wrappers, strategies, accumulations):
    return [
        {"model": model, "wrapper": w, "strategy": s, "accumulation_steps": n}
        for w in wrappers
        for s in strategies
        for n in accumulations
    ]


def least_counts(cells):
    """Returns the peak of each job on rank 0, which holds most."""
    repeated = [cell for cell in cells for _ in range(COUNTS)]
    runs.prepare_watcher()
    counted = runs.run_function(training_jobs.peaks, [repeated], {}, 2, TIMEOUT_S)[0]
    return [min(counted[i : i + COUNTS]) for i in range(0, len(counted), COUNTS)]


class JobsCase(unittest.TestCase):
    def setUp(self):
        self.folder = self.enterContext(tempfile.TemporaryDirectory())

    def rows(self, profile, cells, *options):
        """Returns what is predicted of each cell."""
        rows = []
        for cell in cells:
            (row,) = predict(
                profile,
                *("--wrapper", cell["wrapper"], "--strategy", cell["strategy"]),
                *("--accumulation-steps", str(cell["accumulation_steps"])),
                *options,
            )
            rows.append(row)
        return rows

    def assert_near(self, cells, rows, counts, within=WITHIN):
        """All errors are said, not the first alone."""
        errors = {}
        for cell, row, count in zip(cells, rows, counts, strict=True):
            peak = row["predicted_peak_allocated_bytes"]
            words = " ".join(str(value) for value in cell.values())
            print(f"{words}: counted {count}, predicted {peak}, {(peak - count) / count:+.5%}")
            if abs(peak - count) > within * count:
                errors[words] = {"counted": count, "predicted": row["predicted_peak_by_category"]}
        self.assertEqual(errors, {})

    def assert_fake_tensors_say_the_same(self, model, within):
        """Memory inside of kernels is not seen, nor allocations that fake tensors do not need."""
        real = predict(record(self.folder, model), "--wrapper", "ddp")
        fake = predict(record(self.folder, model, "--fake"), "--wrapper", "ddp")
        peaks = [row[0]["predicted_peak_allocated_bytes"] for row in (real, fake)]
        self.assertLess(abs(peaks[1] - peaks[0]), within * peaks[0])

    def assert_predicted(self, accumulations, *models):
        """Runs the jobs of all models in the same ranks, since starting ranks takes longer."""
        cells, rows = [], []
        for model in models:
            of_model = cells_of(model, ("ddp", "fsdp"), ("no_sync", "baseline"), accumulations)
            rows += self.rows(record(self.folder, model), of_model)
            cells += of_model
        self.assert_near(cells, rows, least_counts(cells))


class JobsTest(JobsCase):
    def test_activations_outweigh_weights_and_weights_activations(self):
        self.assert_predicted((2,), "vit", "gpt2_of_few_tokens")

    def test_fake_tensors_say_the_same_of_a_model_that_asks_them_nothing(self):
        self.assert_fake_tensors_say_the_same("vit", 1e-5)


class SixModelsTest(JobsCase):
    def test_each_wrapper_strategy_and_accumulation(self):
        for model in (*SIX, "gpt2_of_few_tokens"):
            with self.subTest(model):
                self.assert_predicted((1, 2, 4, 8), model)

    def test_fake_tensors_say_the_same(self):
        for model, within in (("gpt2", 1e-5), ("vit", 1e-5), ("llama", 0.03)):
            with self.subTest(model):
                self.assert_fake_tensors_say_the_same(model, within)

    def test_activation_checkpointing(self):
        self.assert_predicted((1, 2), "llama_checkpointed")

    def test_mixed_precision(self):
        """Kernels of half the bytes, and gradients that are widened to be kept."""
        for model in ("llama", "vit"):
            profile = record(self.folder, model, "--dtype", "bfloat16")
            for reduced in ("float32", "bfloat16"):
                with self.subTest(model=model, reduced=reduced):
                    cells = cells_of(model, ("fsdp",), ("no_sync", "baseline"), (1, 2))
                    setting = ["--set", "param_dtype=bfloat16", "--set", f"reduce_dtype={reduced}"]
                    rows = self.rows(profile, cells, *setting)
                    dtypes = {"dtypes": ("bfloat16", reduced)}
                    self.assert_near(cells, rows, least_counts([cell | dtypes for cell in cells]))

    def test_options_of_the_wrappers(self):
        for model in ("llama_of_few_tokens", "vit"):
            profile = record(self.folder, model)
            for wrapper, option, value, axis in (
                ("ddp", "bucket_view", True, "gradient_as_bucket_view=true"),
                ("fsdp", "reshard", False, "reshard_after_forward=false"),
            ):
                with self.subTest(model=model, axis=axis):
                    cells = cells_of(model, (wrapper,), ("no_sync",), (1, 2))
                    rows = self.rows(profile, cells, "--set", axis)
                    counted = least_counts([cell | {option: value} for cell in cells])
                    self.assert_near(cells, rows, counted)


if __name__ == "__main__":
    torch.set_num_threads(1)
    unittest.main()
