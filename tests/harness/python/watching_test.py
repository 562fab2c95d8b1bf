"""A training that watches itself, in processes as users have them: one, several, spawned ones.

Covers: harness/python/gradsync/__init__.py, harness/python/gradsync/outcome.py,
harness/python/gradsync/peers.py, harness/python/gradsync/program.py,
harness/python/gradsync/session.py.
"""

import functools
import json
import os
import subprocess
import sys
import textwrap
import unittest
from pathlib import Path
from typing import ClassVar

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tests" / "benchmarks"))
from fork_server import ForkServer  # noqa: E402
from program import PROGRAM, ProgramTest, free_port  # noqa: E402
from watch_test import CACHE, TORCH_PYTHON  # noqa: E402

# One process with a group of its own: a model, and a way to train it for some steps.
ALONE = """
import contextlib, os, sys
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
import gradsync

dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
model = DistributedDataParallel(torch.nn.Linear(4, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

def train(steps, properly):
    for _ in range(steps):
        for number in range(3):
            last = number == 2
            with model.no_sync() if properly and not last else contextlib.nullcontext():
                model(torch.ones(2, 4)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
"""
# Two ranks, each of which watches itself: what rank 0 prints is compared with what rank 1 knows.
TWO_RANKS = """
import contextlib, os, sys
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
import gradsync

def steps_of(model, optimizer, steps, properly):
    for _ in range(steps):
        for number in range(3):
            quiet = properly and number < 2
            with model.no_sync() if quiet else contextlib.nullcontext():
                model(torch.ones(2, 4)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()

def started(rank, store):
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2)
    model = DistributedDataParallel(torch.nn.Linear(4, 2))
    return model, torch.optim.SGD(model.parameters(), lr=0.1)

# A gloo process that ends as Python ends may abort in torch's own clearing up, watched or not.
def leave():
    sys.stdout.flush()
    os._exit(0)

def said_alike(rank, text):
    texts = [None, None]
    dist.all_gather_object(texts, text)
    assert texts[0] == texts[1], texts
    if rank == 0:
        print(text, flush=True)
"""
FORK = """
torch.multiprocessing.start_processes(train, (STORE,), nprocs=2, start_method="fork")
"""


def environment(**more):
    return {
        **{name: value for name, value in os.environ.items() if name != "LD_PRELOAD"},
        "GRADSYNC_PROGRAM": str(PROGRAM),
        "PYTHONPATH": str(ROOT / "harness" / "python"),
        "XDG_CACHE_HOME": str(CACHE),
        "OMP_NUM_THREADS": "1",
        **more,
    }


@functools.cache
def server():
    """Has imported torch: as a notebook has, or a script that watches itself from some line on."""
    return ForkServer(TORCH_PYTHON, environment())


class WatchingTest(ProgramTest):
    def python(self, *arguments, **more):
        command = [str(word) for word in (TORCH_PYTHON, *arguments)]
        return subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=600,
            env=environment(**more),
            cwd=self.place,
        )

    def forked(self, script, **more):
        """As python(), of a process that has imported torch."""
        return server().run(script, env=environment(**more), cwd=self.place)

    def script(self, *texts):
        path = self.place / "script.py"
        path.write_text("\n".join(map(textwrap.dedent, texts)))
        return path

    def said(self, *texts, run=None, **more):
        """`run`: python(), where torch must not be imported before."""
        done = (run or self.forked)(self.script(*texts), **more)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.splitlines()


# What one process does, block after block; before each it says which.
BLOCKS = {
    "what it did": """
        with gradsync.watching() as watched:
            assert watched.verdict is None and not watched.page
            import torch.distributed.fsdp
            train(5, properly=True)
        print(watched.verdict.kind, watched.has_excess, watched.steps, watched.unseen)
        print(watched.per_step["micro_batches"], watched.collectives["all_reduce"])
        print(watched.page.splitlines()[0])
        print(watched)
        print(watched._repr_html_().splitlines()[0])
        print(watched.json["ranks"][0]["no_peak_because"])
        """,
    "accounts": """
        for wish in (True, False):
            with gradsync.watching(account=wish, every=1) as watched:
                train(4, properly=True)
            print(watched.account)
        """,
    "blocks": """
        seen = []
        for steps, properly in ((4, True), (0, True), (6, False), (3, True)):
            with gradsync.watching() as watched:
                train(steps, properly)
            seen.append(watched)
            train(7, properly=False)  # not watched
        for watched in seen:
            print(watched.steps.get(0), watched.collectives.get("all_reduce", {}).get("count"))
        """,
    "an exception": """
        try:
            with gradsync.watching() as watched:
                train(5, properly=True)
                raise KeyError("of the training")
        except KeyError as error:
            print(error, watched.steps)
        """,
    "one in another": """
        with gradsync.watching() as watched:
            with gradsync.watching() as inner:
                train(3, properly=True)
        print(watched.verdict.kind, inner.verdict)
        print(*inner.unseen)
        """,
    "what is left": """
        before = dict(os.environ)
        with gradsync.watching() as watched:
            train(3, properly=True)
            assert os.listdir(os.environ["GRADSYNC_WATCH_DIR"])
        assert dict(os.environ) == before
        import glob
        print(glob.glob(os.environ["TMPDIR"] + "/gradsync_watching_*"))
        """,
}


