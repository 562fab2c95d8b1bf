"""Writes what torch's own layers make of a whole batch, for sync_batch_norm_oracle_test.

usage: convnet_oracle.py FOLDER
FOLDER gets, of the network of models/convnet.h built from torch.nn.Conv2d and BatchNorm2d, with
random parameters: model.safetensors; of one forward and backward in training gradients.safetensors
and statistics.safetensors, the running statistics after it; and answers.json: the batch, its logits
and loss, the logits in evaluation after that, and the names and shapes of parameters and buffers.
The first half of the batch is darker than the second, as the classes of a skewed rank are.
Exit status 77: torch cannot be imported.
"""

import json
import sys
from pathlib import Path

try:
    import torch
    from oracle_batch import shift_parameters
    from safetensors.torch import save_file
    from torch import nn
except (ImportError, OSError) as error:
    print(f"torch and safetensors cannot be imported ({error})")
    sys.exit(77)

EXAMPLES = 8
SIDE = 8
CHANNELS = (1, 32, 64, 128)
STRIDES = (1, 2, 2)
CLASSES = 3


class ConvNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.convolutions = nn.ModuleList()
        self.norms = nn.ModuleList()
        for i, stride in enumerate(STRIDES):
            self.convolutions.append(
                nn.Conv2d(CHANNELS[i], CHANNELS[i + 1], 3, stride, padding=1, bias=False)
            )
            self.norms.append(nn.BatchNorm2d(CHANNELS[i + 1]))
        self.head = nn.Linear(CHANNELS[-1], CLASSES)

    def forward(self, ids):
        x = (ids / 255).view(-1, 1, SIDE, SIDE)
        for convolution, norm in zip(self.convolutions, self.norms, strict=True):
            x = torch.relu(norm(convolution(x)))
        return self.head(x.mean((2, 3)))


def our_names():
    """Returns our name of each of torch's, in our order."""
    names = {}
    for i in range(len(STRIDES)):
        names[f"convolutions.{i}.weight"] = f"layer{i}.weight"
        for tensor in ("weight", "bias", "running_mean", "running_var", "num_batches_tracked"):
            names[f"norms.{i}.{tensor}"] = f"layer{i}.norm.{tensor}"
    return names | {"head.weight": "head.weight", "head.bias": "head.bias"}


def renamed(tensors):
    """Returns the tensors of `tensors`, by torch's names, under our names and in our order."""
    by_name = dict(tensors)
    return {
        ours: by_name[theirs].detach().clone()
        for theirs, ours in our_names().items()
        if theirs in by_name
    }


def build_batch():
    levels = torch.cat([torch.full((EXAMPLES // 2, SIDE**2), mean) for mean in (80.0, 190.0)])
    spread = torch.cat([torch.full((EXAMPLES // 2, SIDE**2), sd) for sd in (20.0, 10.0)])
    ids = (levels + spread * torch.randn_like(levels)).round().clamp(0, 255).long()
    return ids, torch.arange(EXAMPLES) % CLASSES


def main(folder):
    torch.manual_seed(7)
    torch.set_num_threads(1)
    model = ConvNet()
    shift_parameters(model)
    save_file(renamed(model.named_parameters()), folder / "model.safetensors")
    ids, labels = build_batch()
    logits = model(ids)
    loss = nn.functional.cross_entropy(logits, labels)
    loss.backward()
    gradients = renamed((name, p.grad) for name, p in model.named_parameters())
    save_file(gradients, folder / "gradients.safetensors")
    averages = {n: b for n, b in model.named_buffers() if b.is_floating_point()}
    save_file(renamed(averages), folder / "statistics.safetensors")
    answers = {
        "input_ids": ids.tolist(),
        "labels": labels.tolist(),
        "logits": logits.tolist(),
        "loss": loss.item(),
        "evaluated_logits": model.eval()(ids).tolist(),
        "parameters": [[n, list(p.shape)] for n, p in renamed(model.named_parameters()).items()],
        "buffers": [[n, list(b.shape)] for n, b in renamed(model.named_buffers()).items()],
    }
    (folder / "answers.json").write_text(json.dumps(answers))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
