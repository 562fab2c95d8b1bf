"""Trains Llama 3.1 8B of transformers without weights, as for torchtitan's table of December 2024:
fully_shard by layer, bfloat16 over float32 parameters, every second matrix product recomputed.
"""

import os

import torch
import torch.distributed as dist
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.utils.checkpoint import CheckpointPolicy, create_selective_checkpoint_contexts
from transformers import LlamaConfig, LlamaForCausalLM

SAVED = (
    torch.ops.aten._scaled_dot_product_efficient_attention.default,
    torch.ops.aten._scaled_dot_product_flash_attention.default,
    torch.ops._c10d_functional.reduce_scatter_tensor.default,
)


class EverySecondProduct:
    """Saves the first of each two matrix products, and what SAVED names."""

    def __init__(self):
        self.products = {False: 0, True: 0}  # in the recomputation: True

    def __call__(self, context, operator, *args, **kwargs):
        is_saved = operator in SAVED
        if operator == torch.ops.aten.mm.default:
            self.products[context.is_recompute] += 1
            is_saved = self.products[context.is_recompute] % 2 == 1
        return CheckpointPolicy.MUST_SAVE if is_saved else CheckpointPolicy.PREFER_RECOMPUTE


def contexts():
    return create_selective_checkpoint_contexts(EverySecondProduct())


def sharded_model():
    config = LlamaConfig(
        hidden_size=4096,
        intermediate_size=14336,
        num_hidden_layers=32,
        num_attention_heads=32,
        num_key_value_heads=8,
        vocab_size=128256,
        use_cache=False,
    )
    with torch.device("meta"):
        model = LlamaForCausalLM(config)
    precision = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    layers = model.model.layers
    for i, layer in enumerate(layers):
        layers[i] = checkpoint_wrapper(layer, context_fn=contexts, preserve_rng_state=False)
        fully_shard(layers[i], mp_policy=precision)
    fully_shard(model, mp_policy=precision)
    return model.to_empty(device="cuda").train()


def main():
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    model = sharded_model()
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    tokens = torch.zeros(2, 8192, dtype=torch.long, device="cuda")
    for _step in range(3):
        model(input_ids=tokens, labels=tokens).loss.backward()
        optimizer.step()
        optimizer.zero_grad()


if __name__ == "__main__":
    main()
