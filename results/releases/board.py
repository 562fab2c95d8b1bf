"""What was seen of releases, in words: each cell, what changed at which release, and the page."""

import itertools

OF_ALL = 1e-2  # what a weight may be off and still be right
PADDING = 0.1  # of shards, as a share of all gradients; and what logging reduces
ONCE, EACH = "once", "each"
TOLD_NOT_TO = ("feature", "boundary", "no_sync")
REDUCTIONS = ("all_reduce", "reduce_scatter", "reduce")
POLICIES = {
    "feature": "its own accumulation",
    "boundary": "its boundary by hand",
    "no_sync": "no_sync by hand",
    "every": "told to in every micro-batch",
}


def synchronizations(cell):
    """How often a step reduces all gradients, by their bytes; None where it is no whole number."""
    step = cell["watched"] and cell["watched"]["per_step"]
    if not step:
        return None
    sizes = [step["collectives"].get(op, {"bytes": 0})["bytes"] or 0 for op in REDUCTIONS]
    times = sum(sizes) / cell["ranks"][0]["gradient_bytes"]
    return round(times) if abs(times - round(times)) < max(PADDING * times, 0.05) else None


def weights(cell):
    """Of all micro-batches, as each rank's own parameters tell them."""
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


def gradient(cell):
    """What an optimizer's step was made of, in words."""
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


def word(cell):
    """Of one job: "once", "no-op", "drops ...", "refuses (...)" and so on."""
    refusals = [rank["refused"] for rank in cell["ranks"] if "refused" in rank]
    if refusals:
        kind, _, reason = refusals[0].partition(": ")
        if kind == "AttributeError" and "no_sync" in reason:
            return "has none"
        return f"refuses ({kind})"
    if cell["failure"]:
        return "fails"
    times, micro_batches = synchronizations(cell), cell["ranks"][0]["micro_batches"]
    often = f"{times} x" if times is not None else "in part"
    if times == 1:
        often = ONCE
    elif times == micro_batches:
        often = "no-op" if cell["policy"] in TOLD_NOT_TO else EACH
    elif times == 0:
        often = "never"
    made_of = gradient(cell)
    return often if made_of == "right" else f"{often}, {made_of}"


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


def changes(releases, library):
    """Yields (wrapper, policy, last release before, release, word before, word)."""
    for wrapper, policy, words in rows(releases, library):
        stretches = list(runs_of(words))
        for (_, last, before), (first, _, after) in itertools.pairwise(stretches):
            yield wrapper, policy, last, first, before, after


def libraries(releases):
    return list(dict.fromkeys(release["library"] for release in releases))


def table(releases, library):
    lines = ["| wrapper | policy | releases | what it does |", "|:--|:--|:--|:--|"]
    for wrapper, policy, words in rows(releases, library):
        for first, last, said in runs_of(words):
            span = first if first == last else f"{first} to {last}"
            lines.append(f"| {wrapper} | {POLICIES[policy]} | {span} | {said} |")
    return lines


def conditions(releases):
    """With which torch and Python, and when."""
    torches = sorted({release["with"]["torch"] for release in releases if "with" in release})
    pythons = sorted({release["python"] for release in releases})
    dates = sorted({release["date"] for release in releases})
    return f"torch {', '.join(torches)}, Python {', '.join(pythons)}, {', '.join(dates)}"


def text(releases):
    lines = []
    for library in libraries(releases):
        of_it = [r for r in releases if r["library"] == library]
        names = ", ".join(r["release"] for r in of_it)
        lines += [
            f"### {library}",
            "",
            f"{len(of_it)} releases: {names} ({conditions(of_it)}).",
            "",
        ]
        lines += [*table(releases, library), ""]
        changed = list(changes(releases, library))
        for wrapper, policy, last, first, before, after in changed:
            which = f"{wrapper}, {POLICIES[policy]}"
            lines.append(f"- {last} to **{first}**: {which}: {before} -> {after}")
        lines += [""] if changed else ["Nothing changed.", ""]
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
                found.append(f"{' '.join(key)}: was {before[key]}, is {word(cell)}\n")
    return found
