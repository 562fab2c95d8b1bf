"""gradsync predict memory --on ... -- COMMAND: will a training job fit on GPUs that are not there?

What torch itself says within the job is the oracle: its own statistics, and its own message.

Covers: predict_job.cpp, job_fit.cpp, libraries.cpp, fit/replay.cpp, recorder/replay.cpp,
recorder/allocation_recorder.cpp, gradsync_watch_allocations.py, gradsync_watch_world.py,
cudnn_graphs.cpp, job_processes.cpp.
"""

import json
import unittest

from limits_test import memory_of
from program import PROGRAM, free_port
from watch_test import TORCH_PYTHON, WatchTest

LENT = 64 << 20

# Two ranks, three micro-batches of which the last synchronizes; a rank writes down what torch says
# before each step of its optimizer.
JOB = """import json, os, sys, torch, torch.distributed as dist
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("nccl")
width = int(sys.argv[2])
layers = [torch.nn.Linear(width, width) for _ in range(3)]
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Sequential(*layers).cuda())
optimizer = torch.optim.AdamW(model.parameters())
for step in range(9):
    for micro_batch in range(3):
        with model.no_sync() if micro_batch < 2 else torch.enable_grad():
            model(torch.ones(64, width, device="cuda")).sum().backward()
    statistics = [torch.cuda.max_memory_allocated(), torch.cuda.max_memory_reserved()]
    with open(f"{sys.argv[1]}-{dist.get_rank()}", "w") as file:
        json.dump(statistics, file)
    optimizer.step()
    optimizer.zero_grad()
"""
GPU = """import sys, torch
if "--what" in sys.argv:
    sys.exit("unknown flag")
width = 2048 if "--half" in sys.argv else 4096
held = torch.nn.Linear(4096, width).cuda()
held(torch.ones(8, 4096, device="cuda")).sum().backward()
torch.optim.SGD(held.parameters(), lr=0.1).step()
"""
TOO_LARGE = """import torch
held = torch.empty(1 << 20, device="cuda")
torch.empty(2 << 30, dtype=torch.uint8, device="cuda")
"""
# One layer, shared by all ranks of the world that there is; groups of gloo are made as well.
SHARDED = """import os, torch, torch.distributed as dist
from torch.distributed.fsdp import fully_shard
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group()
dist.new_group(backend="gloo")
model = fully_shard(torch.nn.Linear(1024, 1024, bias=False).cuda())
optimizer = torch.optim.AdamW(model.parameters())
for step in range(4):
    model(torch.ones(8, 1024, device="cuda")).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
"""
# Blocks of 64 MiB, each lent to another stream: the host waits for every second of sixteen, and for
# none of eight.
LENDING = """import torch
held = torch.nn.Linear(64, 64).cuda()
optimizer = torch.optim.SGD(held.parameters(), lr=0.1)
side = torch.cuda.Stream()
def lend(waits):
    torch.empty(64 << 20, dtype=torch.uint8, device="cuda").record_stream(side)
    if waits:
        side.synchronize()
for number in range(16):
    lend(waits=number % 2)
torch.cuda.synchronize()
for number in range(8):
    lend(waits=False)
held(torch.ones(8, 64, device="cuda")).sum().backward()
optimizer.step()
"""
# What its convolution takes beside its output, in two layouts, stands in a file; then how many ones
# are not zero where nothing counts them.
CONVOLVING = """import json, sys, torch
def beside_output(layout, kind):
    layer = torch.nn.Conv2d(64, 64, 3, padding=1, bias=False).to("cuda", kind, memory_format=layout)
    images = torch.ones(32, 64, 56, 56, dtype=kind, device="cuda").to(memory_format=layout)
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    result = layer(images)
    said = torch.cuda.max_memory_allocated() - before - result.nbytes
    result.sum().backward()
    torch.optim.SGD(layer.parameters(), lr=0.1).step()
    return said
said = [beside_output(torch.contiguous_format, torch.float32),
        beside_output(torch.channels_last, torch.bfloat16)]
torch.full((128,), 7, dtype=torch.int32).cuda()  # is let go at once
said.append(len(torch.ones(8, device="cuda").nonzero()))
with open(sys.argv[1], "w") as file:
    json.dump(said, file)
"""
# It takes memory of the host until little of 1 GiB is left, and then more in small steps.
HOARDING = """import time
held = []
def take(mib):
    held.append(bytearray(b"x") * (mib << 20))
take(900)
while True:
    take(4)
    time.sleep(0.2)
"""


