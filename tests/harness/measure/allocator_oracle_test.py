"""The model of torch's caching allocator against the allocator itself, on a GPU of paper: random
streams of allocations must reserve the same in both, to the byte, out of memory included.

Usage: allocator_oracle_test.py PRINT_MODEL_PEAKS [unittest arguments]
GRADSYNC_STREAMS=N: how many streams (300).
"""

import os
import random
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))
from program import CACHE, PROGRAM

STREAMS = int(os.environ.get("GRADSYNC_STREAMS", "300"))
GPU_BYTES = 1 << 30
DEADLINE_S = 600

# What torch says of the streams in a file, in the same words.
JOB = """import sys, torch
torch.cuda.init()
cuda, out = torch.cuda, open(sys.argv[2], "w")
for line in open(sys.argv[1]):
    held, refused = [], 0
    for number in map(int, line.split()):
        if number < 0:
            block, held[-number - 1] = held[-number - 1], None
            if block is not None:
                cuda.caching_allocator_delete(block)
            continue
        try:
            held.append(cuda.caching_allocator_alloc(number))
        except torch.OutOfMemoryError:
            held.append(None)
            refused += 1
    peaks = cuda.max_memory_allocated(), cuda.max_memory_reserved(), cuda.memory_reserved()
    print(*peaks, refused, file=out)
    for block in held:
        if block is not None:
            cuda.caching_allocator_delete(block)
    cuda.empty_cache()
    cuda.reset_peak_memory_stats()
"""


def random_stream(chance):
    """Sizes about the allocator's limits, of a kind that differs from stream to stream; what is
    held grows and shrinks.
    """
    limits = [512, 1 << 20, 2 << 20, 10 << 20, 20 << 20, 100 << 20]
    usual = chance.choices(limits, k=3)
    numbers, held, allocations = [], [], 0
    for _ in range(chance.randrange(5, 300)):
        if held and chance.random() < chance.choice((0.2, 0.5, 0.8)):
            numbers.append(-held.pop(chance.randrange(len(held))))
            continue
        limit = chance.choice(usual)
        size = chance.choice((limit, limit + chance.randrange(-511, 513), chance.randrange(limit)))
        numbers.append(max(1, size))
        allocations += 1
        held.append(allocations)
    return " ".join(map(str, numbers))


class AllocatorOracleTest(unittest.TestCase):
    def test_the_model_reserves_what_torch_reserves(self):
        chance = random.Random(1)
        streams = [random_stream(chance) for _ in range(STREAMS)]
        with tempfile.TemporaryDirectory() as place:
            job, file, said = (Path(place) / name for name in ("job.py", "streams", "said"))
            job.write_text(JOB)
            file.write_text("\n".join(streams) + "\n")
            python = os.environ.get("GRADSYNC_TEST_PYTHON", sys.executable)
            subprocess.run(
                [PROGRAM, "watch", "--on", "1GiB", "--", python, job, file, said],
                timeout=DEADLINE_S,
                capture_output=True,
                check=False,
                env=os.environ | {"XDG_CACHE_HOME": str(CACHE)},
            )
            torch = said.read_text().splitlines()
            model = subprocess.run(
                [PRINT_MODEL_PEAKS, str(GPU_BYTES)],
                input=file.read_text(),
                timeout=DEADLINE_S,
                capture_output=True,
                text=True,
                check=True,
            ).stdout.splitlines()
        self.assertEqual(len(torch), STREAMS)
        different = [i for i in range(STREAMS) if torch[i] != model[i]]
        first = [(streams[i], torch[i], model[i]) for i in different[:1]]
        self.assertEqual(different, [], f"stream, torch, model: {first}")
        out = sum(line.split()[-1] != "0" for line in torch)
        self.assertTrue(STREAMS // 20 < out < STREAMS, f"{out} streams ran out of memory")


if __name__ == "__main__":
    PRINT_MODEL_PEAKS = sys.argv.pop(1)
    unittest.main()
