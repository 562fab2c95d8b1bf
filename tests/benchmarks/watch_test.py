"""gradsync watch on real jobs: it records what the job counted itself, and the job runs as it
would have run without it.

The preloaded library is built once, into a cache in the build folder.

Covers: watch_command.cpp, watched_job.cpp, harness/watch/inject/environment.cpp,
harness/watch/inject/preload/backward_runs.cpp, harness/watch/inject/preload/c10d_operators.cpp,
harness/watch/inject/preload/loader.cpp, harness/watch/inject/preload/watcher.cpp.
"""

import fcntl
import functools
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

from fork_server import WATCHED, ForkServer
from program import CACHE, INHERITED, PROGRAM, QUICK, RANK_PROGRAM, ROOT, ProgramTest, free_port

SKIPPED = 77
TORCH_PYTHON = os.environ.get("GRADSYNC_TEST_PYTHON", sys.executable)
PRINT_EVENTS = os.environ.get(
    "GRADSYNC_PRINT_EVENTS", ROOT / "build/release/bin/print_watched_events"
)
TRAINING = Path(__file__).with_name("watched_training.py")
FORKED_RANKS = Path(__file__).with_name("forked_ranks.py")
RANKS = 2
TORCHRUN = (Path(TORCH_PYTHON).with_name("torchrun"), f"--nproc-per-node={RANKS}")
# A thread: what looks for torch looks when one is made.
IMPORTS = "import torch, threading; threading.Thread().start()"
PRINT_IF_LOCKED = """
import fcntl, glob, os
[folder] = glob.glob(os.path.join(os.environ["TMPDIR"], "gradsync_watch_*"))
try:
    fcntl.flock(os.open(folder, os.O_RDONLY), fcntl.LOCK_SH | fcntl.LOCK_NB)
except BlockingIOError:
    print("locked")
"""
VERSION_HEADER = """
#define TORCH_VERSION_MAJOR 2
#define TORCH_VERSION_MINOR 11
#define TORCH_VERSION_PATCH 0
"""

FIND_TORCH = "import importlib.util, sys; sys.exit(importlib.util.find_spec('torch') is None)"
if subprocess.run([TORCH_PYTHON, "-c", FIND_TORCH], capture_output=True).returncode != 0:
    print("skipped: this Python has no torch; run harness/setup --oracles")
    sys.exit(SKIPPED)


@functools.cache
def watched_server(*of_watch, **more):
    """The server of jobs that are watched: it was started as gradsync watch starts a job, with
    these options, and with `more` in its environment."""
    inherited = {name: os.environ[name] for name in INHERITED if name in os.environ}
    with tempfile.TemporaryDirectory(prefix="gradsync_test_") as folder:
        options = ("--keep", f"{folder}/events", "--python", TORCH_PYTHON, *of_watch)
        said = subprocess.run(
            [PROGRAM, "watch", *options, "--", "env", "-0"],
            env=inherited | {"XDG_CACHE_HOME": str(CACHE)},
            capture_output=True,
            text=True,
            check=True,
        )
    environment = dict(pair.split("=", 1) for pair in said.stdout.split("\0") if pair)
    return ForkServer(TORCH_PYTHON, environment | {"GRADSYNC_WATCH_DIR": WATCHED} | more)


class WatchTest(ProgramTest):
    def start_watch(self, *job, options=(), env=None, python=TORCH_PYTHON, **more):
        """`python`: None where the command itself shows whose torch it uses."""
        self.watched = getattr(self, "watched", 0) + 1
        return self.start(
            "watch",
            "--keep",
            self.events_folder(),
            *(["--python", python] if python else []),
            *options,
            "--",
            *job,
            env={"XDG_CACHE_HOME": str(CACHE)} | (env or {}),
            **more,
        )

    def watch(self, *job, **options):
        return self.finish(self.start_watch(*job, **options))

    def events_folder(self):
        return self.place / f"events{self.watched}"

    def seen(self):
        """Returns what the processes of the last job left: a list of them, by rank."""
        printed = subprocess.run(
            [PRINT_EVENTS, self.events_folder()], capture_output=True, text=True, check=True
        )
        return json.loads(printed.stdout)

    def watch_training(self, job, launcher):
        """Returns the outcome, and for each rank the counts that it printed."""
        port = free_port()
        by_launcher = {
            "torchrun": (*TORCHRUN, f"--master-port={port}"),
            # Whose Python takes no modules from the environment: the hook's neither.
            "unhooked": (*TORCHRUN, f"--master-port={port}", "--no-python", TORCH_PYTHON, "-E"),
            "forked": (TORCH_PYTHON, FORKED_RANKS, RANKS),
        }
        start = (*by_launcher[launcher], TRAINING, job)
        outcome = self.watch(*start, python=None, env={"MASTER_PORT": str(port)})
        counted = {counts.pop("rank"): counts for counts in objects_in(outcome.out)}
        self.assertEqual(sorted(counted), list(range(RANKS)), outcome.err)
        return outcome, counted


