"""The words of the published figures that scripts of benchmarks/peers made, and a micro-benchmark:
each function makes a document's lines from the JSON that the script wrote, `seen`.
"""

import summary
from peers import recomputation as recomputation_of_jobs
from peers import saving as saving_of_jobs
from peers import watch_cost
from published.texts import measured_on, page, wrapped

FIXED = {
    "ddp": "With the forward enclosed",
    "hybrid": "With replicas all-reduced once",
    "chatter": "Without its chatter",
    "overlap": "In buckets of an eighth",
    "buckets": "In buckets as DDP makes them",
}


def saving_words(context, command, seen):
    """`seen`: what benchmarks/peers/saving wrote. Returns one sentence."""
    job = saving_of_jobs.JOBS[seen["job"]]
    wrong, right = (seen["launches"][way] for way in (job.wrong, job.right))
    step_s = [list(map(saving_of_jobs.step_s, launches)) for launches in (wrong, right)]
    saved = [before - after for before, after in zip(*step_s, strict=True)]
    ratio = summary.ratio_of_pairs(list(map(job.saved_s, wrong)), saved)
    before, after = map(summary.mean_of, step_s)
    return (
        f"{FIXED[seen['job']]} a step took {after} s instead of {before} s, and what was "
        f"predicted is {ratio} of what was saved ({measured_on(context, command)}; 95 % "
        f"intervals over {len(saved)} launches of each, in turns"
    )


def saving(context, command, seen, page_of):
    first = seen["launches"][saving_of_jobs.JOBS[seen["job"]].wrong][0]
    words = f"{saving_words(context, command, seen)}; the page is the first one's)."
    return page("```\n" + page_of(first).rstrip("\n") + "\n```", wrapped(words))


def saving_of_link(context, command, seen, _):
    return wrapped(f"{saving_words(context, command, seen)}).")


def peers(context, command, seen, _):
    """`seen`: what benchmarks/peers/compare wrote."""
    work, launches = seen["work"], seen["launches"]
    others = [side for side in launches if side != "ours"]
    blocks = {side: [launch["blocks"] for launch in launches[side]] for side in launches}
    compared = [
        summary.compare(blocks["ours"], blocks[peer], work["strategies"]) for peer in others
    ]
    rows = [["strategy", "ours s/step", *(f"ours / {peer}" for peer in others)]]
    for of_strategy in zip(*compared, strict=True):
        ratios = [str(row.step_ratio) for row in of_strategy]
        rows.append([of_strategy[0].strategy, f"{of_strategy[0].ours_s:.3f}", *ratios])
    caption = (
        f"`{work['wrapper']}`, {measured_on(context, command)}; 95 % intervals over "
        f"{len(blocks['ours'])} launches of each, in turns:"
    )
    return page(wrapped(caption), summary.markdown(rows))


def over_launches(context, command, launches):
    return f"{measured_on(context, command)}; 95 % intervals over {launches} launches"


def watch_cost_start(context, command, seen, _):
    """`seen`: what benchmarks/peers/watch_cost wrote, here and below."""
    launches = seen["launches"]
    alone, watched = (launches[side] for side in watch_cost.SIDES)
    added = summary.difference_of_pairs(watched, alone)
    return wrapped(
        f"A Python job of one step takes {summary.mean_of(alone)} s, and {added} s more when it is "
        f"watched; the first watched one, which builds the library, took {launches['first_s']:.1f} "
        f"s ({over_launches(context, command, len(alone))} of each)."
    )


def watch_cost_step(context, command, seen, _):
    launches = seen["launches"]
    rows = [["strategy", "alone s/step", "watched s/step", "watched / alone"]]
    for strategy in seen["work"]["strategies"]:
        row = watch_cost.step_row(launches, strategy)
        rows.append([strategy, f"{row.alone_s:.4f}", f"{row.watched_s:.4f}", str(row.ratio)])
    caption = over_launches(context, command, len(launches["alone"]))
    return page(wrapped(f"{caption} of each, in turns:"), summary.markdown(rows))


