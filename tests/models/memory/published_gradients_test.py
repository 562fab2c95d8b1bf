"""What others published of gradients that fully_shard retains, from a profile on fake tensors.

Only what is published goes in: how many parameters, in which dtypes, on how many ranks.
Covers: models/profiles/allocations.py (FakeTrace), fully_shard_job.cpp.
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

ROOT = Path(__file__).resolve().parents[3]
sys.path[:0] = [str(ROOT / place) for place in ("models", "models/profiles")]

try:
    import torch
except (ImportError, OSError) as error:
    print(f"skipped: torch cannot be imported ({error})")
    sys.exit(77)

import record_profile  # noqa: E402

PROGRAM = os.environ.get("GRADSYNC_PROGRAM", str(ROOT / "build/release/gradsync"))
PUBLISHED = json.loads((ROOT / "results/reference/retained_gradients.json").read_text())["rows"]
SMALL, LARGE = PUBLISHED
TIMEOUT_S = 60


class Block(torch.nn.Linear):
    """A unit: a square of weights."""


def equal_layers(width, layers):
    blocks = (Block(width, width, bias=False) for _ in range(layers))
    return torch.nn.Sequential(*blocks), torch.randn(1, width), loss_of


def loss_of(model, batch):
    return model(batch).float().sum()


def small():
    return equal_layers(256, 4)


def large():
    return equal_layers(16384, 97)


def record(folder, function):
    path = Path(folder) / f"{function.__name__}.json"
    arguments = [f"{__file__}:{function.__name__}", "--fake", "--dtype", "bfloat16"]
    said = io.StringIO()
    with contextlib.redirect_stderr(said):
        status = record_profile.main([*arguments, "--out", str(path)])
    if status != 0:
        raise AssertionError(said.getvalue())
    return path


def held(profile, setup, ranks):
    """By category, at the peak of two micro-batches of which the last is synchronized."""
    dtypes = [f"{field}={setup[field]}" for field in ("param_dtype", "reduce_dtype")]
    command = [PROGRAM, "predict", "memory", str(profile), "--json", "--units", "Block"]
    command += ["--wrapper", "fsdp", "--strategy", "no_sync", "--accumulation-steps", "2"]
    command += ["--world-size", str(ranks), "--set", *dtypes]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S)
    if done.returncode != 0:
        raise AssertionError(done.stderr)
    return json.loads(done.stdout)[0]["predicted_peak_by_category"]


class PublishedGradientsTest(unittest.TestCase):
    def profile_of(self, published, function):
        """A profile of a model with as many parameters as were published, within 1 %."""
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        path = record(folder.name, function)
        recorded = json.loads(path.read_text())["memory"]["parameters"]
        parameters = sum(math.prod(parameter["shape"]) for parameter in recorded)
        expected = published["setup"]["parameters"]
        self.assertAlmostEqual(parameters, expected, delta=0.01 * expected)
        return path

    def test_a_small_model_to_the_byte(self):
        profile = self.profile_of(SMALL, small)
        for row in SMALL["published"]:
            with self.subTest(ranks=row["ranks"]):
                found = held(profile, SMALL["setup"], row["ranks"])
                self.assertEqual(found["unsharded_gradient"], row["retained_gradient_bytes"])
                self.assertEqual(found["sharded_parameter"], row["sharded_parameter_bytes"])

    def test_26_billion_parameters_within_3_percent(self):
        """At the peak the last unit's gradient is reduced already: 1 % of them are gone."""
        profile = self.profile_of(LARGE, large)
        [row] = LARGE["published"]
        found = held(profile, LARGE["setup"], row["ranks"])["unsharded_gradient"]
        expected = row["retained_gradient_bytes"]
        self.assertAlmostEqual(found, expected, delta=0.03 * expected)


if __name__ == "__main__":
    unittest.main(verbosity=2)
