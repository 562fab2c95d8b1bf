"""How all pictures look: colours that colour-blind readers can tell apart, names, saving."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

# Okabe and Ito's palette, "Color Universal Design", 2008.
COLOURS = {
    "baseline": "#D55E00",
    "sync_each_batch": "#CC79A7",
    "no_sync_improper": "#E69F00",
    "no_sync": "#0072B2",
    "accumulate": "#56B4E9",
}
LABELS = {"no_sync_improper": "no_sync improperly"}
INK = "#222222"
GREY = "#8A8A8A"
FOOT_INCHES = 0.15
LEGEND_INCHES = 0.26

plt.rcParams.update(
    {
        "font.size": 9,
        "axes.titlesize": 10,
        "axes.titlelocation": "left",
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.edgecolor": INK,
        "axes.labelcolor": INK,
        "text.color": INK,
        "xtick.color": INK,
        "ytick.color": INK,
        "axes.axisbelow": True,
        "grid.color": "#DDDDDD",
        "grid.linewidth": 0.6,
        "legend.frameon": False,
        "figure.constrained_layout.use": True,
        "savefig.dpi": 200,
        "svg.hashsalt": "gradsync",
    }
)


def strategy_label(strategy: str) -> str:
    return LABELS.get(strategy, strategy)


def _rate(bits_per_s: float) -> str:
    if bits_per_s >= 1e9:
        return f"{bits_per_s / 1e9:.4g} Gbit/s"
    return f"{bits_per_s / 1e6:.4g} Mbit/s"


def topology_label(context: dict[str, Any], cell: dict[str, Any], separator: str = "\n") -> str:
    """'2 nodes x 1 rank', and its link's rate after the separator where it is shaped."""
    name = cell["cell"]["topology"]
    topology = context.get("topologies", {}).get(name, {})
    nodes = topology.get("nodes", cell.get("nodes"))
    ranks = topology.get("ranks_per_node", cell.get("ranks_per_node"))
    if nodes is None or ranks is None:
        return name
    shape = f"{nodes} node{'s' * (nodes > 1)} × {ranks} rank{'s' * (ranks > 1)}"
    rate = topology.get("inter_node_bits_per_s" if nodes > 1 else "intra_node_bits_per_s")
    return shape if rate is None else f"{shape}{separator}{_rate(rate)}"


def compute_words(part: Any) -> str:
    """Says which kind of compute a part has; it belongs into every title."""
    if not part.paced():
        return "real compute"
    scale = max(cell.get("scale", 1) for cell in part.cells)
    scaled = f", bytes and link rate ÷ {scale}" if scale > 1 else ""
    return f"paced compute, real traffic{scaled}"


def part_title(part: Any) -> str:
    models = dict.fromkeys(cell["cell"]["model"] for cell in part.cells)
    return f"{', '.join(models)}: {compute_words(part)}"


def provenance(run: Any) -> str:
    context = run.context
    words = [f"gradsync {context.get('gradsync', '?')} ({context.get('commit', '?')})"]
    words.append(f"torch {context.get('torch', '?')} {context.get('backend', '?')}")
    words.append(f"plan {run.plan.get('name', '?')}, {context.get('start_time', '')[:10]}")
    return ", ".join(words)


def finish(figure: Any, run: Any, title: str, entries: list[Any] | None = None) -> None:
    """Adds the title, the legend below the panels, and at the foot what made the picture."""
    figure.suptitle(title, fontsize=10.5, fontweight="bold")
    height = figure.get_figheight()
    used = (FOOT_INCHES + (LEGEND_INCHES if entries else 0)) / height
    figure.get_layout_engine().set(rect=(0, used, 1, 1 - used))
    if entries:
        figure.legend(
            handles=entries,
            loc="lower center",
            bbox_to_anchor=(0.5, FOOT_INCHES / height),
            borderaxespad=0.1,
            ncols=len(entries),
            fontsize=8,
        )
    foot = {"fontsize": 6, "color": GREY, "ha": "right", "va": "bottom"}
    figure.text(0.995, 0.03 / height, provenance(run), **foot)


def save(figures: dict[str, Any], directory: Path) -> list[Path]:
    """Writes each figure as PNG and SVG and closes it. Returns the paths."""
    directory.mkdir(parents=True, exist_ok=True)
    written = []
    for name, figure in figures.items():
        for suffix in ("png", "svg"):
            path = directory / f"{name}.{suffix}"
            metadata = {"Date": None} if suffix == "svg" else None
            figure.savefig(path, metadata=metadata)
            written.append(path)
        plt.close(figure)
    return written
