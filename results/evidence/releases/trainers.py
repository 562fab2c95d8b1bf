"""What each library's own accumulation does in its newest release: a row each, in words."""

from releases import board

OWN = ("feature", "clipped")
GOOD = ("right", "tokens weigh alike", board.UNKNOWN)
TITLES = {"mosaicml": "Composer (mosaicml)"}
# What mends it, as the library's sources have it; verdicts/library.cpp says the same to users.
MENDS = {
    ("coqui-tts-trainer", "ddp"): "none: it keeps the inner model",
    ("deepspeed", "zero2"): '`"stage": 1`, where memory allows',
    ("deepspeed", "zero3"): '`"stage": 1`, where memory allows',
}


def synchronizations(cell):
    times = board.synchronizations(cell)
    must = board.GRADIENTS_SHARDED.get(cell["wrapper"])
    said = "in part" if times is None else str(times)
    return f"{said}, as {must} must" if must else said


def is_right(cell):
    """Whether there is nothing to mend."""
    is_sharded = cell["wrapper"] in board.GRADIENTS_SHARDED
    enough = cell["ranks"][0]["micro_batches"] if is_sharded else 1
    return board.synchronizations(cell) == enough and board.gradient(cell) in GOOD


def option(library, cell):
    known = MENDS.get((library, cell["wrapper"]))
    return known or ("" if is_right(cell) else "none")


def row(release, cell):
    name = f"{TITLES.get(release['library'], release['library'])} {release['release']}"
    if reason := board.refusal(cell) or cell["failure"]:
        return [name, cell["wrapper"], "", f"did not run: `{reason}`", "", ""]
    sentence = cell["watched"]["sentence"] if cell["watched"] else "not watched"
    policy = ", `gradient_clip_value`" if cell["policy"] == "clipped" else ""
    times = synchronizations(cell)
    columns = [name, cell["wrapper"] + policy, times, board.gradient(cell), sentence]
    return [*columns, option(release["library"], cell)]


def newest(releases):
    """Returns the last release of each library that ran."""
    ran = [release for release in releases if release["cells"]]
    return list({release["library"]: release for release in ran}.values())


def table(releases):
    titles = ["trainer", "wrapper", "synchronizes", "micro-batches", "watch says", "what mends it"]
    lines = [titles, [":--", ":--", "--:", ":--", ":--", ":--"]]
    for release in sorted(newest(releases), key=lambda r: r["library"]):
        lines += [row(release, cell) for cell in release["cells"] if cell["policy"] in OWN]
    return [f"| {' | '.join(columns)} |" for columns in lines]


def summary(releases):
    """How many trainers do what, in a sentence."""
    cells = [(r["library"], c) for r in newest(releases) for c in r["cells"] if c["policy"] in OWN]
    ran = [each for each in cells if not board.refusal(each[1]) and not each[1]["failure"]]
    right = {name for name, cell in ran if is_right(cell)}
    mended = {name for name, cell in ran if not is_right(cell)}
    return (
        f"{len({name for name, _ in cells})} trainers: {len(right - mended)} reduce no more often "
        f"than they must, and weigh every micro-batch; {len(mended)} do not "
        f"({', '.join(sorted(mended))})."
    )


# Kinds of watch's verdict, by how often a step reduces its gradients; else those of EACH.
KINDS = {0: ("never",), 1: ("once_per_step",)}
EACH = ("more_than_once", "fsdp_every_micro_batch", "every_micro_batch")


def agrees(cell):
    """Whether watch's verdict is what the bytes of a step say."""
    kinds = KINDS.get(board.synchronizations(cell), EACH)
    return cell["watched"] is not None and cell["watched"]["kind"] in kinds


def agreement(releases):
    """How often watch is right on all jobs of these releases, in a sentence."""
    cells = [cell for release in newest(releases) for cell in release["cells"]]
    ran = [cell for cell in cells if not board.refusal(cell) and not cell["failure"]]
    accused = [cell for cell in ran if cell["watched"] and cell["watched"]["fails"]]
    wrong = [cell for cell in accused if board.synchronizations(cell) == 1]
    return (
        f"With their other options these releases have {len(ran)} jobs. watch's verdict is what "
        f"the bytes say in {sum(map(agrees, ran))} of them, and it accuses {len(wrong)} that "
        f"synchronize once."
    )


def text(releases):
    when = f"({board.conditions(newest(releases))}.)"
    return "\n".join([summary(releases), agreement(releases), "", when, "", *table(releases)])
