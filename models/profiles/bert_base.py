"""BERT-base as DDP sees it: its parameters, and when which bucket of gradients is full.

Parameters are those of Hugging Face's BertForSequenceClassification for bert-base-cased
with two labels, in registration order, which decides what DDP puts into which bucket.

Source: torch/csrc/distributed/c10d/reducer.cpp (how buckets are cut).
"""

import math

ENCODER_LAYERS = 12
HIDDEN, INTERMEDIATE, VOCABULARY, POSITIONS, LABELS = 768, 3072, 28996, 512, 2
FLOAT32_BYTES = 4
# DistributedDataParallel's defaults; a bucket closes on reaching its limit.
FIRST_BUCKET_BYTES = 1 << 20
BUCKET_BYTES = 25 << 20


def dense(name, outputs, inputs):
    return [(f"{name}.weight", [outputs, inputs]), (f"{name}.bias", [outputs])]


def norm(name):
    return [(f"{name}.weight", [HIDDEN]), (f"{name}.bias", [HIDDEN])]


def encoder_layer(index):
    name = f"bert.encoder.layer.{index}"
    return [
        *dense(f"{name}.attention.self.query", HIDDEN, HIDDEN),
        *dense(f"{name}.attention.self.key", HIDDEN, HIDDEN),
        *dense(f"{name}.attention.self.value", HIDDEN, HIDDEN),
        *dense(f"{name}.attention.output.dense", HIDDEN, HIDDEN),
        *norm(f"{name}.attention.output.LayerNorm"),
        *dense(f"{name}.intermediate.dense", INTERMEDIATE, HIDDEN),
        *dense(f"{name}.output.dense", HIDDEN, INTERMEDIATE),
        *norm(f"{name}.output.LayerNorm"),
    ]


def bert_layers():
    """(layer, parameters) in registration order, as Hugging Face's
    BertForSequenceClassification has them for bert-base-cased with two labels."""
    name = "bert.embeddings"
    embeddings = [
        (f"{name}.word_embeddings.weight", [VOCABULARY, HIDDEN]),
        (f"{name}.position_embeddings.weight", [POSITIONS, HIDDEN]),
        (f"{name}.token_type_embeddings.weight", [2, HIDDEN]),
        *norm(f"{name}.LayerNorm"),
    ]
    head = [
        *dense("bert.pooler.dense", HIDDEN, HIDDEN),
        *dense("classifier", LABELS, HIDDEN),
    ]
    encoder = [(f"encoder.layer.{i}", encoder_layer(i)) for i in range(ENCODER_LAYERS)]
    return [("embeddings", embeddings), *encoder, ("head", head)]


def gradient_arrivals():
    """(share of backward at which it is ready, bytes) per gradient, in order of arrival.

    Backward time is the encoder layers' alone, in equal parts: the head's gradients are
    there at once, the embeddings' with those of the first encoder layer.
    """
    arrivals, layers_done = [], 0
    for name, parameters in reversed(bert_layers()):
        layers_done += name.startswith("encoder")
        for _, shape in reversed(parameters):
            size = math.prod(shape) * FLOAT32_BYTES
            arrivals.append((layers_done / ENCODER_LAYERS, size))
    return arrivals


def buckets():
    """(share of backward at which it is full, bytes) of each bucket after DDP's rebuild."""
    result, size, share = [], 0, 0.0
    for share, tensor_bytes in gradient_arrivals():
        size += tensor_bytes
        if size >= (BUCKET_BYTES if result else FIRST_BUCKET_BYTES):
            result.append((share, size))
            size = 0
    return [*result, (share, size)] if size else result
