"""A training job of one process whose step has every kind of operator of which floating point
operations are counted.

usage: counted_training.py [--print]

--print: prints what torch's own counters, a profiler and FlopCounterMode, see of its last step:
{"operators": {"mm": 4, ...}, "flops": 1234}.
"""

import json
import sys
from collections import Counter

import torch
from torch.nn import functional
from torch.utils.flop_counter import FlopCounterMode, sdpa_backward_flop_count, sdpa_flop_count

STEPS = 6


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.images = torch.nn.Sequential(
            torch.nn.Conv2d(4, 6, 3, stride=2, padding=1, groups=2),
            torch.nn.Conv2d(6, 8, (2, 3), padding=(1, 2), dilation=2),
            torch.nn.ConvTranspose2d(8, 3, 3, stride=2, output_padding=1),
        )
        self.rows = torch.nn.Conv1d(3, 5, 4)
        self.linear = torch.nn.Linear(7, 2 * 3 * 7)
        self.matrix = torch.nn.Parameter(torch.ones(5, 2, 9))
        self.bias = torch.nn.Parameter(torch.ones(1, 1))

    def forward(self, images, words):
        images = self.images(images)
        rows = self.rows(images.flatten(2))[:, :, :9]
        product = torch.baddbmm(self.bias, rows.transpose(0, 1), self.matrix.transpose(1, 2))
        heads = self.linear(words).view(2, 10, 2, 3, 7).permute(3, 0, 2, 1, 4)
        mixed = functional.scaled_dot_product_attention(*heads)
        return product.square().mean() + (mixed @ mixed.mT).mean() + (words @ words.T).mean()


def step(model, optimizer, images, words):
    model(images, words).backward()
    optimizer.step()
    optimizer.zero_grad()


def counters():
    """Counts the operators of a CPU's attention, too, which torch has no formula for, by that for a
    GPU's.
    """
    aten = torch.ops.aten
    attention = {
        aten._scaled_dot_product_flash_attention_for_cpu: lambda *args, **_: sdpa_flop_count(
            *args[:3]
        ),
        aten._scaled_dot_product_flash_attention_for_cpu_backward: (
            lambda *args, **_: sdpa_backward_flop_count(*args[:4])
        ),
    }
    return FlopCounterMode(display=False, custom_mapping=attention)


def main():
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = Model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    images, words = torch.randn(3, 4, 9, 11), torch.randn(20, 7)
    for _ in range(STEPS):
        step(model, optimizer, images, words)
    if "--print" in sys.argv:
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
            step(model, optimizer, images, words)
        with counters() as flops:
            step(model, optimizer, images, words)
        # As it was recorded: its averages leave out calls within one of the same name.
        names = [event.name() for event in profile.profiler.kineto_results.events()]
        own = [name.removeprefix("aten::") for name in names if name.startswith("aten::")]
        print(json.dumps({"operators": Counter(own), "flops": flops.get_total_flops()}))


if __name__ == "__main__":
    main()
