"""Training scripts in Python on GPUs of paper: what torch says and does there, and what watch says
of them.

Covers: cublas.cpp, cublaslt.cpp, cudart_registration.cpp, cudnn.cpp, cufft.cpp, nvml.cpp,
python_frames.cpp, python_line.cpp, refuse.cpp, unwritten.cpp, library_table.cpp, standins.cpp,
gradsync_watch_paper.py.
"""

import json
import unittest

from program import PROGRAM, free_port
from watch_test import TORCH_PYTHON, WatchTest

# torch counts by NVML, which lists all of the machine, what CUDA_VISIBLE_DEVICES leaves of it.
START = """import json, torch
buses = [torch.cuda.get_device_properties(i).pci_bus_id for i in range(torch.cuda.device_count())]
print(json.dumps([buses, torch.cuda.get_device_name(1)]))
"""
OUT_OF_MEMORY = """import torch
held = torch.empty(60 << 30, dtype=torch.uint8, device="cuda")
try:
    torch.empty(30 << 30, dtype=torch.uint8, device="cuda")
except torch.OutOfMemoryError as error:
    print(error)
"""
# What ordinary layers call of each library, forward and backward.
LAYERS = """import torch
from torch.nn import functional as F
x = torch.ones(2, 3, 16, 16, device="cuda", requires_grad=True)
y = torch.nn.BatchNorm2d(4).cuda()(torch.nn.Conv2d(3, 4, 3).cuda()(x))
torch.fft.fft(y).abs().sum().backward()
q = torch.ones(1, 2, 8, 16, device="cuda", dtype=torch.bfloat16, requires_grad=True)
F.scaled_dot_product_attention(q, q, q).sum().backward()
with torch.autocast("cuda", dtype=torch.bfloat16):
    torch.nn.Linear(16, 16).cuda()(q.detach()).sum().backward()
print(list(x.grad.shape), torch.cuda.max_memory_allocated() > 0)
"""
READS = """import torch
given = torch.tensor([3.0], device="cuda")
print("given", given.item())
loss = torch.nn.Linear(4, 1).cuda()(torch.ones(1, 4, device="cuda")).square().mean()
if loss.item() > 1:  # line 5
    print("never")
"""
REFUSED = """import torch
try:
    torch.linalg.eigh(torch.eye(3, device="cuda"))
except RuntimeError as error:
    print("failed")
"""
# Two ranks whose captured all-reduces run with each replay.
CAPTURED = r"""import os, torch, torch.distributed as dist
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("nccl")
sums = torch.tensor([dist.get_rank() + 1.0]).cuda()
dist.all_reduce(sums)
print(f"sum {sums.item()}\n", end="", flush=True)
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(64, 64).cuda())
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(4):
    for micro_batch in range(2):
        model(torch.ones(8, 64, device="cuda")).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    dist.all_reduce(sums)
for replay in range(3):
    graph.replay()
print(f"replayed {sums.item()}\n", end="", flush=True)
dist.destroy_process_group()
"""
# Each rank's objects have another size: no rank can guess what the others sent.
OBJECTS = r"""import os, torch, torch.distributed as dist
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("nccl")
rank = dist.get_rank()
gathered, scattered, received = [None, None], [None], [None, None]
dist.all_gather_object(gathered, "x" * (1 + 200 * rank))
sent = ["a" * 7, {"rank": rank}, "b" * 50] if rank == 0 else [None] * 3
dist.broadcast_object_list(sent)
on_first = [None, None] if rank == 0 else None
dist.gather_object("y" * (100 - 90 * rank), on_first)
dist.scatter_object_list(scattered, ["s", "t" * 99] if rank == 0 else None)
if rank == 0:
    dist.send_object_list(["p", "q" * 30], dst=1)
else:
    dist.recv_object_list(received, src=0)
lengths = [[len(text or "") for text in texts] for texts in
           (gathered, sent[::2], on_first or [], scattered, received)]
print(f"{rank}: {lengths} {sent[1]}\n", end="", flush=True)
dist.destroy_process_group()
"""


# A file of pytest's whose test starts its ranks by itself.
TEST_OF_RANKS = """import os, torch, torch.distributed as dist, torch.multiprocessing

def train(rank):
    os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "2"}
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl")
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(8, 8).cuda())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(4):
        for micro_batch in range(3):
            model(torch.ones(4, 8, device="cuda")).sum().backward()  # line 11
        optimizer.step()
        optimizer.zero_grad()
    dist.destroy_process_group()

def test_training():
    torch.multiprocessing.spawn(train, nprocs=2)
"""


