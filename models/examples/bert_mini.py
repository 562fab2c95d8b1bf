"""`bert_mini` in PyTorch: transformers' BERT, 4 layers x 256, 16 x 64 tokens.

    models/record_profile.py models/examples/bert_mini.py:build --out bert_mini_recorded.json
    gradsync run bert_mini --model bert_mini --model bert_mini_recorded.json --set lengths=fixed

The first model computes, the second waits as long: their steps should take the same time. Attention
is the `eager` one, which does the arithmetic of models/bert.cpp; transformers' default is another.
"""

import torch
from transformers import BertConfig, BertForSequenceClassification

VOCABULARY = 28996  # bert-base-cased
MICRO_BATCH, LENGTH = 16, 64


def build():
    config = BertConfig(
        vocab_size=VOCABULARY,
        num_hidden_layers=4,
        hidden_size=256,
        num_attention_heads=4,
        intermediate_size=1024,
        num_labels=2,
        attn_implementation="eager",
    )
    batch = {
        "input_ids": torch.randint(1, VOCABULARY, (MICRO_BATCH, LENGTH)),
        "labels": torch.randint(0, 2, (MICRO_BATCH,)),
    }
    return BertForSequenceClassification(config), batch, loss_of


def loss_of(model, batch):
    return model(**batch).loss
