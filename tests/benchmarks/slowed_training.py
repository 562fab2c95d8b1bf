"""A training job of two ranks, DDP over gloo, which does what KINDS says beside its work.

usage: slowed_training.py [KIND]    as a rank of a launcher

The line that a slow-down comes from has its kind as its comment.
"""

import sys

import torch
import torch.distributed as dist
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

KINDS = (
    *("more_operators", "copy", "dtype", "lost_fusion", "barrier", "host_read", "padding"),
    *("recomputation", "layout", "zeroing", "no_foreach", "forward", "clones", "norm"),
    *("all_reduce", "double_backward"),
)
STEPS, WIDTH, HEADS, LENGTH, CLASSES = 6, 32, 4, 8, 10

kind = sys.argv[1] if len(sys.argv) > 1 else ""


def attention_by_hand(query, key, value):
    scores = query @ key.transpose(-2, -1) / query.shape[-1] ** 0.5  # lost_fusion
    return scores.softmax(-1) @ value


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = torch.nn.LayerNorm(WIDTH)
        self.inner = torch.nn.Linear(WIDTH, 3 * WIDTH)
        self.outer = torch.nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        heads = self.inner(self.norm(x)).unflatten(-1, (3, HEADS, WIDTH // HEADS))
        query, key, value = heads.permute(2, 0, 3, 1, 4).unbind()
        if kind == "layout":
            key = key.transpose(-2, -1).contiguous().transpose(-2, -1)  # layout
        if kind == "lost_fusion":
            mixed = attention_by_hand(query, key, value)
        else:
            mixed = functional.scaled_dot_product_attention(query, key, value)
        x = x + self.outer(mixed.transpose(1, 2).flatten(2))
        if kind == "more_operators":
            x = x * 2 / 2  # more_operators
        return x


def with_recomputation(block, x):
    return checkpoint(block, x, use_reentrant=False)  # recomputation


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = torch.nn.Embedding(CLASSES, WIDTH)
        self.blocks = torch.nn.ModuleList(Block() for _ in range(2))
        self.head = torch.nn.Linear(WIDTH, CLASSES)

    def forward(self, tokens):
        x = self.embedding(tokens)
        if kind == "dtype":
            x = x.double().float()  # dtype
        for block in self.blocks:
            x = with_recomputation(block, x) if kind == "recomputation" else block(x)
        return self.head(x)


def batch_of(generator):
    length = LENGTH + 4 if kind == "padding" else LENGTH
    return torch.randint(CLASSES, (4, length), generator=generator)  # padding


def train():
    model = torch.nn.parallel.DistributedDataParallel(Model())
    optimizer = torch.optim.AdamW(model.parameters(), foreach=kind != "no_foreach")
    generator = torch.Generator().manual_seed(dist.get_rank())
    for _ in range(STEPS):
        tokens = batch_of(generator)
        if kind == "copy":
            tokens = tokens.clone()  # copy
        logits = model(tokens)
        loss = functional.cross_entropy(logits.flatten(0, 1), tokens.flatten())
        if kind == "forward":
            model.module(tokens)  # forward
        if kind == "double_backward":
            torch.autograd.grad(loss, model.parameters(), create_graph=True)  # double_backward
        loss.backward()
        if kind == "norm":
            torch.nn.utils.get_total_norm([p.grad for p in model.parameters()])  # norm
        if kind == "all_reduce":
            dist.all_reduce(loss.detach())  # all_reduce
        if kind == "barrier":
            dist.barrier()  # barrier
        if kind == "clones":
            [p.detach().clone() for p in model.parameters()]  # clones
        if kind == "host_read":
            loss.item()  # host_read
        optimizer.step()  # no_foreach
        optimizer.zero_grad(set_to_none=kind != "zeroing")  # zeroing


if __name__ == "__main__":
    torch.set_num_threads(1)
    torch.manual_seed(0)
    dist.init_process_group("gloo")
    train()
    dist.destroy_process_group()
