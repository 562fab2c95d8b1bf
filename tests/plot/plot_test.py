"""Draws the sample run and looks at what comes out: plot_test.py PATH/TO/write_sample_run.

Covers: attribution.py, idle.py, memory.py, pareto.py, run_data.py, slowdown.py, step_memory.py,
steps.py, style.py, sweep.py, timeline.py, timelines.py.
"""

import contextlib
import io
import json
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
PLOT = ROOT / "plot" / "plot.py"
SKIPPED = 77

try:
    import matplotlib.image
    from pictures import plot, share_of
except ImportError:
    print("skipped: this Python has no matplotlib; run harness/setup --tests")
    sys.exit(SKIPPED)

sys.path.insert(0, str(PLOT.parent))
import attribution  # noqa: E402
import idle  # noqa: E402
import memory  # noqa: E402
import pareto  # noqa: E402
import run_data  # noqa: E402
import slowdown  # noqa: E402
import step_memory  # noqa: E402
import style  # noqa: E402
import sweep  # noqa: E402
import timeline  # noqa: E402
import timelines  # noqa: E402

import plot as program  # noqa: E402

WRITE_SAMPLE_RUN = sys.argv.pop(1)

# Share of all pixels for one of the data's colours; a legend's patch alone has 0.05 %.
LEAST_SHARE = {"slowdown.png": 0.005, "steps.png": 0.0003, "timeline": 0.005}


class WithSampleRun(unittest.TestCase):
    sample = ()  # which one, for write_sample_run

    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.directory = Path(scratch.name)
        subprocess.run([WRITE_SAMPLE_RUN, str(self.directory), *self.sample], check=True)

    def edit_result(self, change):
        path = self.directory / "result.json"
        result = json.loads(path.read_text())
        change(result)
        path.write_text(json.dumps(result))


class DrawsARun(WithSampleRun):
    def test_every_picture_is_there_and_shows_something(self):
        done = plot(PLOT, self.directory, timeout_s=600)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        places = ("your_machine_1x2", "your_machine_2x1_1gbit")
        places += ("guides_machines_t4_1x2", "guides_machines_t4_2x1")
        names = {"slowdown", "steps", *(f"timeline_{place}" for place in places)}
        written = {path.name for path in (self.directory / "plots").iterdir()}
        self.assertEqual(written, {f"{name}.{kind}" for name in names for kind in ("png", "svg")})
        for name in names:
            self.assert_shows_something(self.directory / "plots" / f"{name}.png")
            svg = xml.etree.ElementTree.parse(self.directory / "plots" / f"{name}.svg").getroot()
            self.assertTrue(svg.tag.endswith("svg"))

    def assert_shows_something(self, path):
        """Text and axes alone do not count: the data's own colours must take some room."""
        pixels = matplotlib.image.imread(path)[..., :3]
        self.assertGreaterEqual(min(pixels.shape[:2]), 500, path)
        if path.name.startswith("timeline"):
            colours = [timeline.PHASES["backward"][0], timeline.BUCKETS[0]]
        else:
            colours = [style.COLOURS["baseline"], style.COLOURS["no_sync"]]
        for colour in colours:
            least = LEAST_SHARE[path.name.split("_")[0]]
            self.assertGreater(share_of(colour, path), least, (path, colour))

    def test_the_same_run_gives_the_same_svg(self):
        run = run_data.read(self.directory)
        texts = []
        for name in ("first", "second"):
            style.save({"slowdown": slowdown.draw(run)}, self.directory / name)
            texts.append((self.directory / name / "slowdown.svg").read_text())
        self.assertEqual(*texts)

    def test_an_interval_is_promised_where_there_is_one(self):
        run = run_data.read(self.directory)
        self.assertIn("95 % interval", slowdown.draw(run)._suptitle.get_text())
        for part in run.parts:
            for cell in part.cells:
                if cell["step_s"]:
                    cell["step_s"]["ci95"] = None
        self.assertNotIn("95 % interval", slowdown.draw(run)._suptitle.get_text())


