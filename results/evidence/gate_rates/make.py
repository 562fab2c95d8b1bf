"""Measures how often the gate is right, by gates of their own, and writes their table.

    results/evidence/make.py gate_rates list                       what is wanted and what is stored
    results/evidence/make.py gate_rates measure [KIND]... [90m] [--trial FILE]

measure runs the next gates of a stated list (campaign.py) for an hour, or as long as it is asked,
of the kinds named or of all in turn, and appends a line for each to results/gate/campaign.jsonl. It
goes on where the last call ended, on any day. The machine must do nothing else: exit status 4 where
others use it. Kinds of commands need transformers and accelerate (harness/setup --oracles).
--trial appends to another file, and does not look whether the machine is quiet.
"""

import argparse
import re
import signal
import sys
from pathlib import Path

import stored
import summary
from gate_rates import campaign
from published import texts

PAGE = Path(__file__).resolve().parents[2] / "gate" / "README.md"
BEGIN, END = "<!-- measured gates -->", "<!-- end of measured gates -->"
# The machine was not quiet where others used this share of its CPUs while the gate ran.
DISTURBED = 0.1
GATES = {"short": "short form", "long": "long form", "commands": "commands"}


def rate_of(events, trials):
    """Returns the rate with Clopper and Pearson's interval; of none or all, its one end."""
    from gate_habits import habits

    shares = [1] * events + [0] * (trials - events)
    return {"rate": events / trials, "ci95": habits.share_interval(shares)}


def share_cell(gates, happens):
    events = sum(map(happens, gates))
    return f"{events}: {texts.percent(rate_of(events, len(gates)))}"


def is_false_alarm(gate):
    return any(name != gate["slowed"] for name in gate["flagged"])


def is_found(gate):
    return gate["exit_status"] == 1 and (
        gate["slowed"] is None or gate["slowed"] in gate["flagged"]
    )


def has_passed(gate):
    if gate["slowed"] is None:
        return gate["exit_status"] == 0
    return gate["verdicts"][gate["slowed"]] == "pass"


def phase_words(gates):
    """Returns a sentence on the phases that were named in slowed rows; none where none was tested.
    Builds get their work in the phase "optimizer" (harness/run/extra_work.h)."""
    named = [gate.get("longer_in", {}).get(gate["slowed"]) for gate in gates]
    named = [phases for phases in named if phases is not None]
    if not named:
        return ""
    right = sum(phases == ["optimizer"] for phases in named)
    wrong = sum(any(phase != "optimizer" for phase in phases) for phases in named)
    return (
        f" Work is added in the phase optimizer: {right} of {len(named)} slowed rows whose phases "
        f"were tested name it and no other, {wrong} name another one."
    )


def row_of(name, gates):
    """Returns a kind's row of the table. The candidate of commands is one row: what is slowed."""
    kind = campaign.KINDS[name]
    place = f"{GATES[kind.gate]}, {'beside four busy processes' if kind.loaded else 'quiet'}"
    alarms, found = share_cell(gates, is_false_alarm), "-"
    if kind.extra:
        found = share_cell(gates, is_found)
        alarms = "-" if kind.gate == "commands" else alarms
    slower = f"{100 * kind.extra:g} %" if kind.extra else "none"
    return [place, slower, str(len(gates)), alarms, found, share_cell(gates, has_passed)]


def lines_of(gates):
    """Returns the lines between the page's marks; none where no gate is stored."""
    if not gates:
        return []
    loaded = {name for name, kind in campaign.KINDS.items() if kind.loaded}
    kept = [g for g in gates if g["kind"] in loaded or g["others_share"] < DISTURBED]
    rows = [["gate", "slower by", "gates", "false alarms", "found", "passed"]]
    for name in campaign.KINDS:
        if of_kind := [gate for gate in kept if gate["kind"] == name]:
            rows.append(row_of(name, of_kind))
    hosts = sorted({f"{g['host']['cpu_model']}, {g['host']['cpus']} CPUs" for g in gates})
    days = texts.span([gate["start_time"][:10] for gate in gates])
    said = (
        f"Measured: {texts.counted(len(kept), 'gate')} of their own, {days}, on "
        f"{'; '.join(hosts)}. Each counts once; intervals are exact 95 % intervals. A false alarm "
        "is a row that is reported and was not slowed, whatever the gate's verdict."
    )
    said += phase_words(kept)
    if left_out := len(gates) - len(kept):
        said += f" {texts.counted(left_out, 'gate')} left out: others used the machine meanwhile."
    return [
        "",
        texts.wrapped(said),
        "",
        *summary.markdown(rows).split("\n"),
        "",
    ]


def pages():
    lines = lines_of(campaign.stored_gates())
    return {PAGE: stored.between(PAGE.read_text(), (BEGIN, END), lines)}


def show_list():
    done = campaign.counts_of(campaign.stored_gates())
    for name, kind in campaign.KINDS.items():
        _, row = campaign.drawn(name, done[name])
        slowed = ", ".join(f"{key} {value}" for key, value in row.items()) if row else "-"
        print(f"{name}: {done[name]} of {kind.wanted}, {kind.minutes} min each; next: {slowed}")


def measure(*words):
    parser = argparse.ArgumentParser(prog="make.py gate_rates measure")
    parser.add_argument("words", nargs="*", metavar="KIND or MINUTESm")
    parser.add_argument("--trial", type=Path, metavar="FILE")
    asked = parser.parse_args(words)
    kinds = [word for word in asked.words if word in campaign.KINDS]
    minutes = [word for word in asked.words if re.fullmatch(r"\d+m", word)]
    if len(kinds) + len(minutes) < len(asked.words) or len(minutes) > 1:
        parser.error(f"expected 60m, or any of: {', '.join(campaign.KINDS)}")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # ends what was started
    limit = int(minutes[0][:-1]) if minutes else 60
    campaign.campaign(kinds or list(campaign.KINDS), limit, asked.trial)


STEPS = {"measure": measure, "list": show_list}
