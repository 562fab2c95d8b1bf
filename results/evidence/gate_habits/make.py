"""Says how often other ways to compare two builds flag a slower step, on the gate's own turns.

    results/evidence/make.py gate_habits replay    rates.json, from the turns in results/gate

replay needs numpy and scipy (habits.py), and takes some seconds; every machine draws the same.
"""

import json
from pathlib import Path

import stored
import summary
from published import texts

HERE = Path(__file__).resolve().parent
TURNS = HERE.parents[1] / "gate"
STORED = HERE / "rates.json"
FOLDERS = ("quiet", "quiet_drawn", "loaded")
BEGIN, END = "<!-- habits -->", "<!-- end of habits -->"


def replayed():
    """Returns the rates of each folder of stored turns, by its name."""
    from gate_habits import habits

    return {folder: habits.replay(TURNS / folder) for folder in FOLDERS}


def replay():
    stored.write(STORED, replayed())


def again():
    """Returns the folders whose rates are others now."""
    now = replayed()
    return [folder for folder, rates in stored.read(STORED).items() if rates != now[folder]]


def table_of(folder, rates):
    """Returns the lines of a table: the gate's rates, and beside them those of the habits."""
    gates = json.loads((TURNS / folder / "error_rates.json").read_text())["replays"]
    of_gate = {gate["extra_work"]: gate["found"] or gate["false_alarms"] for gate in gates}
    names = ["gate", *(by["by"] for by in rates[0]["flagged"])]
    rows = [["extra work, in one row", "gates", *names]]
    for rate in rates:
        work, every = rate["extra_work"], [*of_gate[rate["extra_work"]], *rate["flagged"]]
        name = f"{100 * work:g} %: found" if work else "none: anything flagged"
        count = len(every[0]["gates"]["shares"])
        rows.append([name, str(count), *(texts.percent(by["gates"]) for by in every)])
    return [f"[{folder}](../../gate/{folder}/README.md):", "", summary.markdown(rows), ""]


def pages():
    """Returns the text of the page, by its path."""
    readme = HERE / "README.md"
    lines = [
        line for folder, rates in stored.read(STORED).items() for line in table_of(folder, rates)
    ]
    return {readme: stored.between(readme.read_text(), (BEGIN, END), ["", *lines])}


STEPS = {"replay": replay}
