"""Writes what transformers' Mixtral answers, for mixtral_oracle_test to compare with.

usage: mixtral_oracle.py FOLDER LAYERS HIDDEN HEADS KEY_VALUE_HEADS INTERMEDIATE VOCABULARY
FOLDER gets model.safetensors (random weights, as save_pretrained names and shapes them), the
same in several files in in_shards/, logits.safetensors and gradients.safetensors (of the first
batch's loss) and answers.json: a padded and an unpadded batch, losses, buffers, and the order in
which backward makes gradients ready.
Exit status 77: transformers cannot be imported.
"""

import json
import sys
from pathlib import Path

try:
    import torch
    from oracle_batch import build_batch, shift_parameters
    from safetensors.torch import save_file
    from transformers import MixtralConfig, MixtralForCausalLM
except (ImportError, OSError) as error:
    print(f"transformers, torch and safetensors cannot be imported ({error})")
    sys.exit(77)

IGNORED = -100


def build_model(layers, hidden, heads, key_value_heads, intermediate, vocabulary):
    config = MixtralConfig(
        num_hidden_layers=layers,
        hidden_size=hidden,
        num_attention_heads=heads,
        num_key_value_heads=key_value_heads,
        intermediate_size=intermediate,
        vocab_size=vocabulary,
        attn_implementation="sdpa",
        experts_implementation="eager",
    )
    model = MixtralForCausalLM(config).eval()
    shift_parameters(model)
    return model


def answer(model, batch):
    labels = batch["input_ids"].masked_fill(batch["attention_mask"] == 0, IGNORED)
    out = model(**batch, labels=labels)
    lists = {name: tensor.tolist() for name, tensor in batch.items()}
    return out, {**lists, "loss": out.loss.item()}


def as_stored(name, tensor):
    """Yields name and tensor of the checkpoint for a parameter, whose experts are fused here."""
    name = name.replace(".mlp.", ".block_sparse_moe.")
    if name.endswith(".experts.gate_up_proj"):
        for i, both in enumerate(tensor):
            for part, half in zip(("w1", "w3"), both.chunk(2), strict=True):
                yield name.replace("gate_up_proj", f"{i}.{part}.weight"), half
    elif name.endswith(".experts.down_proj"):
        for i, down in enumerate(tensor):
            yield name.replace("down_proj", f"{i}.w2.weight"), down
    else:
        yield name, tensor


def note_order(model):
    """Returns a list that backward fills; a layer's experts, of several parameters, are one."""
    ready = []

    def note(name):
        name = name.replace(".mlp.", ".block_sparse_moe.").split(".experts.")[0]
        if ready[-1:] != [name]:
            ready.append(name)

    for name, parameter in model.named_parameters():
        parameter.register_post_accumulate_grad_hook(lambda _, name=name: note(name))
    return ready


def main(folder, *size):
    torch.manual_seed(7)
    torch.set_num_threads(1)
    sizes = [int(number) for number in size]
    model = build_model(*sizes)
    model.save_pretrained(folder)
    model.save_pretrained(folder / "in_shards", max_shard_size="500KB")
    padded_out, padded = answer(model, build_batch(sizes[-1], padded=True))
    ready = note_order(model)
    padded_out.loss.backward()
    full_out, full = answer(model, build_batch(sizes[-1], padded=False))
    logits = {"0": padded_out.logits.detach(), "1": full_out.logits.detach()}
    save_file(logits, folder / "logits.safetensors")
    gradients = {
        stored: part.contiguous()
        for name, parameter in model.named_parameters()
        for stored, part in as_stored(name, parameter.grad)
    }
    save_file(gradients, folder / "gradients.safetensors")
    answers = {
        "buffers": [{"name": n, "values": b.flatten().tolist()} for n, b in model.named_buffers()],
        "batches": [padded, full],
        "ready": ready,
    }
    (folder / "answers.json").write_text(json.dumps(answers))


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
