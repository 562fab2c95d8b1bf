"""How all pictures look and are saved: colours that colour-blind readers can tell apart, names."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

try:
    import matplotlib
except ImportError as error:
    sys.exit(f"error: {error}; install it with pip, or use the Python that set-up made ready")

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from run_data import USUAL, DataError, Strategy

# Okabe and Ito's palette, "Color Universal Design", 2008. Strategies that pictures have had keep
# their colour; others take from the rest.
COLOURS = {
    "baseline": "#D55E00",
    "sync_each_batch": "#CC79A7",
    "no_sync_improper": "#E69F00",
    "no_sync": "#0072B2",
    "accumulate": "#56B4E9",
    "pipelined": "#009E73",
}
MORE_COLOURS = ("#F0E442", "#000000")
INK = "#222222"
GREY = "#8A8A8A"
FOOT_INCHES = 0.15
LEGEND_INCHES = 0.26
LEGEND_COLUMNS = 6  # at most; more entries, or wider ones, go to another line

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
        "figure.max_open_warning": 0,  # one for each setting of a plan, and save() closes them
        "savefig.dpi": 200,
        "svg.hashsalt": "gradsync",
    }
)


def colour(strategy: Strategy) -> str:
    return COLOURS.get(strategy.name, MORE_COLOURS[strategy.place % len(MORE_COLOURS)])


def rate_text(bits_per_s: float) -> str:
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
    return shape if rate is None else f"{shape}{separator}{rate_text(rate)}"


def sharding_label(cell: dict[str, Any]) -> str:
    """PyTorch's name for how FSDP keeps parameters; "DDP", or another wrapper's own name."""
    if cell["wrapper"] != "fsdp":
        return "DDP" if cell["wrapper"] == "ddp" else cell["wrapper"]
    return "FULL_SHARD" if cell["reshard_after_forward"] else "SHARD_GRAD_OP"


def parameter_words(name: str, value: Any) -> str:
    """'accumulation 4', 'budget 316 MiB', 'param_dtype bfloat16'; None: the cell leaves it out."""
    if name == "accumulation_steps":
        return f"accumulation {value}"
    if name == "memory_budget_bytes":
        return "no budget" if value is None else f"budget {value / 2**20:.4g} MiB"
    return f"{name} {value}"


def setting_words(part: Any, cell: dict[str, Any], besides: Collection[str] = ()) -> list[str]:
    """Returns what distinguishes this cell from others in its part, besides topology and strategy.
    In a crowded part, it leaves out levers at their defaults, as the page's fronts do.
    """
    varying = part.varying()
    if part.is_crowded():
        told = {"wrapper", "accumulation_steps"}
        varying = [
            name
            for name in varying
            if name in told or cell.get(name, False) not in (False, USUAL.get(name))
        ]
    words = []
    if {"wrapper", "reshard_after_forward"} & set(varying):
        words.append(sharding_label(cell))
    left_out = {"wrapper", "reshard_after_forward", *besides}
    words += [parameter_words(name, cell.get(name)) for name in varying if name not in left_out]
    return words


def picture_name(kind: str, part: Any, cell: dict[str, Any]) -> str:
    """A file name from what the picture shows: its kind, part, topology and what varies there."""
    words = [kind, part.name, cell["topology"]]
    words += [word.lower() for word in setting_words(part, cell)]
    return re.sub(r"[^A-Za-z0-9_]+", "_", "_".join(word for word in words if word))


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
    """Returns what made the picture, as far as known."""
    context = run.context
    commit = context.get("commit")
    groups = (
        ("gradsync", context.get("gradsync"), commit and f"({commit})"),
        ("torch", context.get("torch"), context.get("backend")),
        ("plan", run.plan.get("name"), None),
        ("", (context.get("start_time") or "")[:10], None),
    )
    return ", ".join(" ".join(filter(None, group)) for group in groups if group[1])


def _add_legend(figure: Any, entries: list[Any]) -> int:
    """At the foot, in as few lines as its width allows. Returns how many there are."""
    place = (0.5, FOOT_INCHES / figure.get_figheight())
    for lines in range(-(-len(entries) // LEGEND_COLUMNS), len(entries) + 1):
        legend = figure.legend(
            handles=entries,
            loc="lower center",
            bbox_to_anchor=place,
            borderaxespad=0.1,
            ncols=-(-len(entries) // lines),
            fontsize=8,
        )
        if legend.get_window_extent(figure.canvas.get_renderer()).width <= figure.bbox.width:
            break
        if lines < len(entries):
            legend.remove()
    return lines


def finish(figure: Any, run: Any, title: str, entries: list[Any] | None = None) -> None:
    """Adds the title, the legend below the panels, and at the foot what made the picture."""
    # Names may hold a dollar, which is no formula.
    figure.suptitle(title, fontsize=10.5, fontweight="bold", parse_math=False)
    height = figure.get_figheight()
    lines = _add_legend(figure, entries) if entries else 0
    used = (FOOT_INCHES + lines * LEGEND_INCHES) / height
    figure.get_layout_engine().set(rect=(0, used, 1, 1 - used))
    foot = {"fontsize": 6, "color": GREY, "ha": "right", "va": "bottom", "parse_math": False}
    figure.text(0.995, 0.03 / height, provenance(run), **foot)


def mark_micro_batch(axes: Any, number: int, at: float, line: dict[str, Any]) -> None:
    """A dotted line where micro-batch `number`, from 0, begins, and its number from 1 above it."""
    axes.axvline(at, linestyle=":", **line)
    axes.annotate(
        f"{number + 1}",
        (at, 1),
        xycoords=("data", "axes fraction"),
        xytext=(2, 1),
        textcoords="offset points",
        fontsize=7,
        color=GREY,
    )


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


def run(
    arguments: list[str],
    about: str,
    argument: tuple[str, str],
    draw: Callable[[Path], tuple[dict[str, Any], Path]],
    nothing: str,
) -> int:
    """What a program does that draws: reads the path in `arguments`, draws, saves, names the files.

    `argument`: the path's name and help. `draw` returns the figures and the folder for them;
    `nothing` says why there are none. Returns the exit status: 2 for bad data, 5 where nothing can
    be written.
    """
    parser = argparse.ArgumentParser(description=about.splitlines()[0])
    parser.add_argument("path", metavar=argument[0], type=Path, help=argument[1])
    try:
        figures, folder = draw(parser.parse_args(arguments).path)
        if not figures:
            print(f"nothing to draw: {nothing}", file=sys.stderr)
        for written in save(figures, folder):
            print(written)
    except DataError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except OSError as error:
        print(f"error: {error.filename}: {error.strerror}", file=sys.stderr)
        return 5
    return 0
