"""Predicts figures that others published from a part of them: by hand."""

import copy
import sys
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "results" / "evidence"))
import make as evidence  # noqa: E402

make = evidence.item("external")


def row(role, value, nodes, ranks_per_node, **more):
    place = {"label": str(nodes * ranks_per_node), "nodes": nodes, "ranks_per_node": ranks_per_node}
    return place | {"role": role, "value": value} | more


# One layer of 1000 floats, so that nothing overlaps: a step of one rank takes 2 s; of two, 3 s.
# An all_reduce adds 2 (n - 1) / n s: 1.5 s for four ranks.
ONE_LAYER = {
    **dict.fromkeys(("name", "address", "about"), "by hand"),
    **{"wrapper": "ddp", "unit": "s/step", "micro_batch_size": 1, "parameters": 1000},
    **{"layers": 1, "bytes_per_element": 4},
    "rows": [
        row("gives compute", 2, 1, 1),
        row("gives intra rate", 3, 1, 2),
        row("predicted", 3.4, 1, 4),
    ],
}


def predicted(**changes):
    (found,) = make.rows_of(copy.deepcopy(ONE_LAYER) | changes)
    return found


class ByHandTest(unittest.TestCase):
    def test_what_is_not_given_is_predicted(self):
        found = predicted()
        self.assertAlmostEqual(found.predicted, 3.5, 4)
        self.assertAlmostEqual(found.error, 3.5 / 3.4 - 1, 4)

    def test_a_prediction_never_uses_the_number_that_it_predicts(self):
        other = [*ONE_LAYER["rows"][:2], row("predicted", 77, 1, 4)]
        self.assertEqual(predicted(rows=other).predicted, predicted().predicted)

    def test_rates_of_samples_are_of_all_ranks_or_of_one(self):
        rows = copy.deepcopy(ONE_LAYER["rows"])
        rows[0]["value"], rows[1]["value"] = 3, 2  # 6 samples in 2 s
        found = predicted(rows=rows, micro_batch_size=6, unit="samples/s/rank")
        self.assertAlmostEqual(found.predicted, 6 / 3.5, 4)
        rows[1]["value"] = 4
        found = predicted(rows=rows, micro_batch_size=6, unit="samples/s")
        self.assertAlmostEqual(found.predicted, 4 * 6 / 3.5, 4)

    def test_a_stated_rate_is_that_of_the_line(self):
        """4000 bytes take 1 s, and longer by what is no payload."""
        rows = [row("gives compute", 2, 1, 1), row("predicted", 3, 2, 1)]
        found = predicted(rows=rows, inter_rate="0.000032Gbps")
        self.assertAlmostEqual(found.predicted, 2 + 1514 / 1448, 4)

    def test_embeddings_are_ready_last(self):
        """The gradients of the layers hide in the layers behind them."""
        rows = [row("gives compute", 2, 1, 1), row("predicted", 3, 2, 1)]
        many = {"rows": rows, "layers": 100, "parameters": 10**8, "inter_rate": "1000Gbps"}
        embeddings_s = 25e6 * 4 * 8 / 1e12 * 1514 / 1448
        late = predicted(**many, embedding_share=0.25).predicted
        self.assertAlmostEqual(late, 2 + embeddings_s, delta=0.3 * embeddings_s)
        self.assertLess(predicted(**many).predicted, 2 + embeddings_s / 2)

    def test_half_of_the_bytes_take_half_as_long(self):
        rows = [row("gives compute", 2, 1, 1), row("predicted", 3, 2, 1)]
        found = predicted(rows=rows, inter_rate="0.000032Gbps", bytes_per_element=2)
        self.assertAlmostEqual(found.predicted, 2 + 1514 / 1448 / 2, 4)


if __name__ == "__main__":
    unittest.main(verbosity=2)
