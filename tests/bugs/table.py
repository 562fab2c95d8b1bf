"""Prints what each checker makes of the set, from what run.py --keep left in said/.

    table.py [--misses]

said/CHECKER.json has a word for each job as it was run: of a bug "line" (named with its line),
"named", "told" (said, and not failed), "other" (failed for something else) or "silent"; of what is
right "quiet" or "accused". said/misses.json says why a bug is not named.
"""

import json
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[1:1] = [str(HERE / "jobs")]

import truth  # noqa: E402

SAID = HERE / "said"
BEST_FIRST = ("line", "named", "told", "other", "silent", "failed")
OURS = ("gradsync", "equal")  # which are one program


def kept(checker):
    """Returns how the jobs were judged, by their words; nothing of a checker that did not run."""
    file = SAID / f"{checker}.json"
    return json.loads(file.read_text()) if file.exists() else {}


def keep(checker, judged):
    file = SAID / f"{checker}.json"
    file.write_text(json.dumps(judged, indent=1, sort_keys=True) + "\n")


def best_of(said, words):
    known = [each[words] for each in said if each.get(words)]
    if "accused" in known:
        return "accused"
    order = (*BEST_FIRST, "quiet")
    return min(known, key=order.index, default=None)


def judged_by(checkers):
    """Returns for bugs and for what is right how each was judged, by name."""
    bugs, right = {}, {}
    said = [kept(checker) for checker in checkers]
    for job in truth.jobs().values():
        if job.wrong is not None:
            bugs[job.name] = best_of(said, job.name)
        words = " ".join(job.words(True))
        right[words] = best_of(said, words)
    return bugs, right


def row(name, checkers):
    bugs, right = judged_by(checkers)
    ran = [each for each in bugs.values() if each]
    counts = [sum(each == kind for each in ran) for kind in BEST_FIRST]
    accused = sum(each == "accused" for each in right.values())
    judged = sum(each is not None for each in right.values())
    return [name, len(ran), *counts, f"{accused} of {judged}"]


def rows():
    others = sorted(file.stem for file in SAID.glob("*.json") if file.stem != "misses")
    yield row("gradsync watch --account, equal", OURS)
    for each in others:
        yield row(each, (each,))


def main():
    heads = ("checker", "bugs", "with line", "named", "told", "other", "silent", "failed")
    print("| " + " | ".join((*heads, "accused of what is right")) + " |")
    print("|:--|" + "--:|" * len(heads))
    for each in rows():
        print("| " + " | ".join(map(str, each)) + " |")
    if "--misses" in sys.argv:
        why = json.loads((SAID / "misses.json").read_text())
        bugs, right = judged_by(OURS)
        for name, said in sorted({**bugs, **right}.items()):
            if said not in ("line", "named", "quiet", None):
                print(f"{said:8} {name}: {why.get(name, 'not known why')}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