def objects_in(text):
    """Returns the JSON objects in what several ranks printed: their newlines may come late."""
    objects = []
    while (begin := text.find("{")) >= 0:
        found, length = json.JSONDecoder().raw_decode(text[begin:])
        objects.append(found)
        text = text[begin + length :]
    return objects


def of_kind(events, kind):
    return [event for event in events if event["kind"] == kind]


def counts_of(events):
    """Returns an object as the job prints it, without its rank."""
    collectives = {}
    for event in of_kind(events, "collective"):
        sums = collectives.setdefault(event["name"], {"count": 0, "bytes": 0})
        sums["count"] += 1
        sums["bytes"] += event["bytes"]
    kinds = ("forward", "backward", "optimizer_step")
    return {kind: len(of_kind(events, kind)) for kind in kinds} | {"collectives": collectives}


class CountingTest(WatchTest):
    def assert_counts_are_the_jobs(self, job, launcher="torchrun"):
        """Returns the events of each rank."""
        outcome, counted = self.watch_training(job, launcher)
        self.assertEqual(outcome.status, 0, outcome.err)
        seen = self.seen()
        self.assertEqual([rank["rank"] for rank in seen], sorted(counted))
        for rank in seen:
            self.assertEqual(rank["world_size"], RANKS)
            self.assertEqual(rank["faults"], [])
            self.assertEqual(counts_of(rank["events"]), counted[rank["rank"]])
        return [rank["events"] for rank in seen]


class CountsTest(CountingTest):
    """What every change is tested with."""

    def test_ddp_without_no_sync(self):
        for events in self.assert_counts_are_the_jobs("ddp"):
            self.assertEqual(
                {event["name"] for event in of_kind(events, "forward")}, {"DistributedDataParallel"}
            )
            self.assertEqual(
                {event["name"] for event in of_kind(events, "optimizer_step")}, {"AdamW"}
            )
            # Three linear layers and the normalization: eight tensors.
            self.assertEqual({event["detail"] for event in of_kind(events, "backward")}, {"8"})
            self.assert_completions_are_known(events)
            self.assert_reductions_are_in_backward(events)

    def assert_reductions_are_in_backward(self, events):
        """That of the last bucket, too, which a hook of the last node begins."""
        backwards = of_kind(events, "backward")
        for event in of_kind(events, "collective"):
            if event["name"] == "all_reduce":
                is_in = [
                    each["start_ns"] <= event["start_ns"] <= each["end_ns"] for each in backwards
                ]
                self.assertEqual(sum(is_in), 1)

    def assert_completions_are_known(self, events):
        """As gloo tells when a collective is complete, from a thread that may be late."""
        reductions = [
            event for event in of_kind(events, "collective") if event["name"] == "all_reduce"
        ]
        self.assertTrue(reductions)
        for event in reductions:
            self.assertGreater(event["end_ns"], event["start_ns"])
        first_step = of_kind(events, "optimizer_step")[0]
        self.assertTrue(any(event["start_ns"] < first_step["start_ns"] for event in reductions))

    def test_every_operation(self):
        for events in self.assert_counts_are_the_jobs("operations", "forked"):
            groups = {event["object"] for event in of_kind(events, "collective")}
            self.assertEqual(len(groups), 2)
            self.assertNotIn(0, groups)

    def test_a_program_in_cpp(self):
        # A script that names both: the launcher, and the program of its ranks, which has torch.
        script = 'GRADSYNC_RANK=$1; export GRADSYNC_RANK; shift; exec "$@"'
        job = (PROGRAM, "run", self.plan_file(QUICK), "--out", self.place / "run")
        outcome = self.watch("sh", "-c", script, "sh", RANK_PROGRAM, *job, python=None)
        self.assertEqual(outcome.status, 0, outcome.err)
        ranks = [rank for rank in self.seen() if rank["rank"] >= 0]
        self.assertEqual([rank["rank"] for rank in ranks], [0, 1])
        accumulation = QUICK["cells"]["accumulation_steps"][0]
        ledger = json.loads((self.place / "run" / "result.json").read_text())["cells"][0]
        for rank in ranks:
            self.assertEqual(rank["faults"], [])
            steps, rest = divmod(len(of_kind(rank["events"], "backward")), accumulation)
            self.assertEqual(rest, 0)
            self.assertGreaterEqual(steps, QUICK["steps"] + QUICK["warmup_steps"])
            reduced = counts_of(rank["events"])["collectives"]["all_reduce"]
            in_a_step = ledger["collectives_per_step"]["all_reduce"]
            self.assertEqual(reduced["bytes"], steps * in_a_step["bytes"])


