"""What was seen of releases, in words: each cell, what changed at which release, and the page."""

import itertools

OF_ALL = 1e-2  # what a weight may be off and still be right
PADDING = 0.1  # of shards, as a share of all gradients; and what logging reduces
UNKNOWN = "weights not known"
ONCE, EACH, NO_OP, HAS_NONE, FAILS = "once", "each", "no-op", "has none", "fails"
# Under these no rank has room for whole gradients, and none can wait until the last micro-batch.
GRADIENTS_SHARDED = {"zero2": "ZeRO 2", "zero3": "ZeRO 3"}
REDUCTIONS = ("all_reduce", "reduce_scatter", "reduce")
POLICIES = {
    "feature": "its own accumulation",
    "boundary": "its boundary by hand",
    "no_sync": "no_sync by hand",
    "every": "told to in every micro-batch",
    "clipped": "its own accumulation, clipped",
}


def synchronizations(cell):
    """How often a step reduces all gradients, by their bytes; None where it is no whole number."""
    rank = cell["ranks"][0]
    times = rank.get("reduced_bytes", bytes_watched(cell)) / rank["gradient_bytes"]
    return round(times) if abs(times - round(times)) < max(PADDING * times, 0.05) else None


def bytes_watched(cell):
    """Returns the bytes that a step reduces, as watch counts them."""
    step = (cell["watched"] or {}).get("per_step") or {"collectives": {}}
    return sum((step["collectives"].get(op) or {}).get("bytes") or 0 for op in REDUCTIONS)


def weights(cell):
    """Returns the weights of all micro-batches, from the parameters of each rank."""
    return [w for rank in cell["ranks"] for row in rank["weights"] for w in row]


def near(values, wanted):
    return all(abs(v - w) < OF_ALL for v, w in zip(values, wanted, strict=True))


def by_tokens(cell):
    """How micro-batches with other tokens count: a word, or None."""
    for rank in cell["ranks"]:
        tokens = [t for row in rank["tokens"] for t in row]
        mean = sum(tokens) / len(tokens)
        if not near([w for row in rank["weights"] for w in row], [t / mean for t in tokens]):
            break
    else:
        return "tokens weigh alike"
    for rank in cell["ranks"]:
        for row, tokens in zip(rank["weights"], rank["tokens"], strict=True):
            mean = sum(tokens) / len(tokens)
            if not near(row, [t / mean for t in tokens]):
                return None
    return "tokens weigh alike on each rank"


def is_torn(cell):
    """Whether some ranks saw a step that is a sum of gradients, and others did not."""
    are_sums = {rank["left_over"] <= OF_ALL for rank in cell["ranks"] if "left_over" in rank}
    return len(are_sums) > 1


def gradient(cell):
    """Returns what an optimizer's step was made of, in words."""
    if not cell["ranks"][0]["weights"]:
        return UNKNOWN
    if all(rank.get("left_over_if_clipped", 1) < OF_ALL for rank in cell["ranks"]):
        return "clipped on each rank, before they are reduced"
    if any(rank["left_over"] > OF_ALL for rank in cell["ranks"]):
        return "not a sum of these gradients"
    all_weights = weights(cell)
    if near(all_weights, [1] * len(all_weights)):
        return "micro-batches weigh alike" if cell["ranks"][0].get("tokens") else "right"
    if any(abs(w) < OF_ALL for w in all_weights):
        lost = [i + 1 for i, w in enumerate(cell["ranks"][0]["weights"][0]) if abs(w) < OF_ALL]
        return f"drops micro-batch {' '.join(map(str, lost))}" if lost else "drops other ranks"
    if cell["ranks"][0].get("tokens") and by_tokens(cell):
        return by_tokens(cell)
    if near(all_weights, [all_weights[0]] * len(all_weights)):
        return f"all weigh {all_weights[0]:.3g}"
    row = cell["ranks"][0]["weights"][0]
    return "weigh " + " ".join(f"{w:.3g}" for w in row)


def refusal(cell):
    """What the library raised, "KIND: TEXT"; None where it raised nothing."""
    return next((rank["refused"] for rank in cell["ranks"] if "refused" in rank), None)


def in_every_micro_batch(cell):
    """Returns its name: where a cell asks for no_sync, that this does nothing, in ZeRO 2 too."""
    if cell["policy"] == "every":
        return EACH
    if cell["wrapper"] in GRADIENTS_SHARDED and cell["policy"] != "no_sync":
        return f"{EACH}, as {GRADIENTS_SHARDED[cell['wrapper']]} must"
    return NO_OP


def how_often(cell):
    is_watched = cell["watched"] and cell["watched"]["per_step"]
    if not is_watched and "reduced_bytes" not in cell["ranks"][0]:
        return "not counted"
    times = synchronizations(cell)
    if times == cell["ranks"][0]["micro_batches"]:
        return in_every_micro_batch(cell)
    return {None: "in part", 0: "never", 1: ONCE}.get(times, f"{times} x")


