"""Fine-tunes Mixtral 8x7B by Accelerate's FSDP, as the guide's memory table does, on random tokens
and without weights: for `gradsync predict memory --on 8xa100-80`.

The guide leaves open what the flags set; README.md prints what each of them changes.
"""

import argparse

import torch
from accelerate import Accelerator, FullyShardedDataParallelPlugin
from accelerate.utils import GradientAccumulationPlugin
from transformers import MixtralConfig, MixtralForCausalLM


def options():
    parser = argparse.ArgumentParser()
    parser.add_argument("--accumulation", type=int, default=1)
    parser.add_argument("--sync-each-batch", action="store_true")
    parser.add_argument("--tokens", type=int, default=512)
    parser.add_argument("--no-checkpointing", action="store_true")
    parser.add_argument("--mixed", action="store_true", help="float32 parameters, bf16 computation")
    parser.add_argument("--fsdp", type=int, choices=(1, 2), default=1)
    parser.add_argument("--layers", type=int, default=32)
    return parser.parse_args()


def accelerator(chosen):
    plugin = FullyShardedDataParallelPlugin(
        fsdp_version=chosen.fsdp,
        auto_wrap_policy="transformer_based_wrap",
        transformer_cls_names_to_wrap=["MixtralDecoderLayer"],
        activation_checkpointing=not chosen.no_checkpointing,
        **({"use_orig_params": True, "sync_module_states": True} if chosen.fsdp == 1 else {}),
    )
    accumulation = GradientAccumulationPlugin(
        num_steps=chosen.accumulation, sync_each_batch=chosen.sync_each_batch
    )
    return Accelerator(
        mixed_precision="bf16" if chosen.mixed else "no",
        fsdp_plugin=plugin,
        gradient_accumulation_plugin=accumulation,
    )


def main():
    chosen = options()
    runner = accelerator(chosen)
    config = MixtralConfig(num_hidden_layers=chosen.layers, use_cache=False)
    with torch.device("meta"):
        model = MixtralForCausalLM(config)
    model.to(torch.float32 if chosen.mixed else torch.bfloat16)
    if chosen.fsdp == 1:
        model = runner.prepare(model)
    else:  # Accelerate wants an optimizer beside it, and leaves parameters on "meta"
        model, _ = runner.prepare(model, torch.optim.SGD(model.parameters()))
        model.to_empty(device=runner.device)
    optimizer = torch.optim.AdamW(model.parameters())
    tokens = torch.zeros(1, chosen.tokens, dtype=torch.long, device=runner.device)
    for _step in range(3):
        for _micro_batch in range(chosen.accumulation):
            with runner.accumulate(model):
                runner.backward(model(input_ids=tokens, labels=tokens).loss)
                if runner.sync_gradients:
                    optimizer.step()
                    optimizer.zero_grad()


if __name__ == "__main__":
    main()
