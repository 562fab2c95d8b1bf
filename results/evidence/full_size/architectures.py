"""Architectures of transformers at published sizes, for models/record_profile.py --fake.

Each function returns (model, batch, loss_of); UNITS has the classes that fully_shard is given.
"""

import torch
import transformers

UNITS = {
    "gpt2_xl": "GPT2Block",
    "llama_2_7b": "LlamaDecoderLayer",
    "vit_huge": "ViTLayer",
}


def loss_of(model, batch):
    return model(**batch).loss


def tokens(examples, length):
    ids = torch.zeros(examples, length, dtype=torch.long)
    return {"input_ids": ids, "labels": ids.clone()}


def gpt2_xl():
    config = transformers.GPT2Config(n_embd=1600, n_layer=48, n_head=25, use_cache=False)
    return transformers.GPT2LMHeadModel(config), tokens(4, 1024), loss_of


def llama_2_7b():
    config = transformers.LlamaConfig(
        vocab_size=32000,
        hidden_size=4096,
        intermediate_size=11008,
        num_hidden_layers=32,
        num_attention_heads=32,
        max_position_embeddings=4096,
        pad_token_id=None,
        use_cache=False,
    )
    return transformers.LlamaForCausalLM(config), tokens(1, 4096), loss_of


def vit_huge():
    config = transformers.ViTConfig(
        hidden_size=1280,
        num_hidden_layers=32,
        num_attention_heads=16,
        intermediate_size=5120,
        image_size=224,
        patch_size=14,
        num_labels=1000,
    )
    batch = {
        "pixel_values": torch.zeros(32, 3, 224, 224),
        "labels": torch.zeros(32, dtype=torch.long),
    }
    return transformers.ViTForImageClassification(config), batch, loss_of
