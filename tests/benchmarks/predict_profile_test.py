"""A profile that was recorded on a GPU of paper, and the job of its model on two of them.

What torch's own allocator reserves in the job is the oracle.

Covers: allocations.py, recorded_blocks.py, job_prediction.cpp.
"""

import json
import unittest

from predict_job_test import JobFitTest
from program import ROOT
from watch_test import TORCH_PYTHON

RECORD = ROOT / "models/record_profile.py"
SEGMENT = 20 << 20  # of torch's allocator, which blocks of 1 to 10 MiB share
MODEL = """import torch
from torch import nn
class Block(nn.Module):
    def __init__(self, width=512):
        super().__init__()
        self.norm, self.dropout = nn.LayerNorm(width), nn.Dropout(0.1)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
    def forward(self, x):
        return x + self.dropout(self.down(nn.functional.gelu(self.up(self.norm(x)))))
def build():
    model = nn.Sequential(*(Block() for _ in range(4)), nn.Linear(512, 10))
    return model, torch.randn(512, 512), lambda model, batch: model(batch).square().mean()
"""
# Without the workspaces of cuBLAS, which no profile has. Micro-batches are as long as a GPU's, as
# NCCL's watchdog keeps a bucket for 100 ms after its use.
JOB = """import os
os.environ |= {"CUBLAS_WORKSPACE_CONFIG": ":0:0", "CUBLASLT_WORKSPACE_SIZE": "0"}
import sys, time, torch, torch.distributed as dist
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel
from model import build
wrapper, strategy, accumulation_steps = sys.argv[1], sys.argv[2], int(sys.argv[3])
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("nccl")
model, batch, loss_of = build()
if wrapper == "ddp":
    model = DistributedDataParallel(model.cuda())
    synchronize = lambda syncs: setattr(model, "require_backward_grad_sync", syncs)
else:
    for block in model[:-1]:
        fully_shard(block)
    synchronize = fully_shard(model).set_requires_gradient_sync
batch = batch.cuda()
optimizer = torch.optim.AdamW(model.parameters(), fused=True)
for step in range(4):
    for i in range(accumulation_steps):
        synchronize(strategy == "baseline" or i == accumulation_steps - 1)
        (loss_of(model, batch) / accumulation_steps).backward()
        time.sleep(0.25)
    optimizer.step()
    optimizer.zero_grad()
"""


class PredictProfileTest(JobFitTest):
    def record(self):
        (self.place / "model.py").write_text(MODEL)
        profile = self.place / "profile.json"
        options = ("--device", "cuda", "--untimed", "--units", "Block", "--out", profile)
        command = (TORCH_PYTHON, RECORD, self.place / "model.py:build", *options)
        outcome = self.call("watch", "--on", "h100", "--", *command)
        self.assertEqual(outcome.status, 0, outcome.err)
        return profile

    def test_reserved_is_what_torch_reserves(self):
        profile = self.record()
        memory = json.loads(profile.read_text())["memory"]
        self.assertEqual(memory["recorded_on"], "cuda")
        self.assertLess(profile.stat().st_size, 40_000)
        for wrapper, strategy, count in (("ddp", "no_sync", 2), ("fsdp", "no_sync", 2)):
            with self.subTest(wrapper=wrapper, strategy=strategy, count=count):
                options = ("--wrapper", wrapper, "--strategy", strategy, "--backend", "nccl")
                options += ("--accumulation-steps", count, "--world-size", 2, "--json")
                (row,) = self.told(self.call("predict", "memory", profile, *options))
                fit = self.told(self.predict(JOB, wrapper, strategy, count, options=("--json",)))
                self.compare(row, fit["ranks"][0])

    def compare(self, row, rank):
        for kind, within in (("reserved", SEGMENT), ("allocated", 1 << 20)):
            predicted = row[f"predicted_peak_{kind}_bytes"]
            peak = rank[f"peak_{kind}_bytes"]
            print(f"{kind}: predicted {predicted}, on paper {peak}, {predicted - peak:+}")
            self.assertLessEqual(abs(predicted - peak), within)


if __name__ == "__main__":
    unittest.main(verbosity=2)
