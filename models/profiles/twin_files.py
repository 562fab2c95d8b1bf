"""The files the fit determines: the paced profile and the two topologies.

Formats: models/profiles/README.md (profile), harness/launch/topology.h (topology).
"""

import json
from pathlib import Path

from bert_base import POSITIONS, bert_layers

PROFILE = Path("models/profiles/paced_bert_base_t4.json")
TOPOLOGIES = {
    "multi_node": Path("benchmarks/topologies/t4_2x1.json"),
    "single_node": Path("benchmarks/topologies/t4_1x2.json"),
}


def profile(twin):
    layers = []
    for name, parameters in bert_layers():
        computes = name.startswith("encoder")
        layers.append(
            {
                "name": name,
                "forward_s": twin.layer_forward_s if computes else 0.0,
                "backward_s": twin.layer_backward_s if computes else 0.0,
                "parameters": [{"name": n, "shape": s} for n, s in parameters],
            }
        )
    buffers = ("position_ids", "token_type_ids")
    return {
        "schema": "gradsync.profile/1",
        "name": PROFILE.stem,
        "about": "BERT-base (cased, 2 labels), 16 examples a micro-batch, on a T4: "
        "paced compute, calibrated to the published slowdown table",
        "source": "written by models/profiles/fit_t4.py from results/reference/"
        "slowdown_table.json; do not edit",
        "layers": layers,
        "optimizer_s": 0.0,
        "dtype": "float32",
        "buffers": [
            {"name": f"bert.embeddings.{name}", "shape": [1, POSITIONS]} for name in buffers
        ],
    }


def topology(twin, setup):
    link = {"rate": f"{twin.line_gbps[setup]}Gbps"}
    multi = setup == "multi_node"
    where = "two machines with one T4 each" if multi else "one machine with two T4"
    return {
        "schema": "gradsync.topology/1",
        "about": f"the guide's {where}; line rate calibrated to the published slowdown "
        "table by models/profiles/fit_t4.py",
        "nodes": 2 if multi else 1,
        "ranks_per_node": 1 if multi else 2,
        "inter_node": link if multi else None,
        "intra_node": None if multi else link,
    }


def render(value, indent=0, width=100):
    """JSON with one line for whatever fits into one: a parameter a line, not six."""
    line = json.dumps(value)
    if indent + len(line) <= width or not isinstance(value, dict | list):
        return line
    pad = " " * (indent + 2)
    if isinstance(value, dict):
        items = [f"{json.dumps(k)}: {render(v, indent + 2)}" for k, v in value.items()]
    else:
        items = [render(v, indent + 2) for v in value]
    opening, closing = "{}" if isinstance(value, dict) else "[]"
    body = ",\n".join(pad + item for item in items)
    return f"{opening}\n{body}\n{' ' * indent}{closing}"


def files(twin):
    """Returns {path: text} of everything the fit determines."""
    result = {PROFILE: render(profile(twin)) + "\n"}
    for setup, path in TOPOLOGIES.items():
        result[path] = render(topology(twin, setup)) + "\n"
    return result
