"""Six architectures of transformers by their configurations: tiny sizes, random weights.

Each function is what models/record_profile.py takes; BLOCKS has the classes that fully_shard is
given as units.
"""

import torch

VOCABULARY, EXAMPLES, LENGTH = 2000, 4, 64
FEW = 3  # tokens of an example where weights are to outweigh activations
BLOCKS = {
    "gpt2": "GPT2Block",
    "gpt2_of_few_tokens": "GPT2Block",
    "llama_of_few_tokens": "LlamaDecoderLayer",
    "llama_checkpointed": "LlamaDecoderLayer",
    "llama": "LlamaDecoderLayer",
    "qwen2": "Qwen2DecoderLayer",
    "mixtral": "MixtralDecoderLayer",
    "t5": "T5Block",
    "vit": "ViTLayer",
}
DECODER = {
    "vocab_size": VOCABULARY,
    "hidden_size": 128,
    "intermediate_size": 352,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 128,
    "pad_token_id": None,
    "use_cache": False,
}


def loss_of(model, batch):
    return model(**batch).loss


def tokens(examples=EXAMPLES, length=LENGTH):
    ids = torch.randint(0, VOCABULARY, (examples, length))
    return {"input_ids": ids, "labels": ids.clone()}


def gpt2_model(vocabulary, positions):
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(
        vocab_size=vocabulary,
        n_positions=positions,
        n_embd=128,
        n_layer=4,
        n_head=4,
        bos_token_id=0,
        eos_token_id=0,
        use_cache=False,
    )
    return GPT2LMHeadModel(config)


def gpt2():
    """Words in and out are tied."""
    return gpt2_model(VOCABULARY, 128), tokens(), loss_of


def llama():
    from transformers import LlamaConfig, LlamaForCausalLM

    return LlamaForCausalLM(LlamaConfig(**DECODER)), tokens(), loss_of


def gpt2_of_few_tokens():
    """Its vocabulary cannot be dealt out evenly."""
    return gpt2_model(VOCABULARY + 1, 33), tokens(2, FEW), loss_of


def llama_of_few_tokens():
    return llama()[0], tokens(2, FEW), loss_of


def llama_checkpointed():
    """Its layers compute again in backward what they do not keep."""
    model, batch, _ = llama()
    model.gradient_checkpointing_enable({"use_reentrant": False})
    return model, batch, loss_of


def qwen2():
    """Words in and out are tied; projections have biases."""
    from transformers import Qwen2Config, Qwen2ForCausalLM

    config = Qwen2Config(**DECODER, tie_word_embeddings=True)
    return Qwen2ForCausalLM(config), tokens(), loss_of


def mixtral():
    """Experts take as many tokens as the router gives them."""
    from transformers import MixtralConfig, MixtralForCausalLM

    config = MixtralConfig(**DECODER, num_local_experts=4, num_experts_per_tok=2)
    return MixtralForCausalLM(config), tokens(), loss_of


def t5():
    """An encoder beside a decoder, whose words are tied."""
    from transformers import T5Config, T5ForConditionalGeneration

    config = T5Config(
        vocab_size=VOCABULARY,
        d_model=128,
        d_kv=32,
        d_ff=512,
        num_layers=3,
        num_heads=4,
        decoder_start_token_id=0,
        use_cache=False,
    )
    return T5ForConditionalGeneration(config), tokens(), loss_of


def vit():
    from transformers import ViTConfig, ViTForImageClassification

    config = ViTConfig(
        hidden_size=128,
        num_hidden_layers=4,
        num_attention_heads=4,
        intermediate_size=512,
        image_size=64,
        patch_size=8,
        num_labels=10,
    )
    batch = {
        "pixel_values": torch.randn(EXAMPLES, 3, 64, 64),
        "labels": torch.randint(0, 10, (EXAMPLES,)),
    }
    return ViTForImageClassification(config), batch, loss_of
