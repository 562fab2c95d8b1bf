"""Unmodified jobs of the usual libraries on GPUs of paper: each makes two optimizer steps, and what
`gradsync predict memory` says of it is what torch says within it.

A test adds one thing to a job: it prints torch's statistics when its optimizer begins a step.
"""

import re
import unittest

from predict_job_test import JobFitTest

SPY = """import torch
from torch.optim.optimizer import register_optimizer_step_pre_hook
def spy(*_):
    said = torch.cuda.max_memory_allocated(), torch.cuda.max_memory_reserved()
    print("\\nsaid %d %d" % said, flush=True)
register_optimizer_step_pre_hook(spy)
"""
GPT2 = """from transformers import GPT2Config, GPT2LMHeadModel
config = GPT2Config(n_layer=2, n_embd=256, n_head=4, vocab_size=2048, n_positions=128)
model = GPT2LMHeadModel(config)
samples = [{"input_ids": torch.ones(64, dtype=torch.long)} for _ in range(64)]
samples = [sample | {"labels": sample["input_ids"]} for sample in samples]
"""
LOOP = """tokens = torch.ones(4, 64, dtype=torch.long, device="cuda")
optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad])
for step in range(4):
    model(input_ids=tokens, labels=tokens).loss.backward()
    optimizer.step()
    optimizer.zero_grad()
"""
TRAINER = (
    GPT2
    + """from transformers import Trainer, TrainingArguments
arguments = TrainingArguments("out", per_device_train_batch_size=4, max_steps=4, save_strategy="no",
    gradient_accumulation_steps=2, report_to=[], bf16=True)
Trainer(model=model, args=arguments, train_dataset=samples).train()
"""
)
LIGHTNING = (
    GPT2
    + """import lightning
class Module(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.model = model
    def training_step(self, batch, index):
        return self.model(**batch).loss
    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters())
loader = torch.utils.data.DataLoader(samples, batch_size=4)
lightning.Trainer(max_steps=4, accelerator="gpu", devices=2, strategy="ddp", logger=False,
    enable_checkpointing=False, accumulate_grad_batches=2).fit(Module(), loader)
"""
)
ACCELERATE = (
    GPT2
    + """from accelerate import Accelerator
accelerator = Accelerator(gradient_accumulation_steps=2, mixed_precision="fp16")
loader = torch.utils.data.DataLoader(samples, batch_size=4)
optimizer = torch.optim.AdamW(model.parameters())
model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
for batch in loader:
    with accelerator.accumulate(model):
        accelerator.backward(model(**batch).loss)
        optimizer.step()
        optimizer.zero_grad()
"""
)
PEFT = (
    GPT2
    + """from peft import LoraConfig, get_peft_model
model = get_peft_model(model.cuda(), LoraConfig(r=8, target_modules=["c_attn"]))
"""
    + LOOP
)
CHECKPOINTED = GPT2 + "model.cuda().gradient_checkpointing_enable()\nmodel.train()\n" + LOOP
SCALED = (
    GPT2
    + """model.cuda()
scaler = torch.amp.GradScaler()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
tokens = torch.ones(4, 64, dtype=torch.long, device="cuda")
for step in range(4):
    with torch.autocast("cuda", dtype=torch.float16):
        loss = model(input_ids=tokens, labels=tokens).loss
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad()
"""
)
OFFLOADED = (
    GPT2
    + """import os, torch.distributed as dist
from torch.distributed.fsdp import CPUOffloadPolicy, fully_shard
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("cpu:gloo,cuda:nccl")
for layer in model.transformer.h:
    fully_shard(layer, offload_policy=CPUOffloadPolicy())
fully_shard(model, offload_policy=CPUOffloadPolicy())
"""
    + LOOP
)
COMPILED = GPT2 + "model.cuda().compile()\n" + LOOP


class PredictTrainersTest(JobFitTest):
    def check(self, text, processes):
        keep = self.place / "kept"
        options = ("--json", "--keep", keep, "--steps", "2")
        outcome = self.predict(SPY + text, processes=processes, options=options)
        fit = self.told(outcome)
        self.assertEqual(fit["steps"], 2)
        self.assertEqual(len(fit["ranks"]), max(processes, 1))
        said = re.findall(r"^said (\d+) (\d+)$", (keep / "job.log").read_text(), re.MULTILINE)
        allocated = max(int(pair[0]) for pair in said)
        reserved = max(int(pair[1]) for pair in said)
        for rank in fit["ranks"]:
            self.assertEqual(rank["status"], "ok")
            # The second step of the optimizer, which nothing is printed after, may hold more.
            self.assertGreaterEqual(rank["peak_allocated_bytes"], allocated)
            self.assertGreaterEqual(rank["peak_reserved_bytes"], reserved)
            self.assertLess(rank["peak_reserved_bytes"], 1.5 * reserved)
        defaults = fit["settings"]["tried"][0]
        (told,) = (rank for rank in fit["ranks"] if rank["rank"] == fit["settings"]["rank"])
        self.assertEqual(defaults["peak_allocated_bytes"], told["peak_allocated_bytes"])
        self.assertEqual(defaults["peak_reserved_bytes"], told["peak_reserved_bytes"])

    def test_transformers_trainer(self):
        self.check(TRAINER, 2)

    def test_lightning(self):
        self.check(LIGHTNING, 2)

    def test_accelerate_with_a_scaler(self):
        self.check(ACCELERATE, 2)

    def test_lora(self):
        self.check(PEFT, 0)

    def test_checkpointing(self):
        self.check(CHECKPOINTED, 0)

    def test_a_scaler(self):
        self.check(SCALED, 0)

    def test_offload(self):
        self.check(OFFLOADED, 2)

    def test_compiled(self):
        self.check(COMPILED, 0)


if __name__ == "__main__":
    unittest.main(verbosity=2)