def watch_cost_of_blocks(alone, *columns):
    """Returns the text of blocks compared within a launch. `columns`: (title, field of a row)."""

    def text(context, command, seen, _):
        sides = watch_cost.sides_of(seen["launches"])
        rows = [["strategy", f"{alone}, s/step", *(title for title, _ in columns)]]
        for strategy in seen["work"]["strategies"]:
            row = watch_cost.step_row(sides, strategy)
            cells = (str(getattr(row, field)) for _, field in columns)
            rows.append([strategy, f"{row.alone_s:.4f}", *cells])
        caption = over_launches(context, command, len(seen["launches"]))
        return page(wrapped(f"{caption}, each compared with itself:"), summary.markdown(rows))

    return text


MORE = ("more, ms per step", "added_ms")
watch_cost_within = watch_cost_of_blocks("alone", ("within - alone, ms per step", "added_ms"))
watch_cost_seconds = watch_cost_of_blocks("alone", ("profiled / alone", "ratio"), MORE)
watch_cost_account = watch_cost_of_blocks("watched", ("with an account / watched", "ratio"), MORE)


def recomputation(context, command, seen, _):
    rows = recomputation_of_jobs.rows_of(seen["launches"], seen["work"]["strategies"])
    cells = [["of a step", "ours, s", "torch, s", "ours / torch"]]
    cells += [[row.what, f"{row.ours_s:.4f}", f"{row.torch_s:.4f}", str(row.ratio)] for row in rows]
    caption = over_launches(context, command, len(seen["launches"]["ours"]))
    return page(wrapped(f"{caption} of each, in turns:"), summary.markdown(cells))


MICRO_WATCH = (  # (name of a benchmark without "/alone", what it is)
    ("collective", "a collective"),
    ("optimizer_range", "an optimizer's range"),
    ("operation", "any other operator"),
)


def more_us(medians, name):
    """Rounded, and never a negative zero."""
    return round((medians[f"{name}/watched"] - medians[f"{name}/alone"]) / 1e3, 2) + 0.0


def micro_watch(context, command, seen, _):
    """`seen`: Google Benchmark's JSON, with repetitions."""
    medians = {
        entry["run_name"].split("/iterations")[0]: entry["cpu_time"]
        for entry in seen["benchmarks"]
        if entry.get("aggregate_name") == "median"
    }
    added = ", ".join(
        f"{more_us(medians, name):.2f} us more for {what}" for name, what in MICRO_WATCH
    )
    repetitions = max(entry["repetitions"] for entry in seen["benchmarks"])
    return wrapped(
        f"By its parts, being watched costs processor time: {added} (medians of "
        f"{repetitions} repetitions; "
        f"{measured_on(context, command)})."
    )


def watch_policies(context, command, seen, _):
    """`seen`: the tally of tests/benchmarks/watch_policies_test.py."""
    counts = ("runs", "right_verdicts", "right_lines", "right_axes")
    counts += ("correct_jobs", "wrong_accusations")
    rows = [["wrapper", "jobs", "verdict", "line", "axes", "correct", "accused", "bytes"]]
    for name, tally in [*seen["wrappers"].items(), ("all", seen["all"])]:
        right, compared = tally["right_bytes"], tally["compared"]
        in_bytes = f"{right} of {compared}" if compared else "-"
        rows.append([name, *(str(tally[count]) for count in counts), in_bytes])
    caption = (
        f"Right of the jobs, each policy with {len(seen['seeds'])} seeds "
        f"({measured_on(context, command)}):"
    )
    return page(wrapped(caption), summary.markdown(rows))


def judge(context, command, seen, _):
    """`seen`: the tally of tests/benchmarks/judge_test.py."""
    counts = ("traces", "same_verdict", "not_in_file", "not_json")
    counts += ("of_correct_jobs", "wrong_accusations")
    rows = [["trace", "jobs", "verdict of watch", "not in it", "no JSON", "correct", "accused"]]
    for name, tally in [*seen["modes"].items(), ("all", seen["all"])]:
        rows.append([name, *(str(tally[count]) for count in counts)])
    return page(wrapped(f"Traces ({measured_on(context, command)}):"), summary.markdown(rows))
