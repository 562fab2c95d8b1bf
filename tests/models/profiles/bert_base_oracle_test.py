"""The profile's parameters and buckets against transformers' model and torch's own cut.

Covers: bert_base.py.
"""

import sys
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "models/profiles"))

import bert_base  # noqa: E402

try:
    import torch
    import torch.distributed as dist
    from transformers import BertConfig, BertForSequenceClassification
except (ImportError, OSError) as error:
    print(f"skipped: transformers and torch cannot be imported ({error})")
    sys.exit(77)


def reference_model():
    config = BertConfig(vocab_size=28996, num_labels=2)  # bert-base-cased
    with torch.device("meta"):
        return BertForSequenceClassification(config)


class BertBaseOracle(unittest.TestCase):
    def test_names_shapes_and_order_are_transformers(self):
        ours = [parameter for _, layer in bert_base.bert_layers() for parameter in layer]
        theirs = [(n, list(p.shape)) for n, p in reference_model().named_parameters()]
        self.assertEqual(ours, theirs)

    def test_buckets_are_those_torch_cuts(self):
        arrivals = bert_base.gradient_arrivals()
        gradients = [torch.empty(size // 4, device="meta") for _, size in arrivals]
        limits = [dist._DEFAULT_FIRST_BUCKET_BYTES, 25 * 1024 * 1024]
        # Indices given: the cut keeps the order of arrival, as the Reducer's rebuild does.
        indices, _ = dist._compute_bucket_assignment_by_size(
            gradients, limits, [False] * len(gradients), list(range(len(gradients)))
        )
        sizes = [sum(arrivals[i][1] for i in bucket) for bucket in indices]
        self.assertEqual(sizes, [size for _, size in bert_base.buckets()])


if __name__ == "__main__":
    unittest.main()