class OneProcessTest(WatchingTest):
    said_by_block: ClassVar = {}

    def block(self, name):
        """Returns the lines that it printed; the first that asks runs all of them."""
        if not OneProcessTest.said_by_block:
            texts = [ALONE]
            for each, text in BLOCKS.items():
                texts += [f"print({f'== {each}'!r})", text]
            said = "\n".join(self.said(*texts, TMPDIR=str(self.place)))
            self.assertEqual(list(self.place.glob("gradsync_watching_*")), [])
            for part in said.split("== ")[1:]:
                head, *lines = part.splitlines()
                OneProcessTest.said_by_block[head] = lines
        return OneProcessTest.said_by_block[name]

    def test_what_it_did(self):
        lines = self.block("what it did")
        self.assertEqual(lines[0], "one_process False {0: 5} ()")
        self.assertEqual(lines[1], "3 {'bytes': 40, 'count': 1}")
        self.assertIn("WATCH 1 of 1 rank", lines[2])
        self.assertIn("Verdict(kind='one_process'", lines[3])
        self.assertNotIn("page=", lines[3])
        self.assertEqual(lines[4], f"<pre>{lines[2]}")
        # Not even of modules of torch that are imported within.
        self.assertEqual(lines[5], "its tensors were not counted from the first one on")

    def test_an_account_is_given_where_it_is_asked_for(self):
        lines = self.block("accounts")
        # Its micro-batches are alike.
        self.assertIn("3 of 3 contributions cannot be distinguished", lines[0])
        self.assertEqual(lines[1], "()")

    def test_each_watching_is_of_its_own_block(self):
        lines = self.block("blocks")
        self.assertEqual(lines[0], "4 1")
        self.assertIn(lines[1], ("0 None", "None None"))
        self.assertEqual(lines[2:], ["6 3", "3 1"])

    def test_an_exception_of_the_training_goes_on_its_way(self):
        self.assertEqual(self.block("an exception"), ["'of the training' {0: 5}"])

    def test_a_watching_inside_of_another(self):
        lines = self.block("one in another")
        self.assertEqual(lines[0], "one_process None")
        self.assertIn("watched already", lines[1])

    def test_nothing_is_left_behind(self):
        self.assertEqual(self.block("what is left"), ["[]"])

    def test_torch_need_not_be_there_before(self):
        lines = self.said(
            """
            import gradsync

            with gradsync.watching() as watched:
                import torch

                model = torch.nn.Linear(4, 2)
                optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
                for _ in range(3):
                    model(torch.ones(2, 4)).sum().backward()
                    optimizer.step()
            print(watched.verdict.kind, watched.steps)
            """,
            run=self.python,
        )
        self.assertEqual(lines, ["one_process {None: 3}"])