class PaperJobTest(WatchTest):
    def script(self, text):
        file = self.place / "job.py"
        file.write_text(text)
        return file

    def run_job(self, text, *before, options=(), on="2xa100-80", env=None):
        job = (TORCH_PYTHON, *before, self.script(text))
        outcome = self.watch(*job, options=("--on", on, *options), env=env)
        self.assertEqual(outcome.status, 0, outcome.err)
        return outcome

    def test_the_gpus_are_those_that_were_asked_for(self):
        outcome = self.run_job(START, on="4xa100-80", env={"CUDA_VISIBLE_DEVICES": "3,1"})
        self.assertEqual(json.loads(outcome.out), [[4, 2], "NVIDIA A100-SXM4-80GB"])

    def test_doctor_speaks_of_the_gpus_that_the_ranks_use(self):
        for on, env, words in (
            ("4xh100", {"CUDA_VISIBLE_DEVICES": "3"}, ["GPU 3 (NVIDIA H100 80GB HBM3) is idle"]),
            ("h100", {"GRADSYNC_PAPER_MIG": "2"}, ["is divided into 2 MIG instances", "-mig 0"]),
        ):
            outcome = self.watch(PROGRAM, "doctor", options=("--on", on), env=env)
            for text in words:
                self.assertIn(text, outcome.out)
            self.assertNotIn("GPU 1", outcome.out)

    def test_out_of_memory_is_torchs_own(self):
        outcome = self.run_job(OUT_OF_MEMORY)
        self.assertIn("Tried to allocate 30.00 GiB. GPU 0 has a total capacity of", outcome.out)
        self.assertIn("79.15 GiB of which 19.15 GiB is free", outcome.out)

    def test_ordinary_layers_run(self):
        outcome = self.run_job(LAYERS)
        self.assertIn("[2, 3, 16, 16] True", outcome.out)
        self.assertNotIn("GPUs of paper have no", outcome.err)

    def test_a_read_of_what_nobody_computed_is_told_with_its_line(self):
        outcome = self.run_job(READS)
        self.assertIn("given 3.0", outcome.out)
        self.assertIn("job.py:5 reads what a GPU would have computed", outcome.err)
        self.assertNotIn("job.py:3", outcome.err)

    def test_what_is_not_stood_in_for_says_its_name(self):
        outcome = self.run_job(REFUSED)
        self.assertIn("failed", outcome.out)
        self.assertRegex(outcome.err, r"GPUs of paper have no cusolver\w+: it fails")

    def test_watch_judges_a_job_over_nccl(self):
        torchrun = ("-m", "torch.distributed.run", "--nproc-per-node=2")
        file = self.place / "seen.json"
        outcome = self.run_job(
            CAPTURED, *torchrun, f"--master-port={free_port()}", options=("--json", file)
        )
        self.assertEqual(outcome.out.count("sum 3.0"), 2)
        self.assertEqual(outcome.out.count("replayed 24.0"), 2)
        seen = json.loads(file.read_text())
        self.assertEqual(seen["world_size"], 2)
        self.assertEqual(seen["verdicts"][0]["kind"], "more_than_once")
        self.assertEqual(seen["per_step"]["synchronized"], 2)
        self.assertIsNone(seen["per_step"]["step_s"])
        for rank in seen["ranks"]:
            # One alone, eight of DDP, three replays of what was captured, which did not run then.
            self.assertEqual(rank["collectives"]["all_reduce"]["count"], 1 + 8 + 3)
        self.assertIn("GPUs of paper: nothing was computed or timed (2xa100-80)", outcome.err)

    def test_ranks_exchange_objects(self):
        torchrun = ("-m", "torch.distributed.run", "--nproc-per-node=2")
        outcome = self.run_job(OBJECTS, *torchrun, f"--master-port={free_port()}")
        self.assertIn("0: [[1, 201], [7, 50], [100, 10], [1], [0, 0]] {'rank': 0}", outcome.out)
        self.assertIn("1: [[1, 201], [7, 50], [], [99], [1, 30]] {'rank': 0}", outcome.out)

    def test_ranks_that_tests_of_pytest_start_have_the_gpus(self):
        tests = self.place / "test_ranks.py"
        tests.write_text(TEST_OF_RANKS)
        file = self.place / "seen.json"
        pytest = ("-m", "pytest", "-q", "-p", "no:cacheprovider", tests)
        place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
        options = ("--on", "2xh100", "--json", file)
        outcome = self.watch(TORCH_PYTHON, *pytest, options=options, env=place)
        self.assertEqual(outcome.status, 0, outcome.out + outcome.err)
        self.assertIn("1 passed", outcome.out)
        seen = json.loads(file.read_text())
        [verdict] = seen["verdicts"]
        self.assertEqual((verdict["kind"], verdict["change"]["line"]), ("more_than_once", 11))
        for rank in seen["ranks"]:
            self.assertEqual(rank["collectives"]["all_reduce"], {"count": 12, "bytes": 12 * 288})

    def test_what_needs_values_or_seconds_is_refused(self):
        outcome = self.call("watch", "--on", "h100", "--account", "--", "true")
        self.assert_refused(outcome, "--account needs gradients")
        outcome = self.call("watch", "--on", "h100", "--trace", "a.json", "--", "true")
        self.assert_refused(outcome, "tell seconds")
        outcome = self.call("watch", "--on", "8xk80", "--", "true")
        self.assert_refused(outcome, "--on: GPUs '8xk80'", "a100-80")


if __name__ == "__main__":
    unittest.main(verbosity=2)
