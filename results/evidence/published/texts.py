"""The words of the published figures: each function makes a document's lines from a figure's data.
Those of the scripts that compare jobs side by side are in comparison_texts.py.

`Run` is a finished run or search as gradsync tells it; nothing here reads a file or measures.
"""

import re
from dataclasses import dataclass

import summary

MIB = 1 << 20


@dataclass(frozen=True)
class Run:
    command: tuple  # what followed `gradsync`
    page: str  # as `gradsync report` prints it
    result: dict  # result.json
    search: dict | None  # search.json, of a search

    def cells(self, part, **fields):
        """Returns the cells of a part whose fields are these."""
        return [
            cell
            for cell in self.result["cells"]
            if cell["part"] == part and fields.items() <= cell["cell"].items()
        ]

    def cell(self, part, **fields):
        (cell,) = self.cells(part, **fields)
        return cell


def part_of(page, name):
    """Returns the section of a page about one part of its plan."""
    return re.search(rf"^## {name}\n(.*?)(?=^## |\Z)", page, re.MULTILINE | re.DOTALL).group(1)


def first_table(text):
    """Returns the first Markdown table, without a line feed at its end."""
    return re.search(r"^\|.*?(?=\n\n|\Z)", text, re.MULTILINE | re.DOTALL).group(0).rstrip("\n")


def sentences(text):
    """Returns the closing sentences of a part: what was found."""
    return [line for line in text.splitlines() if line.startswith("On ")]


def measured_on(context, command):
    """Returns the caption's clause on how and where."""
    return f"`{' '.join(command)}`, {machine(context)}"


def machine(context):
    return (
        f"{context['cpu_model']}, {context['cpus']} CPUs, torch {context['torch']}, "
        f"{context['start_time'][:10]}, commit {context['commit']}"
    )


def of_run(run):
    return measured_on(run.result["context"], ("gradsync", *run.command))


def wrapped(text, width=105):
    """Returns a paragraph in lines of at most `width` characters, which part neither a number from
    its unit nor the ends of an interval."""
    kept = re.sub(r"(\[[-+0-9.]+,) ", "\\1\0", text.replace(" %", "\0%").replace("% [", "%\0["))
    lines = [""]
    for word in kept.split(" "):
        if lines[-1] and len(lines[-1]) + 1 + len(word) > width:
            lines.append("")
        lines[-1] += (" " if lines[-1] else "") + word
    return "\n".join(lines).replace("\0", " ")


def page(*blocks):
    return "\n\n".join(blocks)


def mib(size):
    return f"{size / MIB:.1f} MiB"


def span(values):
    """Returns "4" or "4 to 6"."""
    return " to ".join(map(str, sorted({min(values), max(values)})))


def slowdown_table(run):
    part = part_of(run.page, "guides_machines")
    inside, judged, error = re.search(
        r"(\d+) of (\d+) measured means lie inside.*?error over the cells ([0-9.]+) %",
        part,
        re.DOTALL,
    ).groups()
    cells = run.cells("guides_machines")
    caption = (
        "The guide's two machines, imitated on two cores. BERT-base does not compute: each layer "
        "waits as long as it takes on a T4. DDP and its traffic are real, on links of limited rate "
        f"({of_run(run)}). The sizes of gradients and the rates of links are both divided by "
        f"{span([cell['cell']['scale'] for cell in cells])}, so a transfer takes as long as at "
        "full size; the table has the full rates, and the divided bytes. s/step: mean ± standard "
        f"deviation of {span([cell['step_s']['n'] for cell in cells])} steps in total, from "
        f"{span([cell['launches'] for cell in cells])} launches; slowdown: with its 95 % interval "
        "over launches; moved: bytes of all collectives, per rank and step."
    )
    worth = (
        f"{inside} of {judged} means lie inside the 95 % interval of the guide's three raw runs; "
        f"the mean absolute error is {error} %. This is no blind prediction ([the "
        "fit](results/evidence/fit.md)): three parameters were fitted to the guide's table, only "
        "five of its eight values differ from each other, and intervals of three runs are wide. "
        "gradsync's own work takes 10 ms per synchronization; the fit subtracts these 10 ms from "
        "the transfer time."
    )
    found = " ".join(sentences(part))
    caption, worth, found = (wrapped(text, width=118) for text in (caption, worth, found))
    return page(caption, first_table(part), worth, found)