class UnseenTest(WatchingTest):
    """The training goes on; what is not known is said."""

    def unseen(self, **more):
        done = self.forked(
            self.script(
                ALONE,
                """
                with gradsync.watching() as watched:
                    train(3, properly=False)
                print(model.module.weight.grad is None, watched.verdict, watched.page == "")
                print(*watched.unseen)
                """,
            ),
            **more,
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        trained, why = done.stdout.splitlines()
        self.assertEqual(trained, "True None True")
        self.assertIn(f"the training is not watched: {why}", done.stderr)
        return why

    def test_no_program(self):
        why = self.unseen(GRADSYNC_PROGRAM="/nonexistent/gradsync")
        self.assertIn("there is no program /nonexistent/gradsync", why)

    def test_no_compiler(self):
        cache = str(self.place / "empty")
        why = self.unseen(XDG_CACHE_HOME=cache, CXX="", PATH="/nonexistent")
        self.assertIn("there is no C++ compiler", why)

    def test_under_gradsync_watch(self):
        script = self.script(
            ALONE,
            """
            with gradsync.watching() as watched:
                train(3, properly=True)
            print(watched.verdict, *watched.unseen)
            """,
        )
        done = subprocess.run(
            [PROGRAM, "watch", "--", TORCH_PYTHON, script],
            capture_output=True,
            text=True,
            env=environment(),
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("None it is being watched already", done.stdout)
        self.assertIn("rank 0: 3 steps, mostly of 3", done.stderr)


class SeveralProcessesTest(WatchingTest):
    def ranks_say(self, train, at_the_end=FORK):
        store = f"STORE = {str(self.place / 'store')!r}"
        return self.said(store, TWO_RANKS, train, at_the_end)

    def test_ranks_know_what_all_of_them_did(self):
        lines = self.ranks_say(
            """
            def train(rank, store):
                model, optimizer = started(rank, store)
                for properly in (False, True):
                    with gradsync.watching() as watched:
                        steps_of(model, optimizer, 5, properly)
                    change = watched.verdict.change
                    said_alike(rank, (watched.verdict.kind, watched.steps, change and change.line))
                    assert not watched.unseen, watched.unseen
                leave()
            """
        )
        forward = self.line_with("model(torch.ones")
        self.assertEqual(lines[0], f"('more_than_once', {{0: 5, 1: 5}}, {forward})")
        self.assertEqual(lines[1], "('once_per_step', {0: 5, 1: 5}, None)")

    def test_the_process_group_may_end_within(self):
        lines = self.ranks_say(
            """
            def train(rank, store):
                with gradsync.watching() as watched:
                    model, optimizer = started(rank, store)
                    steps_of(model, optimizer, 5, properly=False)
                    dist.destroy_process_group()
                # At once, or two ranks' words may mix.
                said = f"{watched.verdict.kind} {watched.steps} {watched.unseen}\\n"
                print(said, end="", flush=True)
                leave()
            """
        )
        self.assertEqual(lines, ["more_than_once {0: 5, 1: 5} ()"] * 2)

    def test_a_rank_that_does_not_watch_is_not_waited_for_long(self):
        lines = self.ranks_say(
            """
            import gradsync.peers

            gradsync.peers.FOLDER_S = 2

            def train(rank, store):
                model, optimizer = started(rank, store)
                with gradsync.watching() if rank == 0 else contextlib.nullcontext() as watched:
                    steps_of(model, optimizer, 5, properly=False)
                if rank == 0:
                    print(watched.steps, *watched.unseen, flush=True)
                dist.barrier()
                leave()
            """
        )
        self.assertIn("{0: 5} 1 of 2 ranks were seen", lines[0])
        self.assertIn("rank 1 did not end its watching within 2 s", lines[0])

    def test_spawned_ones_are_seen_by_who_starts_them(self):
        lines = self.ranks_say(
            """
            def train(rank, store):
                model, optimizer = started(rank, store)
                steps_of(model, optimizer, 5, properly=False)
                leave()
            """,
            """
            if __name__ == "__main__":
                with gradsync.watching() as watched:
                    torch.multiprocessing.spawn(train, (STORE,), nprocs=2)
                print(watched.verdict.kind, sorted(watched.steps.items()), watched.unseen)
            """,
        )
        self.assertEqual(lines, ["more_than_once [(0, 5), (1, 5)] ()"])

    def line_with(self, text):
        lines = (self.place / "script.py").read_text().splitlines()
        return next(number for number, line in enumerate(lines, 1) if text in line)

    def test_ranks_of_a_launcher_all_know_what_all_did(self):
        """Those of torchrun are in callbacks_test.py."""
        job = (ROOT / "tests" / "harness" / "watch" / "jobs" / "ddp.py", "improper")
        file = self.place / "seen"
        script = Path(__file__).with_name("watching_rank.py")
        place = {"MASTER_PORT": str(free_port())}
        done = server().run(script, file, *job, ranks=2, env=environment(**place))
        self.assertEqual(done.returncode, 0, done.stderr)
        seen = [json.loads(Path(f"{file}.{rank}.json").read_text()) for rank in range(2)]
        self.assertEqual(seen[0], seen[1])
        self.assertEqual(seen[0]["unseen"], [])
        self.assertEqual([rank["rank"] for rank in seen[0]["json"]["ranks"]], [0, 1])
        self.assertEqual(seen[0]["json"]["verdicts"][0]["kind"], "more_than_once")


if __name__ == "__main__":
    unittest.main()