class JobFitTest(WatchTest):
    def predict(self, text, *words, on="2xa100-80", options=(), processes=2):
        """`processes`: 0 without a launcher."""
        file = self.place / "job.py"
        file.write_text(text)
        start = ("-m", "torch.distributed.run", f"--nproc-per-node={processes}")
        start = (*start, f"--master-port={free_port()}") if processes else ()
        job = (TORCH_PYTHON, *start, file, *words)
        return self.call("predict", "memory", "--on", on, *options, "--", *job)

    def told(self, outcome):
        self.assertEqual(outcome.status, 0, outcome.err)
        return json.loads(outcome.out)


class PredictJobTest(JobFitTest):
    def test_it_says_what_torch_says(self):
        said = self.place / "said"
        fit = self.told(self.predict(JOB, said, 1024, options=("--json",)))
        self.assertEqual(fit["schema"], "gradsync.paper_memory/1")
        self.assertEqual((fit["steps"], fit["on"]["world"]), (3, 2))
        self.assertEqual([rank["rank"] for rank in fit["ranks"]], [0, 1])
        for rank in fit["ranks"]:
            allocated, reserved = json.loads(said.with_name(f"said-{rank['rank']}").read_text())
            self.assertEqual(rank["status"], "ok")
            self.assertEqual(rank["peak_allocated_bytes"], allocated)
            self.assertEqual(rank["peak_reserved_bytes"], reserved)
            self.assertEqual(sum(part["bytes"] for part in rank["parts"]), allocated)
            self.assertIn("optimizer", rank["place"])
        parts = {part["category"]: part["bytes"] for part in fit["ranks"][0]["parts"]}
        model = 3 * 4 * (1024 * 1024 + 1024)
        self.assertEqual(parts["parameters"], model)
        self.assertEqual(parts["gradients"], model)
        self.assertEqual(parts["optimizer_state"], 2 * model)
        # torch's allocator does once more what it did in the job.
        defaults = fit["settings"]["tried"][0]
        self.assertEqual(defaults["setting"], "")
        self.assertEqual(defaults["peak_allocated_bytes"], fit["ranks"][0]["peak_allocated_bytes"])
        self.assertEqual(defaults["peak_reserved_bytes"], fit["ranks"][0]["peak_reserved_bytes"])

    def test_out_of_memory_is_an_answer(self):
        outcome = self.predict(JOB, self.place / "said", 8192, on="2x2GiB", options=("--json",))
        rank = self.told(outcome)["ranks"][0]
        self.assertEqual(rank["status"], "oom")
        self.assertRegex(rank["reason"], r"CUDA out of memory\. Tried to allocate \d+.* 2\.00 GiB")
        self.assertGreater(rank["peak_allocated_bytes"], 1 << 30)
        self.assertIn("oom", [tried["status"] for tried in self.told(outcome)["settings"]["tried"]])

    def test_one_process_is_rank_0_of_a_larger_world(self):
        outcome = self.predict(
            SHARDED, on="8xh100", processes=1, options=("--world", "64", "--json")
        )
        fit = self.told(outcome)
        self.assertEqual(fit["on"]["world"], 64)
        (rank,) = fit["ranks"]
        parts = {part["category"]: part["bytes"] for part in rank["parts"]}
        self.assertEqual(parts["optimizer_state"], 2 * 4 * 1024 * 1024 // 64)
        outcome = self.predict(SHARDED, processes=2, options=("--world", "64"))
        self.assertEqual(outcome.status, 4)
        self.assertIn("the command starts one process, which is rank 0", outcome.err)

    def test_levers_are_runs_of_their_own(self):
        lever = ("--lever", "half=--half", "--lever", "broken=--what", "--json", "--steps", "1")
        outcome = self.predict(GPU, "{}", on="h100", processes=0, options=lever)
        fit = self.told(outcome)
        half, broken = fit["levers"]
        whole = fit["ranks"][0]["peak_allocated_bytes"]
        self.assertLess(half["ranks"][0]["peak_allocated_bytes"], 0.7 * whole)
        self.assertEqual((half["lever"], half["failure"]), ("half", ""))
        self.assertIsNone(broken["ranks"])
        self.assertIn("exited with status 1", broken["failure"])
        self.assertIn("unknown flag", outcome.err)

    def test_out_of_memory_before_anything_was_computed_is_one_too(self):
        fit = self.told(self.predict(TOO_LARGE, on="1x1GiB", processes=0, options=("--json",)))
        (rank,) = fit["ranks"]
        self.assertEqual((rank["rank"], rank["status"], fit["steps"]), (0, "oom", 0))
        self.assertIn("Tried to allocate 2.00 GiB", rank["reason"])

    def test_a_page_is_for_people(self):
        keep = self.place / "kept"
        options = ("--keep", keep, "--steps", "1", "--lever", "half=--half")
        outcome = self.predict(GPU, "{}", on="h100", processes=0, options=options)
        self.assertIn("| half ", outcome.out)
        self.assertEqual(outcome.status, 0, outcome.err)
        self.assertIn("GPUs of paper: nothing was computed or timed", outcome.out)
        self.assertIn("expandable_segments:True", outcome.out)
        self.assertTrue((keep / "job.log").exists())

    def test_a_job_that_fails_otherwise_is_none(self):
        outcome = self.predict("raise SystemExit('no data')", processes=0)
        self.assertEqual(outcome.status, 4, outcome.err)
        self.assertIn("no data", outcome.err)
        outcome = self.predict(GPU + "raise SystemExit(3)", processes=0)
        self.assertEqual(outcome.status, 5, outcome.err)
        self.assertIn("made 1 of 3 steps, then exited with status 3", outcome.err)

    def test_blocks_lent_to_other_streams_come_back_between_at_once_and_when_the_host_waits(self):
        fit = self.told(self.predict(LENDING, processes=0, options=("--json", "--steps", "1")))
        (rank,) = fit["ranks"]
        self.assertLess(rank["peak_reserved_bytes"], 3 * LENT)
        self.assertEqual(rank["behind"]["status"], "ok")
        self.assertGreaterEqual(rank["behind"]["peak_reserved_bytes"], 8 * LENT)
        self.assertLess(rank["behind"]["peak_reserved_bytes"], 9 * LENT)

    def test_a_convolution_takes_the_workspace_that_cudnn_asks_for(self):
        said = self.place / "said"
        fit = self.told(self.predict(CONVOLVING, said, processes=0, options=("--json",)))
        as_images, as_channels, counted = json.loads(said.read_text())
        # It reorders what it reads, or more; what is in its own order it takes as it is.
        images = 4 * 32 * 64 * 56 * 56
        self.assertGreaterEqual(as_images, images)
        self.assertLess(as_images, 4 * images)
        self.assertLess(as_channels, 1 << 20)
        self.assertEqual(counted, 0, "not what the block held before")
        self.assertIsNone(fit["ranks"][0]["behind"])
        less = fit["ranks"][0]["peak_allocated_bytes"]
        less -= fit["without_workspaces"]["peak_allocated_bytes"]
        self.assertGreater(less, images // 2)
        self.assertLess(less, 4 * images)

    def test_what_leaves_no_room_for_a_context_does_not_fit(self):
        held = 'held = torch.empty(900 << 20, dtype=torch.uint8, device="cuda")\n'
        job = GPU.replace("held", held + "held", 1)
        fit = self.told(self.predict(job, on="1x1GiB", processes=0, options=("--json",)))
        (rank,) = fit["ranks"]
        self.assertEqual((rank["status"], rank["fits"]), ("ok", "no"))

    def test_a_job_is_ended_before_the_host_is_out_of_memory(self):
        file = self.place / "job.py"
        file.write_text(HOARDING)
        for command in ("predict", "memory"), ("watch",):
            with self.subTest(command), memory_of(1 << 30) as group:
                if group is None:
                    self.skipTest("this user may make no control groups here")
                join = ("sh", "-c", 'echo $$ > "$0" && exec "$@"', str(group), PROGRAM)
                job = (*command, "--on", "h100", "--", TORCH_PYTHON, file)
                outcome = self.call(*job, command=join)
                self.assertEqual(outcome.status, 4, outcome.err)
                self.assertRegex(
                    outcome.err,
                    r"hold 9\d\d\.\d MiB of the host's memory, .* of 1\.00 GiB are left",
                )
                self.assertIn('torch.device("meta")', outcome.err)

    def test_wrong_words_are_refused(self):
        refuse = self.assert_refused
        refuse(self.call("predict", "memory", "--", "true"), "--on is missing")
        refuse(self.call("predict", "memory", "--on", "k80", "--", "true"), "--on: GPUs 'k80'")
        refuse(self.call("predict", "memory", "--on", "h100"), "--on needs a COMMAND")
        refuse(self.call("predict", "memory"), "expected MODEL, or --on GPUS -- COMMAND")
        outcome = self.call("predict", "memory", "mlp", "--on", "h100", "--", "true")
        refuse(outcome, "got MODEL and a COMMAND")


if __name__ == "__main__":
    unittest.main(verbosity=2)
