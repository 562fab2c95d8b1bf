"""Gradients that are infinite or NaN: a trial of them is invalid, whatever its times."""

import json
import math
import struct
import unittest

from program import QUICK, ProgramTest, with_cells

HIDDEN, INTERMEDIATE, VOCABULARY, POSITIONS, LAYERS = 128, 512, 28996, 512, 2
BROKEN = "bert.encoder.layer.1.output.dense.bias"

BERT = with_cells(
    QUICK,
    model=["bert_tiny"],
    strategy=["no_sync"],
    micro_batch_size=[2],
    sequence_length=[8],
)


def shapes():
    """Returns bert_tiny's tensors without its classifier, which a checkpoint may lack."""
    sizes = {
        "bert.embeddings.word_embeddings.weight": [VOCABULARY, HIDDEN],
        "bert.embeddings.position_embeddings.weight": [POSITIONS, HIDDEN],
        "bert.embeddings.token_type_embeddings.weight": [2, HIDDEN],
    }

    def linear(name, rows, columns):
        sizes[f"{name}.weight"] = [rows, columns]
        sizes[f"{name}.bias"] = [rows]

    def norm(name):
        sizes[f"{name}.weight"] = sizes[f"{name}.bias"] = [HIDDEN]

    norm("bert.embeddings.LayerNorm")
    for i in range(LAYERS):
        layer = f"bert.encoder.layer.{i}"
        for part in ("self.query", "self.key", "self.value", "output.dense"):
            linear(f"{layer}.attention.{part}", HIDDEN, HIDDEN)
        norm(f"{layer}.attention.output.LayerNorm")
        linear(f"{layer}.intermediate.dense", INTERMEDIATE, HIDDEN)
        linear(f"{layer}.output.dense", HIDDEN, INTERMEDIATE)
        norm(f"{layer}.output.LayerNorm")
    linear("bert.pooler.dense", HIDDEN, HIDDEN)
    return sizes


def checkpoint(broken_value):
    """The bytes of a safetensors file: zeros, and in one bias the value."""
    header, data = {}, bytearray()
    for name, shape in shapes().items():
        size = 4 * math.prod(shape)
        header[name] = {
            "dtype": "F32",
            "shape": shape,
            "data_offsets": [len(data), len(data) + size],
        }
        data += bytes(size)
    struct.pack_into("<f", data, header[BROKEN]["data_offsets"][0], broken_value)
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + bytes(data)


class NonFiniteTest(ProgramTest):
    def trial_from(self, value, wrapper):
        weights = self.place / "weights.safetensors"
        weights.write_bytes(checkpoint(value))
        plan = with_cells(BERT, wrapper=[wrapper])
        out = f"{wrapper}_{value}"
        outcome = self.run_plan(plan, "--weights", weights, out=out)
        (trial,) = self.trials(out)
        return outcome, trial

    def test_a_trial_of_nan_is_invalid(self):
        for wrapper, kind in (("fsdp", "unit"), ("ddp", "parameter")):
            with self.subTest(wrapper=wrapper):
                outcome, trial = self.trial_from(math.nan, wrapper)
                self.assertEqual(outcome.status, 5, outcome.err)
                self.assertEqual(trial["status"], "invalid")
                self.assertRegex(
                    trial["reason"],
                    rf"^\[rank 0/2\] non-finite gradients: after the block {kind} \S+ and \d+ more "
                    r"are not finite; the first loss that was not is that of warm-up step 1, "
                    r"micro-batch 1$",
                )

    def test_numbers_are_left_alone(self):
        outcome, trial = self.trial_from(0.5, "fsdp")
        self.assertEqual((outcome.status, trial["status"]), (0, "ok"), outcome.err)


if __name__ == "__main__":
    unittest.main(verbosity=2)
