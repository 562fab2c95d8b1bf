"""A job of the Trainer of Hugging Face's transformers, to which a gate's rates add real work.

usage: trainer.py OPERATIONS           trains until it is ended, with so many operations more a step
       trainer.py calibrate SHARE      prints as JSON how many operations are that share of a step

As a rank of torchrun, on CPUs. An operation adds one to each of 2048 numbers, as in
harness/run/extra_work.h, before the optimizer runs.
"""

import json
import os
import statistics
import sys
import time

import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainerCallback, TrainingArguments

LENGTH, TOKENS, EXAMPLES = 64, 512, 1 << 16
WARMUP_STEPS, CALIBRATION_STEPS, TRIED = 20, 160, 4000
ENDLESS = 1 << 30


class Work(TrainerCallback):
    """Adds operations to every `every`-th step, and times the steps and the operations."""

    def __init__(self, operations, every=1):
        self.operations, self.every = operations, every
        self.sums, self.ones = torch.zeros(2048), torch.ones(2048)
        self.begun_s, self.spent_s = 0.0, []
        self.step_s = {True: [], False: []}

    def works_in(self, step):
        return step % self.every == 0

    def on_step_begin(self, *_, **__):
        self.begun_s = time.perf_counter()

    def on_pre_optimizer_step(self, _, state, *__, **___):
        if not self.works_in(state.global_step):
            return
        begun_s = time.thread_time()
        for _ in range(self.operations):
            self.sums.add_(self.ones)
        if self.every > 1:
            self.spent_s.append(time.thread_time() - begun_s)

    def on_step_end(self, _, state, *__, **___):
        if self.every > 1 and state.global_step > WARMUP_STEPS:
            taken_s = time.perf_counter() - self.begun_s
            self.step_s[self.works_in(state.global_step - 1)].append(taken_s)

    def calibration(self, share):
        """Returns what made the count, all of it measured in steps."""
        step_s = statistics.quantiles(self.step_s[False], n=4)[0]
        with_work_s = statistics.quantiles(self.step_s[True], n=4)[0]
        operation_s = statistics.median(self.spent_s) / self.operations
        return {
            "operations": max(1, round(share * step_s / operation_s)),
            "operation_s": operation_s,
            "step_s": step_s,
            "tried": TRIED,
            "step_with_tried_s": with_work_s,
        }


def examples():
    tokens = torch.randint(TOKENS, (256, LENGTH), generator=torch.Generator().manual_seed(1))
    rows = [{"input_ids": row, "labels": row} for row in tokens]
    return [rows[index % len(rows)] for index in range(EXAMPLES)]


def train(work, steps):
    torch.set_num_threads(1)
    shape = {"n_positions": LENGTH, "n_embd": 128, "n_layer": 2, "n_head": 4}
    config = GPT2Config(vocab_size=TOKENS, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0, **shape)
    settings = TrainingArguments(
        "unused",
        use_cpu=True,
        max_steps=steps,
        per_device_train_batch_size=4,
        gradient_accumulation_steps=2,
        save_strategy="no",
        logging_strategy="no",
        report_to="none",
        disable_tqdm=True,
        seed=1,
    )
    torch.manual_seed(1)
    model = GPT2LMHeadModel(config)
    Trainer(model, settings, train_dataset=examples(), callbacks=[work]).train()


def main():
    if sys.argv[1] != "calibrate":
        return train(Work(int(sys.argv[1])), ENDLESS)
    work = Work(TRIED, every=2)
    train(work, CALIBRATION_STEPS)
    if os.environ["RANK"] == "0":
        print(json.dumps(work.calibration(float(sys.argv[2]))))
    return None


if __name__ == "__main__":
    main()