class SaysWhatIsWrong(WithSampleRun):
    def assert_refused(self, *words):
        with contextlib.redirect_stderr(io.StringIO()) as said:
            status = program.main([str(self.directory)])
        self.assertEqual(status, 2, said.getvalue())
        self.assertEqual(len(said.getvalue().splitlines()), 1, said.getvalue())
        for word in words:
            self.assertIn(word, said.getvalue())

    def test_no_run(self):
        (self.directory / "result.json").unlink()
        self.assert_refused("result.json", "not found")

    def test_no_trials(self):
        (self.directory / "trials.jsonl").unlink()
        self.assert_refused("trials.jsonl", "not found")

    def test_another_programs_result(self):
        self.edit_result(lambda result: result.update(schema="other/1"))
        self.assert_refused("result.json", "schema", "other/1", "gradsync.result/1")

    def test_a_broken_result(self):
        (self.directory / "result.json").write_text('{"schema":')
        self.assert_refused("result.json", "line 1")

    def test_a_broken_trial_in_the_middle(self):
        path = self.directory / "trials.jsonl"
        path.write_text('{"schema": "gradsync.tr\n' + path.read_text())
        self.assert_refused("trials.jsonl", "line 1")


class LeavesOutWhatWasNotMeasured(WithSampleRun):
    def test_a_crash_in_the_last_line_is_no_error(self):
        path = self.directory / "trials.jsonl"
        before = len(run_data.read(self.directory).trials)
        path.write_text(path.read_text() + '{"schema": "gradsync.tr')
        self.assertEqual(len(run_data.read(self.directory).trials), before)

    def test_a_failed_cell_is_not_drawn(self):
        def fail_first(result):
            result["cells"][0].update(status="failed", reason="killed")

        self.edit_result(fail_first)
        part = run_data.read(self.directory).parts[0]
        strategies = [c["cell"]["strategy"] for c in part.cells_of(part.settings()[0])]
        self.assertEqual(strategies, ["no_sync_improper", "no_sync", "accumulate"])

    def test_without_times_nothing_is_drawn_and_that_is_said(self):
        def forget_times(result):
            for cell in result["cells"]:
                cell.update(step_s=None, slowdown=None)

        self.edit_result(forget_times)
        done = plot(PLOT, self.directory, timeout_s=600)
        self.assertEqual(done.returncode, 0)
        self.assertIn("nothing to draw", done.stderr)
        self.assertEqual(list((self.directory / "plots").iterdir()), [])

    def test_published_runs_belong_to_the_twin_only(self):
        run = run_data.read(self.directory)
        real, paced = (part.cells for part in run.parts)
        self.assertTrue(all(run.published(cell) is None for cell in real))
        self.assertTrue(all(len(run.published(cell)) == 3 for cell in paced))
        for other in ({"accumulation_steps": 8}, {"compression": "fp16"}, {"wrapper": "fsdp"}):
            cell = paced[0] | {"cell": paced[0]["cell"] | other}
            self.assertIsNone(run.published(cell), other)


class DrawsWhoWaits(WithSampleRun):
    def test_bars_by_rank_theory_and_distances(self):
        def on_the_road(result):
            stages, pipelined, alone, *_ = result["cells"]
            for cell, strategy in ((stages, "baseline"), (pipelined, "pipelined")):
                cell["cell"].update(wrapper="pipeline", strategy=strategy)
            stages["idle_share"] = {"mean": 0.5, "by_rank": [0.5, 0.25]}
            pipelined["idle_share"] = {"mean": 0.2, "by_rank": [0.125, 0.25]}
            alone["cell"].update(wrapper="local", strategy="baseline")
            alone["idle_share"] = {"mean": 0.0, "by_rank": [0.0, 0.0]}
            alone["parameter_distance"] = {"last": 0.5, "after_step": [0.25, 0.5]}
            result["cells"] = [stages, pipelined, alone]

        self.edit_result(on_the_road)
        figure = idle.draw(run_data.read(self.directory))
        bars, lines = figure.axes
        widths = [bar.get_width() for bar in bars.patches]
        self.assertEqual(widths, [50, 25, 12.5, 25, 0, 0])
        # With two stages and 4 micro-batches: 1/2, and pipelined 1/5.
        marks = [mark.get_xdata()[0] for mark in bars.lines]
        self.assertEqual([round(mark, 9) for mark in marks], [50, 20])
        (line,) = lines.lines
        self.assertEqual(list(line.get_ydata()), [0, 0.25, 0.5])

    def test_without_such_a_way_there_is_none(self):
        self.assertIsNone(idle.draw(run_data.read(self.directory)))


