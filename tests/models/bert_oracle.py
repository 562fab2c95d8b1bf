"""Writes what transformers' BERT answers, and peft's of it, for bert_oracle_test to compare with.

usage: bert_oracle.py FOLDER LAYERS HIDDEN HEADS INTERMEDIATE
FOLDER gets model.safetensors (random weights), gradients.safetensors (of the mean loss, in
evaluation mode), checkpointed.safetensors (in training mode, with dropout and every layer
checkpointed), sdpa.safetensors (in training mode, with torch's scaled_dot_product_attention),
lora_WHICH.safetensors and lora_WHICH_gradients.safetensors (peft's low-rank updates, in training
mode, with dropout, by what they are beside) and answers.json: names and shapes in order, a padded
and an unpadded batch, logits and losses, and names in the order in which backward makes their
gradients ready.
Exit status 77: transformers or peft cannot be imported.
"""

import copy
import json
import sys
from pathlib import Path

try:
    import torch
    from oracle_batch import build_batch, shift_parameters
    from peft import LoraConfig, get_peft_model
    from safetensors.torch import save_file
    from torch.utils.checkpoint import create_selective_checkpoint_contexts
    from transformers import BertConfig, BertForSequenceClassification
except (ImportError, OSError) as error:
    print(f"transformers, peft, torch and safetensors cannot be imported ({error})")
    sys.exit(77)

VOCABULARY = 28996
PRODUCTS = tuple(getattr(torch.ops.aten, name).default for name in ("mm", "addmm", "bmm"))
LABELS = (1, 0, 1)
SEED = 5  # of dropout's masks
LORA_RANK = 3
# By our names: the layers that they update, by peft's names.
LORA_MODULES = {
    "query_value": None,
    "attention": ["query", "key", "value", "attention.output.dense"],
    "all_linear": "all-linear",
}


def build_model(layers, hidden, heads, intermediate):
    config = BertConfig(
        vocab_size=VOCABULARY,
        num_hidden_layers=layers,
        hidden_size=hidden,
        num_attention_heads=heads,
        intermediate_size=intermediate,
        num_labels=2,
        attn_implementation="sdpa",
    )
    model = BertForSequenceClassification(config).eval()
    shift_parameters(model)
    return model


def labelled_batch(padded):
    return build_batch(VOCABULARY, padded) | {"labels": torch.tensor(LABELS)}


def answer(model, batch):
    out = model(**batch)
    return out.loss, {
        **{name: tensor.tolist() for name, tensor in batch.items()},
        "logits": out.logits.tolist(),
        "loss": out.loss.item(),
    }


def train(model, batch, attention):
    """Returns the loss and every gradient, and leaves the model as it is now."""
    model.set_attn_implementation(attention)
    model.train()
    model.zero_grad()
    torch.manual_seed(SEED)
    loss = model(**batch).loss
    loss.backward()
    return loss.item(), {name: p.grad for name, p in model.named_parameters()}


def train_checkpointed(model, batch):
    model.gradient_checkpointing_enable({"use_reentrant": False})
    return train(model, batch, "eager")


def kept_in(layer):
    """Returns the tensors of a layer's storage: by operation a list, or from torch 2.15 on a dict
    by their number, in which what runs again has a mark."""
    for outputs in layer.values():
        for output in outputs.values() if isinstance(outputs, dict) else outputs:
            if hasattr(output, "val"):
                yield output.val


def kept_by_selective_checkpointing(model, batch):
    """Returns the bytes of the products that torch keeps of all layers until they run again."""
    of_layers = []

    def context_fn():
        first, again = create_selective_checkpoint_contexts(list(PRODUCTS))
        of_layers.append(first.storage)
        return first, again

    model.gradient_checkpointing_enable({"use_reentrant": False, "context_fn": context_fn})
    model.train()
    loss = model(**batch).loss
    kept = [tensor for layer in of_layers for tensor in kept_in(layer)]
    loss.backward()
    model.zero_grad()
    return sum(tensor.nbytes for tensor in kept)


def name_in_the_model(name):
    """Without what peft wraps around it; nothing for its copy of the classifier as it was."""
    if ".original_module." in name:
        return None
    name = name.removeprefix("base_model.model.")
    for wrapped in (".base_layer", ".modules_to_save", ".default"):
        name = name.replace(wrapped, "")
    return name


def train_updates(model, which, batch, folder):
    """Returns what peft trains of the model, in training mode, with updates that are not zero."""
    targets = LORA_MODULES[which]
    config = LoraConfig(task_type="SEQ_CLS", r=LORA_RANK, target_modules=targets)
    peft = get_peft_model(copy.deepcopy(model), config).train()
    named = {name_in_the_model(name): p for name, p in peft.named_parameters()}
    named.pop(None)
    ready = []
    for name, parameter in named.items():
        if "lora_B" in name:
            torch.nn.init.normal_(parameter, std=0.1)
        if parameter.requires_grad:
            parameter.register_post_accumulate_grad_hook(lambda _, name=name: ready.append(name))
    save_file({name: p.detach() for name, p in named.items()}, folder / f"lora_{which}.safetensors")
    peft.zero_grad()
    torch.manual_seed(SEED)
    loss = peft(**batch).loss
    loss.backward()
    gradients = {name: p.grad for name, p in named.items() if p.grad is not None}
    save_file(gradients, folder / f"lora_{which}_gradients.safetensors")
    parameters = [[name, list(p.shape), p.requires_grad] for name, p in named.items()]
    return {"loss": loss.item(), "parameters": parameters, "ready": ready}


def main(folder, *size):
    torch.manual_seed(7)
    torch.set_num_threads(1)
    model = build_model(*(int(number) for number in size))
    padded_batch = labelled_batch(padded=True)
    padded_loss, padded = answer(model, padded_batch)
    parameters = dict(model.named_parameters())
    ready = []
    for name, parameter in parameters.items():
        parameter.register_post_accumulate_grad_hook(lambda _, name=name: ready.append(name))
    padded_loss.backward()
    full_batch = labelled_batch(padded=False)
    _, full = answer(model, full_batch)
    save_file({name: p.detach() for name, p in parameters.items()}, folder / "model.safetensors")
    save_file({name: p.grad for name, p in parameters.items()}, folder / "gradients.safetensors")
    answers = {
        "parameters": [{"name": name, "shape": list(p.shape)} for name, p in parameters.items()],
        "buffers": [{"name": n, "values": b.flatten().tolist()} for n, b in model.named_buffers()],
        "batches": [padded, full],
        "ready": list(ready),
    }
    answers["sdpa_loss"], gradients = train(model, padded_batch, "sdpa")
    save_file(gradients, folder / "sdpa.safetensors")
    answers["checkpointed_loss"], gradients = train_checkpointed(model, full_batch)
    save_file(gradients, folder / "checkpointed.safetensors")
    answers["kept_bytes"] = kept_by_selective_checkpointing(model, full_batch)
    model.gradient_checkpointing_disable()
    answers["lora"] = {
        which: train_updates(model, which, full_batch, folder) for which in LORA_MODULES
    }
    (folder / "answers.json").write_text(json.dumps(answers))


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
