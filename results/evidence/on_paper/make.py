"""Peaks of memory that others measured on GPUs, beside what `gradsync predict memory` said of the
same jobs on GPUs of paper before anybody here had read the figures.

foretold.json holds the predictions, published.json the figures, jobs.tar.gz the jobs. known.json
holds both of jobs whose figures were known before, guide.json the runs of the guide's memory table,
bounds.json what was found later of jobs whose host may run ahead of the GPU.
"""

import statistics
from pathlib import Path

import stored

HERE = Path(__file__).resolve().parent
PAGE = HERE / "README.md"
TABLE = ("<!-- foretold -->", "<!-- end of foretold -->")
KNOWN = ("<!-- known -->", "<!-- end of known -->")
GUIDE = ("<!-- guide -->", "<!-- end of guide -->")
BOUNDS = ("<!-- bounds -->", "<!-- end of bounds -->")
# The guide's own table.
SAID = {
    "accumulation 1": "69G",
    "accumulation 2": "OOM",
    "accumulation 16, sync_each_batch": "69G",
}
UNITS = {10**9: "GB", 2**30: "GiB", 2**20: "MiB"}


def rows():
    """Returns a row for each figure: a prediction with what was published."""
    published = stored.read(HERE / "published.json")
    found = []
    for row in stored.read(HERE / "foretold.json")["rows"]:
        figure = published[row["case"]]
        found.append(row | {"figure": figure, "off": off(row, figure)})
    return sorted(found, key=lambda row: -abs(row["off"] or 0))


def off(row, figure):
    """Returns by which share the prediction is larger; None where no number was published."""
    if row["quantity"] not in figure:
        return None
    return row["predicted"]["bytes"] / (figure[row["quantity"]] * row["unit_bytes"]) - 1


def number(value):
    return f"{value:.0f}" if value >= 1000 else f"{value:.4g}"


def cells(row):
    unit = UNITS[row["unit_bytes"]]
    figure = row["figure"]
    note = figure.get("note", "")
    told = row["predicted"]["bytes"] / row["unit_bytes"]
    if row["off"] is None:
        return ["out of memory", "out of memory" if is_out(row) else "fits", "", note]
    return [
        f"{number(figure[row['quantity']])} {unit}",
        f"{number(told)} {unit}",
        f"{100 * row['off']:+.1f} %",
        note,
    ]


def is_out(row):
    return row["predicted"]["status"] == "oom"


def is_layer(row):
    """Whether it is no training job, but a layer or two whose script prints the peak itself."""
    return row["case"][:2] in ("08", "17")


def line_of(what, kept):
    offs = [
        abs(row["off"])
        for row in kept
        if row["off"] is not None and not row["figure"].get("is_rounded")
    ]
    within = sum(value <= 0.1 for value in offs)
    return (
        f"- {what}: {len(offs)} figures, median {100 * statistics.median(offs):.1f} %, worst "
        f"{100 * max(offs):.0f} %; {within} of them within 10 %"
    )


def summary(all_rows):
    reserved = [row for row in all_rows if row["quantity"] == "reserved"]
    allocated = [row for row in all_rows if row["quantity"] == "allocated"]
    lines = [
        line_of("reserved by training jobs", reserved),
        line_of("allocated by training jobs", [row for row in allocated if not is_layer(row)]),
        line_of("allocated by single layers (08, 17)", [row for row in allocated if is_layer(row)]),
    ]
    runs = {row["case"]: row for row in all_rows}.values()
    out = [is_out(row) for row in runs if "status" in row["figure"]]
    fit = [is_out(row) for row in runs if "status" not in row["figure"]]
    lines.append(
        f"- {sum(out)} of the {len(out)} runs that ran out of memory were predicted to, and "
        f"{sum(fit)} of the {len(fit)} others"
    )
    return lines


def table():
    all_rows = rows()
    lines = ["", *summary(all_rows), ""]
    lines.append("| case | job | quantity | published | predicted | off | likely cause |")
    lines.append("|:--|:--|:--|--:|--:|--:|:--|")
    for row in all_rows:
        job = f"[{row['job']}]({row['address']})"
        quantity = "outcome" if row["off"] is None else row["quantity"]
        lines.append("| " + " | ".join([row["case"], job, quantity, *cells(row)]) + " |")
    return [*lines, ""]


def known_table():
    lines = ["", "| job | quantity | published | predicted | off |", "|:--|:--|--:|--:|--:|"]
    for row in stored.read(HERE / "known.json"):
        gib = row["predicted_bytes"] / 2**30
        lines.append(
            f"| [{row['job']}]({row['address']}) | {row['quantity']} | {number(row['gib'])} GiB | "
            f"{number(gib)} GiB | {100 * (gib / row['gib'] - 1):+.1f} % |"
        )
    return [*lines, ""]


def guide_table():
    lines = ["", "| run | allocated | reserved | | guide |", "|:--|--:|--:|:--|:--|"]
    for run in stored.read(HERE / "guide.json"):
        peaks = (run["peak_allocated_bytes"], run["peak_reserved_bytes"])
        told = " | ".join(f"{number(peak / 2**30)} GiB" for peak in peaks)
        out = "**out of memory**" if run["status"] == "oom" else "fits"
        lines.append(f"| {run['run']} | {told} | {out} | {SAID.get(run['run'], '')} |")
    return [*lines, ""]


def bounds_table():
    published = stored.read(HERE / "published.json")
    reserved = [row for row in rows() if row["quantity"] == "reserved"]
    jobs = {row["case"]: row for row in reserved}
    lines = ["", "| case | job | published | at least | at most |", "|:--|:--|--:|--:|--:|"]
    for bound in stored.read(HERE / "bounds.json"):
        row = jobs[bound["case"]]
        unit = UNITS[row["unit_bytes"]]
        least, most = (bound[f"{end}_bytes"] / row["unit_bytes"] for end in ("least", "most"))
        figure = published[bound["case"]]["reserved"]
        lines.append(
            f"| {bound['case']} | {row['job']} | {number(figure)} {unit} | {number(least)} {unit} |"
            f" {number(most)} {unit} |"
        )
    return [*lines, ""]


def pages():
    text = stored.between(PAGE.read_text(), TABLE, table())
    text = stored.between(text, BOUNDS, bounds_table())
    text = stored.between(text, KNOWN, known_table())
    return {PAGE: stored.between(text, GUIDE, guide_table())}


STEPS = {}