class DrawsWhereAStepWent(WithSampleRun):
    def attribute(self, result):
        """In every cell of the first part, rank 0 copies for a quarter of a step, and waits half of
        it, only for the wire.
        """
        for cell in result["cells"]:
            if cell["part"] == "your_machine":
                parts = {"own_compute_s": 0.125, "copy_s": 0.125}
                parts |= {"late_peer_s": 0.0, "wire_s": 0.25}
                parts["collectives"] = [{"op": "all_reduce", "bucket": 0, **parts}]
                waiting = {"rank": 0, **parts}
                computing = {"rank": 1, **parts, "own_compute_s": 0.5, "copy_s": 0.0, "wire_s": 0.0}
                cell["attribution"] = {"ranks": [waiting, computing]}

    def test_each_part_takes_the_room_it_had(self):
        self.edit_result(self.attribute)
        figure = attribution.draw(run_data.read(self.directory))
        (axes,) = figure.axes
        names = [label.get_text() for label in axes.get_yticklabels()]
        self.assertEqual(len(names), 2 * 8, "a bar for each rank of each cell")
        self.assertEqual(names[:2], ["baseline, rank 0", "rank 1"])
        settings = [text.get_text() for text in axes.texts]
        self.assertEqual(settings, ["1 node × 2 ranks", "2 nodes × 1 rank, 1 Gbit/s"])
        style.save({"attribution": figure}, self.directory)
        share = {
            part: share_of(colour, self.directory / "attribution.png")
            for part, (colour, _) in attribution.PARTS.items()
        }
        wire = share["wire_s"]
        self.assertGreater(wire, 0.02)
        self.assertLess(share["late_peer_s"], 0.1 * wire, "in the legend alone")
        self.assertAlmostEqual(share["own_compute_s"] / wire, 2.5, delta=0.5)
        self.assertAlmostEqual(share["copy_s"] / wire, 0.5, delta=0.15)
        self.assertEqual(share["recompute_s"], 0, "not even in the legend, where there is none")

    def recompute(self, result):
        self.attribute(result)
        for cell in result["cells"]:
            if cell["part"] == "your_machine":
                cell["attribution"]["ranks"][1] |= {"own_compute_s": 0.25, "recompute_s": 0.25}

    def test_what_was_computed_again_is_a_part_of_its_own(self):
        self.edit_result(self.recompute)
        figure = attribution.draw(run_data.read(self.directory))
        legend = [text.get_text() for text in figure.legends[0].get_texts()]
        self.assertIn("computing again", legend)
        style.save({"attribution": figure}, self.directory)
        colour, _ = attribution.PARTS["recompute_s"]
        self.assertGreater(share_of(colour, self.directory / "attribution.png"), 0.02)

    def test_a_run_that_does_not_say_it_has_no_such_picture(self):
        self.assertIsNone(attribution.draw(run_data.read(self.directory)))