class SlowCountsTest(CountingTest):
    """The others: each starts Python's torch in two ranks."""

    def test_no_sync(self):
        self.assert_counts_are_the_jobs("no_sync")

    def test_two_models_evaluation_and_a_gradient_besides(self):
        for events in self.assert_counts_are_the_jobs("two_models"):
            details = [event["detail"] for event in of_kind(events, "backward")]
            self.assertEqual(details.count("1"), 1, "the one of torch.autograd.grad")

    def test_fully_shard(self):
        for events in self.assert_counts_are_the_jobs("sharded"):
            self.assertEqual(
                {event["name"] for event in of_kind(events, "forward")}, {"fully_shard"}
            )

    def test_reentrant_checkpoints_are_part_of_their_backward(self):
        self.assert_counts_are_the_jobs("checkpointed")
        for events in self.assert_counts_are_the_jobs("checkpointed", "unhooked"):
            self.assertEqual(of_kind(events, "wrap"), [], "what the hook alone sees")

    def test_forked_workers_do_not_count(self):
        self.assert_counts_are_the_jobs("forked")

    def test_a_killed_rank_loses_nothing(self):
        outcome, counted = self.watch_training("killed", "torchrun")
        self.assertNotEqual(outcome.status, 0)
        killed = self.seen()[1]
        self.assertEqual(killed["rank"], 1)
        seen = counts_of(killed["events"])
        del seen["collectives"]["barrier"]  # after it has printed
        self.assertEqual(seen, counted[1])