def memory_sweep(run):
    rows = [["sharding", "strategy", "peak alloc.", "predicted"]]
    for reshard, sharding in ((True, "FULL_SHARD"), (False, "SHARD_GRAD_OP")):
        for strategy in ("sync_each_batch", "no_sync"):
            cell = run.cell(
                "shards",
                strategy=strategy,
                reshard_after_forward=reshard,
                accumulation_steps=2,
            )
            peaks = (cell["peak_allocated_bytes"], cell["predicted_peak_allocated_bytes"])
            rows.append([sharding, strategy, *map(mib, peaks)])
    caption = (
        f"From {of_run(run)}: a Mixtral of 31 M parameters on four ranks, accumulation 2; memory "
        "is exact and the same in every run:"
    )
    without, each = (
        run.cell("budget", strategy=strategy, accumulation_steps=2)
        for strategy in ("no_sync", "sync_each_batch")
    )
    assert (without["status"], each["status"]) == ("oom", "ok")
    budget = without["cell"]["memory_budget_bytes"]
    place = without["oom_place"]
    two_each, two_without = (
        mib(run.cell("times", strategy=strategy, accumulation_steps=2)["peak_allocated_bytes"])
        for strategy in ("sync_each_batch", "no_sync")
    )
    words = (
        f"In a budget of {budget // MIB} MiB `no_sync` runs out of memory in the "
        f"{place['phase']} of micro-batch {place['micro_batch']}, and `sync_each_batch` fits. How "
        "much it saves depends on the ranks and on how much of the model is in layers: on two "
        f"ranks it is {two_each} against {two_without}."
    )
    return page(wrapped(caption), summary.markdown(rows, left=2), wrapped(words))


def mixtral_8x7b(run):
    (budget,) = {cell["cell"]["memory_budget_bytes"] for cell in run.result["cells"]}
    caption = (
        f"From {of_run(run)}: what tensors of one rank would hold, on a budget of "
        f"{budget >> 30} GiB, to what an allocator would have reserved, an estimate; memory is the "
        "same in every run:"
    )
    beside = run.page[run.page.index("| the guide's row") :]
    sentence = re.search(r"^This is consistent .*", beside, re.MULTILINE)[0]
    return page(wrapped(caption), first_table(beside), wrapped(sentence))


def search(run):
    axis = run.search["axis"]
    heads = [
        "topology",
        "strategy",
        "accumulation_steps",
        f"smallest {axis}",
        "peak there",
        "trials",
    ]
    rows = [
        [
            found["cell"]["topology"],
            found["cell"]["strategy"],
            str(found["cell"]["accumulation_steps"]),
            f"{found['edge']} ({mib(found['edge'])})",
            mib(found["peak_allocated_bytes"]),
            str(len(found["probes"])),
        ]
        for found in run.search["cells"]
    ]
    return page(f"{machine(run.result['context'])}:", summary.markdown([heads, *rows], left=2))


def predict_memory(printed):
    """`printed`: what `gradsync predict memory` says. The place of the peak is left out."""
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in printed.splitlines()]
    place = rows[0].index("reached in")
    kept = [rows[0], *rows[2:]]
    for row in kept:
        row[place] = "..."
    return summary.markdown(kept, left=2)


ROAD = (  # (row, part, fields of its cell); micro-batches are averaged over the 1 Gbit/s link
    ("one process", "one_process", {}),
    ("two stages, one micro-batch after the other", "model_parallel", {"strategy": "baseline"}),
    ("the same, pipelined", "model_parallel", {"strategy": "pipelined"}),
    ("two ranks that never communicate", "no_communication", {}),
    *(
        (row, "data_parallel", {"topology": "2x1_1gbit", "wrapper": wrapper, "strategy": strategy})
        for row, wrapper, strategy in (
            ("an all_reduce per parameter, every micro-batch", "by_hand", "baseline"),
            ("the same, once a step", "by_hand", "no_sync"),
            ("one all_reduce for all, every micro-batch", "by_hand_coalesced", "baseline"),
            ("the same, once a step", "by_hand_coalesced", "no_sync"),
            ("DDP, every micro-batch", "ddp", "baseline"),
            ("DDP, `no_sync`", "ddp", "no_sync"),
        )
    ),
)


def percent_of(share):
    return f"{100 * share:.1f} %"


def road_to_ddp(run):
    rows = [["", "s/step", "idle", "collectives per step", "distance"]]
    cells = [(row, run.cell(part, **fields)) for row, part, fields in ROAD]
    for row, cell in cells:
        step, drift = cell["step_s"], cell["parameter_distance"]
        collectives = [f"{c['count']:g} {name}" for name, c in cell["collectives_per_step"].items()]
        rows.append(
            [
                row,
                f"{step['mean']:.3f} [{step['ci95'][0]:.3f}, {step['ci95'][1]:.3f}]",
                percent_of(cell["idle_share"]["mean"]),
                ", ".join(collectives) or "0",
                "-" if drift is None else f"{drift['last']:.1e}" if drift["last"] else "0",
            ]
        )
    steps = span([cell["step_s"]["n"] for _, cell in cells])
    launches = span([cell["launches"] for _, cell in cells])
    caption = (
        f"{of_run(run)}. Eight micro-batches of 4 examples a step in all, BERT-mini with real "
        "compute; two ranks of one node, and where they average, of two on a link of 1 Gbit/s. "
        f"s/step with its 95 % interval over {launches} launches ({steps} steps); distance after "
        "8 steps:"
    )
    halves = idle_by_rank(run, "model_parallel")
    equal = idle_by_rank(run, "equal_stages")
    taken_one_by_one = percent_of(
        run.cell("equal_stages", strategy="baseline")["idle_share"]["mean"]
    )
    words = (
        "The halves of BERT-mini are not equal, since the last one has the loss: pipelined they "
        f"idle {' and '.join(halves)}. Stages that take the same time, paced, idle "
        f"{taken_one_by_one} one micro-batch after the other and {' and '.join(equal)} pipelined; "
        "theory says 50 % and 11.1 %."
    )
    return page(wrapped(caption), summary.markdown(rows), wrapped(words))