class DrawsParetoFronts(WithSampleRun):
    MIB = 2**20
    # Peak, seconds, and whether the point is on the front.
    POINTS = ((200, 3.0, True), (300, 4.0, False), (400, 2.0, True))

    def add_front(self, result):
        cell = next(cell for cell in result["cells"] if cell["part"] == "your_machine")["cell"]
        levers = ("none", "every_2", "full")
        points = [
            {
                "cell": cell | {"activation_checkpointing": lever},
                "peak_allocated_bytes": peak * self.MIB,
                "step_s": step_s,
                "on_front": on_front,
                "vs_fastest": None,
            }
            for lever, (peak, step_s, on_front) in zip(levers, self.POINTS, strict=True)
        ]
        front = {"part": "your_machine", "cell": cell, "points": points, "choices": 3}
        result["fronts"] = [front]

    def test_every_way_is_a_point_and_the_front_a_line(self):
        self.edit_result(self.add_front)
        ((name, figure),) = pareto.draw_all(run_data.read(self.directory)).items()
        self.assertEqual(name, "pareto_your_machine")
        line, *points = figure.axes[0].get_lines()
        self.assertEqual([*map(tuple, line.get_xydata())], [(200, 3), (400, 2), (400, 2)])
        self.assertEqual(line.get_drawstyle(), "steps-post", "a budget between two buys the lesser")
        drawn = [tuple(point.get_xydata()[0]) for point in points]
        self.assertEqual(drawn, [(peak, step_s) for peak, step_s, _ in self.POINTS])
        fills = [point.get_fillstyle() for point in points]
        self.assertEqual(fills, ["full", "left", "none"])
        legend = [text.get_text() for text in figure.legends[0].get_texts()]
        self.assertIn("recomputes every_2", legend)
        self.assertEqual(len(legend), len(set(legend)), "every look is explained once")

    def test_points_of_the_front_have_the_numbers_of_their_rows(self):
        self.edit_result(self.add_front)
        (figure,) = pareto.draw_all(run_data.read(self.directory)).values()
        numbers = {text.get_text(): text.xy for text in figure.axes[0].texts}
        self.assertEqual(numbers, {"1": (200, 3), "2": (400, 2)})

    def test_the_guides_rows_are_ringed(self):
        self.edit_result(self.add_front)
        (figure,) = pareto.draw_all(run_data.read(self.directory)).values()
        self.assertNotIn("as in the guide's table", self.legend_of(figure), "all are DDP")
        guides = {"wrapper": "fsdp", "strategy": "no_sync", "reshard_after_forward": True}

        def shard(result):
            for point in result["fronts"][0]["points"]:
                point["cell"] |= guides

        self.edit_result(shard)
        (figure,) = pareto.draw_all(run_data.read(self.directory)).values()
        self.assertIn("as in the guide's table", self.legend_of(figure))
        rings = [line for line in figure.axes[0].get_lines() if line.get_markersize() > 10]
        places = [tuple(ring.get_xydata()[0]) for ring in rings]
        self.assertEqual(places, [self.POINTS[0][:2]], "the others compute again")

    @staticmethod
    def legend_of(figure):
        return [text.get_text() for text in figure.legends[0].get_texts()]

    def test_a_run_without_fronts_has_no_such_picture(self):
        self.assertEqual(pareto.draw_all(run_data.read(self.directory)), {})


class WhatVaries(unittest.TestCase):
    def varying(self, *cells):
        return run_data.Part("", [{"cell": run_data.whole(cell)} for cell in cells]).varying()

    def test_a_wrappers_own_parameters_vary_under_it_alone(self):
        ddp = {"wrapper": "ddp"}
        kept, freed = ({"wrapper": "fsdp", "reshard_after_forward": on} for on in (False, True))
        self.assertEqual(self.varying(ddp, kept), ["wrapper"])
        self.assertEqual(self.varying(ddp, kept, freed), ["wrapper", "reshard_after_forward"])

    def test_what_an_older_result_lacks_has_its_default(self):
        whole, fp16 = {"wrapper": "ddp"}, {"wrapper": "ddp", "compression": "fp16"}
        self.assertEqual(self.varying(whole, fp16), ["compression"])
        self.assertEqual(self.varying(whole, whole | {"compression": "none"}), [])
        self.assertEqual(
            self.varying(whole, whole | {"memory_budget_bytes": 1}), ["memory_budget_bytes"]
        )