def word(cell):
    """Of one job: "once", "no-op", "drops ...", "refuses (...)" and so on."""
    if raised := refusal(cell):
        kind, _, reason = raised.partition(": ")
        if kind == "AttributeError" and "no_sync" in reason:
            return HAS_NONE
        return f"refuses ({kind})"
    if cell["failure"]:
        return FAILS
    made_of = gradient(cell)
    return how_often(cell) if made_of == "right" else f"{how_often(cell)}, {made_of}"


def rows(releases, library):
    """Yields (wrapper, policy, {release: word}) of a library."""
    found = {}
    for release in releases:
        if release["library"] == library:
            for cell in release["cells"]:
                words = found.setdefault((cell["wrapper"], cell["policy"]), {})
                words[release["release"]] = word(cell)
    for (wrapper, policy), words in found.items():
        yield wrapper, policy, words


def runs_of(words):
    """Yields (first, last, word) for each stretch of releases that are alike."""
    items = list(words.items())
    begin = 0
    for i in range(1, len(items) + 1):
        if i == len(items) or items[i][1] != items[begin][1]:
            yield items[begin][0], items[i - 1][0], items[begin][1]
            begin = i


def span(first, last):
    return first if first == last else f"{first} to {last}"


def changes(releases, library):
    """Yields (wrapper, policy, last release before, release, word before, word).

    A release whose job failed says nothing of accumulation: those beside it are compared.
    """
    for wrapper, policy, words in rows(releases, library):
        stretches = list(runs_of({r: w for r, w in words.items() if w != FAILS}))
        for (_, last, before), (first, _, after) in itertools.pairwise(stretches):
            yield wrapper, policy, last, first, before, after


def libraries(releases):
    return list(dict.fromkeys(release["library"] for release in releases))


def table(releases, library):
    lines = ["| wrapper | policy | releases | what it does |", "|:--|:--|:--|:--|"]
    for wrapper, policy, words in rows(releases, library):
        for first, last, said in runs_of(words):
            lines.append(f"| {wrapper} | {POLICIES[policy]} | {span(first, last)} | {said} |")
    return lines


def raised(releases):
    """Returns {what was raised: the cells, by release}, without functions that a library lacks."""
    found = {}
    for release in releases:
        for cell in release["cells"]:
            reason = refusal(cell) or cell["failure"]
            if reason and word(cell) != HAS_NONE:
                by_release = found.setdefault(reason, {})
                which = f"{cell['wrapper']}, {POLICIES[cell['policy']]}"
                by_release.setdefault(release["release"], []).append(which)
    return found


def reasons(releases):
    """Yields a line for each thing raised: in which releases, under which wrappers and policies."""
    for release in releases:
        if release["not_installed_because"]:
            yield f"- {release['release']} was not installed: `{release['not_installed_because']}`"
    ran = [release["release"] for release in releases if release["cells"]]
    for reason, by_release in raised(releases).items():
        said = {name: "; ".join(by_release.get(name, ())) for name in ran}
        for first, last, cells in runs_of(said):
            if cells:
                yield f"- {span(first, last)}: {cells}: `{reason}`"


def conditions(releases):
    """With which torch and Python, and when."""
    torches = sorted({release["with"]["torch"] for release in releases if "with" in release})
    pythons = sorted({release["python"] for release in releases})
    dates = sorted({release["date"] for release in releases})
    return f"torch {', '.join(torches)}, Python {', '.join(pythons)}, {', '.join(dates)}"


def number_of(releases):
    return "1 release" if len(releases) == 1 else f"{len(releases)} releases"


def text(releases):
    lines = []
    for library in libraries(releases):
        of_it = [r for r in releases if r["library"] == library]
        ran = [r["release"] for r in of_it if r["cells"]]
        lines += [
            f"### {library}",
            "",
            f"{number_of(ran)}: {', '.join(ran)} ({conditions(of_it)}).",
            "",
        ]
        lines += [*table(releases, library), ""]
        changed = list(changes(releases, library))
        for wrapper, policy, last, first, before, after in changed:
            which = f"{wrapper}, {POLICIES[policy]}"
            lines.append(f"- {last} to **{first}**: {which}: {before} -> {after}")
        if changed:
            lines.append("")
        elif len(ran) > 1:
            lines += ["Nothing changed.", ""]
        if raised_here := list(reasons(of_it)):
            lines += ["What was raised:", "", *raised_here, ""]
    return "\n".join(lines)


def differences(known, now):
    """Yields a sentence for each cell that both have and that is not as it was."""
    before = {}
    for release in known["releases"]:
        for cell in release["cells"]:
            key = release["library"], release["release"], cell["wrapper"], cell["policy"]
            before[key] = word(cell)
    found = []
    for release in now["releases"]:
        for cell in release["cells"]:
            key = release["library"], release["release"], cell["wrapper"], cell["policy"]
            if key in before and before[key] != word(cell):
                found.append(f"{' '.join(key)}: was {before[key]}, is {word(cell)}")
    return found