def idle_by_rank(run, part):
    return map(percent_of, run.cell(part, strategy="pipelined")["idle_share"]["by_rank"])


def percent(rate):
    """Returns "1.2 % [0, 9.5]" of a rate and its interval, in tenths of a percent."""
    value, low, high = (f"{round(100 * x, 1):g}" for x in (rate["rate"], *rate["ci95"]))
    return f"{value} % [{low}, {high}]"


def counted(number, singular):
    return f"{number} {singular}{'' if number == 1 else 's'}"


def replays_of(rates):
    """Returns the replay without extra work, and those with a gate that has some."""
    without = next(replay for replay in rates["replays"] if replay["extra_work"] == 0)
    return without, [r for r in rates["replays"] if r["extra_work"] > 0 and r["gates"] > 0]


def flagged_by_gate(replay):
    """Returns the share of gates in which a row without extra work is flagged."""
    return percent(replay["false_alarms"][0]["gates"])


def control_sentence(control):
    shift, (low, high) = control["low"]["shift"], control["low"]["ci95"]
    holds = "holds" if low <= 0 <= high else "does not hold"
    return (
        f"Over {control['starts']} starts the control, the baseline's program once more, was "
        f"slower by {100 * shift:+.2f} % ± {50 * (high - low):.2f} %, which {holds} 0."
    )


def gates_and_starts(replay):
    """ "2 gates of 13 starts each": all gates of a folder are of one length."""
    starts = replay["starts"] // replay["gates"]
    each = " each" if replay["gates"] > 1 else ""
    return f"{counted(replay['gates'], 'gate')} of {starts} starts{each}"


def gate_folder(rates):
    """The rates of one folder of stored turns, from its error_rates.json."""
    without, slowed = replays_of(rates)
    first = (
        f"{machine(rates['context'])}. Without extra work, {gates_and_starts(without)}, "
        f"under {without['outcomes_of_a_gate']} labellings: the "
        f"gate passes {percent(without['verdicts']['pass'])}, and is undecided in "
        f"{percent(without['verdicts']['undecided'])}. {control_sentence(rates['control'])}"
    )
    rows = [["extra work, in one row", "gates", "flagged", "passed", "another row flagged"]]
    rows.append(["none", str(without["gates"]), flagged_by_gate(without), "-", "-"])
    for replay in slowed:
        row = [f"{100 * replay['extra_work']:g} %", str(replay["gates"])]
        row += [percent(replay["found"][0]["gates"]), percent(replay["verdicts"]["pass"])]
        rows.append([*row, flagged_by_gate(replay)])
    return page(wrapped(first), summary.markdown(rows))


def gate_rates(quiet, loaded, habits):
    """What the gate's page says of its rates."""

    def alarms(rates, machine):
        replay, _ = replays_of(rates)
        without = next(rate for rate in habits[rates["name"]] if rate["extra_work"] == 0)
        by_name = {entry["by"]: entry["gates"] for entry in without["flagged"]}
        alarms_of_threshold = percent(by_name["fixed threshold"])
        return [machine, gates_and_starts(replay), flagged_by_gate(replay), alarms_of_threshold]

    _, slowed = replays_of(quiet)
    of_equal_builds = [
        ["two equal builds", "measured", "false alarms", "of a fixed threshold at the margin"],
        alarms(quiet, "on a quiet machine of two cores"),
        alarms(loaded, "while four other processes use the CPU"),
    ]
    of_slower_rows = [["work added to one row of sixteen", "measured", "found", "passed"]]
    for replay in slowed:
        gates = counted(replay["gates"], "gate")
        found, passed = percent(replay["found"][0]["gates"]), percent(replay["verdicts"]["pass"])
        of_slower_rows.append([f"{100 * replay['extra_work']:g} %", gates, found, passed])
    last = (
        "The second table is of the quiet machine. The margin is 1 %. Intervals are 95 % "
        "intervals over gates; they are wide because there are only a few gates."
    )
    return page(summary.markdown(of_equal_builds), summary.markdown(of_slower_rows), wrapped(last))