class DrawsMemory(WithSampleRun):
    sample = ("memory",)

    def setUp(self):
        super().setUp()
        self.run_ = run_data.read(self.directory)

    def forget_times(self, result):
        for cell in result["cells"]:
            cell.update(step_s=None, micro_batch_s=None, slowdown=None)

    def panel_texts(self, figure, panel):
        axes = figure.axes[panel]
        return [axes.get_title(loc="left"), *(text.get_text() for text in axes.texts)]

    def test_pictures_are_named_by_what_varies_and_a_sweep_has_one(self):
        done = plot(PLOT, self.directory, timeout_s=600)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        names = {path.stem for path in (self.directory / "plots").iterdir()}
        places = ("sweep_2x1_1gbit_full_shard", "sweep_2x1_1gbit_shard_grad_op", "budget_2x1_1gbit")
        kinds = ("step_memory", "timeline")
        several = {f"{kind}_{place}_accumulation_4" for kind in kinds for place in places}
        several |= {"sweep_sweep_accumulation", "sweep_budget_accumulation"}
        self.assertEqual(names, {"memory", "pareto_sweep", "slowdown", "steps"} | several)

    def test_each_category_takes_the_room_it_had(self):
        name = "step_memory_sweep_2x1_1gbit_full_shard_accumulation_4"
        style.save({name: step_memory.draw_all(self.run_)[name]}, self.directory)
        picture = self.directory / f"{name}.png"
        whole, shards, state = (
            share_of(step_memory.CATEGORIES[name], picture)
            for name in ("unsharded_gradient", "sharded_gradient", "optimizer_state")
        )
        self.assertGreater(shards, 0.005)
        self.assertGreater(whole, 2 * shards, "48 MiB against 16")
        self.assertGreater(state, 2 * whole, "150 MiB in both panels")

    def test_a_category_that_is_new_is_gray_above_the_others(self):
        colours = step_memory.colours([[{"bytes": {"activation": 1, "new": 2}}]])
        self.assertEqual(list(colours.items())[-1], ("new", style.GREY))

    def test_strategies_share_their_axes_and_say_their_peaks(self):
        figure = step_memory.draw_all(self.run_)[
            "step_memory_sweep_2x1_1gbit_full_shard_accumulation_4"
        ]
        self.assertEqual(figure.axes[0].get_ylim(), figure.axes[1].get_ylim())
        self.assertEqual(figure.axes[0].get_xlim(), figure.axes[1].get_xlim())
        whole, shards = (self.panel_texts(figure, panel) for panel in (0, 1))
        self.assertEqual(whole, ["no_sync: peak 300.0 MiB", "1", "2", "3", "4"])
        self.assertEqual(shards[0], "sync_each_batch: peak 268.0 MiB")

    def test_out_of_memory_is_a_word_below_the_budget(self):
        figure = step_memory.draw_all(self.run_)["step_memory_budget_2x1_1gbit_accumulation_4"]
        out, fits = (self.panel_texts(figure, panel) for panel in (0, 1))
        self.assertEqual(
            out, ["no_sync", "oom\nmicro-batch 2\nbackward\nunit layer3", "budget 290.0 MiB"]
        )
        self.assertIn("budget 290.0 MiB", fits)
        self.assertEqual(len(figure.axes[0].collections), 0, "nothing was recorded of it")
        self.assertGreater(figure.axes[0].get_ylim()[1], 290)

    def test_where_times_mean_nothing_none_are_drawn(self):
        self.edit_result(self.forget_times)
        run = run_data.read(self.directory)
        for figure in step_memory.draw_all(run).values():
            self.assertEqual(figure.axes[-1].get_xlabel(), step_memory.TURNS)
            self.assertLess(figure.axes[-1].get_xlim()[1], 1.1)
        (figure,) = memory.draw_all(run).values()
        self.assertEqual(len(figure.axes), 1, "no time to draw memory against")

    def test_runs_without_a_record_of_memory_have_no_such_picture(self):
        self.assertNotEqual(step_memory.draw_all(self.run_), {})
        (self.directory / "timelines.jsonl").unlink()
        self.assertEqual(step_memory.draw_all(self.run_), {})

    def test_trials_of_earlier_versions_have_their_timelines_in_them(self):
        trial = next(trial for trial in self.run_.trials if "memory_timeline_at" in trial)
        points = timelines.memory_of(self.directory, trial)
        steps = timelines.steps_of(self.directory, trial)
        self.assertTrue(points and all(rank["timeline_phases"] for rank in steps["ranks"]))
        (self.directory / "timelines.jsonl").unlink()
        steps["ranks"][0]["memory_timeline"] = points
        self.assertEqual(timelines.memory_of(self.directory, steps), points)
        self.assertEqual(timelines.steps_of(self.directory, steps), steps)

    def test_cells_that_cannot_share_a_line_get_pictures_of_their_own(self):
        for cell in self.run_.parts[1].cells:
            cell["cell"]["topology"] = "1x2"
        names = set(memory.draw_all(self.run_))
        self.assertEqual(names, {"memory_2x1_1gbit", "memory_1x2"})