class TransparencyTest(WatchTest):
    """The job cannot tell, and neither can who started it."""

    def assert_same_as_without(self, *job, options=()):
        alone = self.call(*job[1:], command=(job[0],))
        watched = self.watch(*job, options=options)
        self.assertEqual((watched.status, watched.out), (alone.status, alone.out))
        self.assertTrue(watched.err.startswith(alone.err), watched.err)
        return watched

    def test_output_and_status_pass_through(self):
        self.assert_same_as_without("sh", "-c", "echo out; echo err >&2; exit 7")
        self.assertEqual(self.watch("true").status, 0)

    def test_words_of_the_command_are_left_alone(self):
        script = 'for word in "$@"; do echo "<$word>"; done'
        words = ["--", "-x", "--steps", "[a,b]", "", "two words", "run", "--help", "%%"]
        outcome = self.assert_same_as_without("sh", "-c", script, "sh", *words)
        self.assertEqual(outcome.out.splitlines(), [f"<{word}>" for word in words])

    def test_input_passes_through(self):
        process = self.start_watch("cat", stdin=subprocess.PIPE)
        out, err = process.communicate("a line\nand another\n", timeout=600)
        self.assertEqual(out, "a line\nand another\n", err)

    def test_a_signals_status_is_that_of_a_shell(self):
        self.assertEqual(self.watch("sh", "-c", "kill -9 $$").status, 128 + signal.SIGKILL)

    def test_what_is_no_program_is_named(self):
        outcome = self.watch("no_such_program")
        self.assertEqual(outcome.status, 127)
        self.assertIn("error: no_such_program: No such file or directory", outcome.err)

    def test_a_signal_to_us_reaches_the_job(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            ready = self.place / f"ready{number}"
            script = (
                f"trap 'echo got it; exit 9' INT TERM; touch {ready}; while :; do sleep 1; done"
            )
            process = self.start_watch("sh", "-c", script)
            self.wait_until(ready.exists, what="the job")
            process.send_signal(number)
            outcome = self.finish(process)
            self.assertEqual((outcome.status, outcome.out), (9, "got it\n"), outcome.err)

    def test_an_import_that_fails_looks_the_same(self):
        self.assert_same_as_without(TORCH_PYTHON, "-c", "import no_such_module")


class FolderTest(WatchTest):
    def folder(self, letters, age_s):
        folder = self.place / f"gradsync_watch_{letters}"
        folder.mkdir()
        (folder / "turns").write_text("x")
        changed = time.time() - age_s
        os.utime(folder, (changed, changed))
        return folder

    def folders(self):
        return sorted(self.place.glob("gradsync_watch_*"))

    def call_watch(self, *job, temporary=None):
        return self.call(
            *("watch", "--python", self.place / "no_python", "--", *job),
            env={"XDG_CACHE_HOME": str(CACHE), "TMPDIR": str(temporary or self.place)},
        )

    def test_what_a_killed_one_left_is_removed_by_the_next(self):
        self.folder("killed", 3600)
        young = self.folder("young_", 0)
        locked = self.folder("locked", 3600)
        other = self.folder("of_something_else", 3600)
        descriptor = os.open(locked, os.O_RDONLY)
        self.addCleanup(os.close, descriptor)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        self.assertEqual(self.call_watch("true").status, 0)
        self.assertEqual(self.folders(), sorted([young, locked, other]))

    def test_the_folder_is_locked_while_the_job_runs(self):
        outcome = self.call_watch(sys.executable, "-c", PRINT_IF_LOCKED)
        self.assertEqual(outcome.out, "locked\n", outcome.err)
        self.assertEqual(self.folders(), [])

    def test_the_job_may_change_its_own_folder(self):
        code = "import os; print(os.environ['GRADSYNC_WATCH_DIR'])"
        outcome = self.call(
            *("watch", "--python", TORCH_PYTHON, "--", sys.executable, "-c", code),
            env={"XDG_CACHE_HOME": str(CACHE), "TMPDIR": "."},
        )
        self.assertTrue(os.path.isabs(outcome.out), outcome.out + outcome.err)

    def test_a_folder_for_temporary_files_that_is_none(self):
        missing = self.place / "missing"
        outcome = self.call_watch("sh", "-c", "echo out; exit 5", temporary=missing)
        self.assertEqual((outcome.status, outcome.out), (5, "out\n"), outcome.err)
        self.assertIn("the job was not watched: a folder in TMPDIR cannot be made", outcome.err)


class UnwatchedTest(WatchTest):
    """Whatever keeps the watcher out, the job runs, and one sentence says why."""

    def assert_unwatched(self, outcome, *texts, status=0, out=""):
        self.assertEqual((outcome.status, outcome.out), (status, out), outcome.err)
        for text in ("warn: ", *texts):
            self.assertIn(text, outcome.err)

    def test_without_torch(self):
        for options, status in ((), 5), (["--fail-on-excess"], 5):
            outcome = self.watch(
                "sh", "-c", "echo out; exit 5", python=self.place / "no_python", options=options
            )
            self.assert_unwatched(
                outcome, "the job was not watched: ", "no_python", status=status, out="out\n"
            )

    def test_a_job_that_uses_no_torch(self):
        self.assert_unwatched(
            self.watch("true"), "no process that LD_PRELOAD reached used libtorch_cpu.so"
        )

    def test_a_launcher_that_clears_the_environment(self):
        job = ["env", "-i", TORCH_PYTHON, "-c", "import torch; print('ran')"]
        self.assert_unwatched(
            self.watch(*job), "a launcher may have taken LD_PRELOAD away", out="ran\n"
        )
        job[-1] = "print('ran')"  # what it does is not seen
        self.assert_unwatched(self.watch(*job, options=["--fail-on-excess"]), status=4, out="ran\n")

    def test_a_torch_that_nobody_trains_with(self):
        self.assert_unwatched(self.watch(TORCH_PYTHON, "-c", IMPORTS), "torch was loaded, but")

    def test_another_torch_than_the_one_it_was_built_for(self):
        """A folder that looks like torch; the job then loads the real one."""
        torch = self.place / "torch"
        for file in ("lib/libtorch_cpu.so", "lib/libc10.so", "include/ATen/record_function.h"):
            (torch / file).parent.mkdir(parents=True, exist_ok=True)
            (torch / file).write_text("__cxx11")
        version = torch / "include/torch/headeronly/version.h"
        version.parent.mkdir(parents=True)
        version.write_text(VERSION_HEADER)
        python = self.script("python", f"echo torch:{torch}")
        # The loader in earnest, and of the watcher an empty file.
        compiler = self.script(
            "compiler",
            'case "$*" in *loader.cpp*) exec c++ "$@" ;; esac',
            'while [ $# -gt 0 ]; do [ "$1" = -o ] && touch "$2"; shift; done',
        )
        outcome = self.watch(
            TORCH_PYTHON,
            "-c",
            IMPORTS,
            python=python,
            env={"CXX": str(compiler), "XDG_CACHE_HOME": str(self.place / "cache")},
        )
        self.assert_unwatched(
            outcome, f"libtorch_cpu.so, but the watcher was built for {torch}/lib/libtorch_cpu.so"
        )

    def script(self, name, *lines):
        path = self.place / name
        path.write_text("\n".join(["#!/bin/sh", *lines, ""]))
        path.chmod(0o755)
        return path

    def test_mistakes_in_our_own_options(self):
        self.assert_refused(self.call("watch"), "COMMAND is missing")
        folder = self.place / "taken"
        folder.mkdir()
        (folder / "file").write_text("")
        self.assert_refused(
            self.call("watch", "--keep", folder, "--", "true"), "--keep: got", "holds something"
        )
        self.assert_refused(self.call("watch", "true"), "true")


if __name__ == "__main__":
    unittest.main(verbosity=2)