class DrawsSweeps(WithSampleRun):
    sample = ("sweep",)

    def setUp(self):
        super().setUp()
        self.run_ = run_data.read(self.directory)
        self.figures = sweep.draw_all(self.run_)

    def lines(self, name):
        """The lines and points of a picture's first panel."""
        return self.figures[f"sweep_{name}"].axes[0].lines

    def points(self, name, strategy):
        """By place from left to right: (milliseconds, whether it is filled)."""
        found = {}
        for line in self.lines(name):
            if line.get_marker() == "o" and line.get_color() == style.COLOURS[strategy]:
                filled = line.get_markerfacecolor() != "white"
                found.setdefault(line.get_xdata()[0], []).append((line.get_ydata()[0], filled))
        return found

    def ticks(self, name):
        axes = self.figures[f"sweep_{name}"].axes[0]
        return [text.get_text() for text in axes.get_xticklabels()]

    def per_example(self, step_s, accumulation):
        return 1e3 * step_s / (accumulation * 16 * 2)  # of two ranks

    def test_each_axis_has_its_picture_and_each_value_its_place(self):
        accumulation, buckets = "accumulation_accumulation", "buckets_bucket_cap"
        names = {accumulation, buckets, "links_link", "nodes_nodes"}
        self.assertEqual(set(self.figures), {f"sweep_{name}" for name in names})
        self.assertEqual(self.ticks(accumulation), ["1", "2", "4", "8"])
        self.assertEqual(self.ticks(buckets), ["default", "1 MiB", "5 MiB", "25 MiB"])
        self.assertEqual(self.ticks("links_link"), ["1 Gbit/s", "2 Gbit/s", "4 Gbit/s"])
        self.assertEqual(self.ticks("nodes_nodes"), ["2", "3", "4"])

    def test_points_are_milliseconds_per_example(self):
        points = self.points("accumulation_accumulation", "no_sync")
        cells = [c for c in self.run_.parts[0].cells if c["cell"]["strategy"] == "no_sync"]
        self.assertEqual(len(cells), 8)
        for cell in cells:
            accumulation = cell["cell"]["accumulation_steps"]
            wanted = self.per_example(cell["step_s"]["mean"], accumulation)
            drawn = [height for height, _ in points[[1, 2, 4, 8].index(accumulation)]]
            self.assertAlmostEqual(min(drawn, key=lambda height: abs(height - wanted)), wanted)

    def test_points_that_the_law_has_not_seen_are_hollow(self):
        points = self.points("accumulation_accumulation", "baseline")
        self.assertEqual(
            {place: [filled for _, filled in at] for place, at in points.items()},
            {0: [True] * 2, 1: [False] * 2, 2: [True] * 2, 3: [False] * 2},
        )
        others = self.points("links_link", "baseline").values()
        self.assertTrue(all(filled for at in others for _, filled in at))

    def test_the_law_is_the_line_beside_the_points(self):
        drawn = [
            [round(height, 9) for height in line.get_ydata()]
            for line in self.lines("accumulation_accumulation")
            if line.get_marker() != "o" and line.get_linestyle() != "None"
        ]
        for law in self.run_.laws:
            for strategy in ("baseline", "no_sync"):
                wanted = [
                    round(self.per_example(point["law_s"], point["accumulation_steps"]), 9)
                    for point in law["points"]
                    if point["strategy"] == strategy
                ]
                self.assertIn(wanted, drawn)

    def test_a_failed_cell_is_no_point_and_two_points_are_no_line(self):
        self.assertEqual(len(self.points("links_link", "baseline")), 3)
        self.run_.parts[2].cells[0].update(status="failed", reason="killed")
        self.figures = sweep.draw_all(self.run_)
        self.assertEqual(len(self.points("links_link", "baseline")), 0)
        self.assertEqual(len(self.points("links_link", "no_sync")), 3)


class Sweeps(unittest.TestCase):
    def test_the_largest_legible_accumulation_stands_for_a_sweep(self):
        self.assertEqual(run_data.telling_accumulation([1, 2, 4, 8, 16]), 4)
        self.assertEqual(run_data.telling_accumulation([1, 2, 16]), 2)
        self.assertEqual(run_data.telling_accumulation([16, 8]), 8)


class Rows(unittest.TestCase):
    def test_collectives_in_flight_at_once_get_rows_of_their_own(self):
        spans = [(0, 2), (1, 3), (2, 4), (5, 6)]
        events = [{"start_s": start, "end_s": end} for start, end in spans]
        self.assertEqual(timeline._rows(events), [0, 1, 0, 0])

    def test_reductions_stand_out_with_and_without_buckets(self):
        ops = [("all_reduce", 0), ("all_reduce", 1), ("reduce_scatter", -1), ("all_gather", -1)]
        colours = [timeline._colour({"op": op, "bucket": bucket}) for op, bucket in ops]
        self.assertEqual(colours, [*timeline.BUCKETS, timeline.BUCKETS[0], style.GREY])


if __name__ == "__main__":
    unittest.main(verbosity=2)
