"""The Python hook alone, without the native library: what it writes of a job of two ranks, and that
nothing that goes wrong in it reaches the job.

Covers: gradsync_watch_account.py, gradsync_watch_account_file.py, gradsync_watch_between.py,
gradsync_watch_calls.py, gradsync_watch_exchanges.py, gradsync_watch_hash.py,
gradsync_watch_hook.py, gradsync_watch_models.py, gradsync_watch_owners.py,
gradsync_watch_recording.py, gradsync_watch_replicas.py, gradsync_watch_sketch.py,
gradsync_watch_wrapping.py, gradsync_watch_writer.py, sitecustomize.py.
"""

import functools
import importlib.util
import json
import os
import socket
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[3]
sys.path.insert(0, str(ROOT / "tests" / "benchmarks"))
from fork_server import WATCHED, ForkServer  # noqa: E402

JOBS = HERE.parent / "jobs"
HOOK = ROOT / "harness" / "watch" / "inject" / "hook"
RANKS = 2
DEADLINE_S = 600  # for hangs alone
SKIPPED = 77  # as SKIP_RETURN_CODE in CMakeLists.txt

if importlib.util.find_spec("torch") is None:
    print("skipped: Python's torch is not installed; harness/setup --oracles has it")
    sys.exit(SKIPPED)


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def environment(folder=None, **more):
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("GRADSYNC_", "PYTHON"))}
    kept |= {"OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    if folder is not None:
        kept |= {"GRADSYNC_WATCH_DIR": str(folder), "PYTHONPATH": str(HOOK)}
    return kept | more


def run_python(*arguments, **more):
    return subprocess.run(
        [sys.executable, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
        **more,
    )


@functools.cache
def server():
    """Has imported torch with the hook: scripts that need not see that begin there."""
    return ForkServer(sys.executable, environment(WATCHED))


def run_forked(text, *arguments, env, **more):
    """As run_python() with "-c", of a process that has imported torch with the hook."""
    with tempfile.TemporaryDirectory(prefix="gradsync_test_") as folder:
        script = Path(folder) / "script.py"
        script.write_text(text)
        return server().run(script, *arguments, env=env, **more)


def run_job(script, name, folder):
    """Runs it with the hook, as ranks."""
    place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    done = server().run(script, name, ranks=RANKS, env=environment(folder, **place))
    if done.returncode != 0:
        raise AssertionError(done.stderr)


def events_of(folder):
    """Returns the lines of every hook's file, by rank."""
    by_rank = {}
    for path in Path(folder).glob("hook-*.jsonl"):
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        rank = next((line["rank"] for line in lines if line["kind"] == "rank"), None)
        by_rank[rank] = lines
    return by_rank


def of_kind(lines, kind):
    return [line for line in lines if line["kind"] == kind]


# What torch says of a GPU, on a machine that has none.
STAND_IN = """
import contextlib, sys, torch
torch.cuda.is_initialized = lambda: True
torch.cuda.device_count = lambda: int(sys.argv[1])
torch.cuda.max_memory_allocated = lambda device=None: held
torch.cuda.max_memory_reserved = lambda device=None: 2 * held
weight = torch.zeros(4, requires_grad=True)
optimizer = torch.optim.SGD([weight], lr=0.1)
for held in (4096, 8192, 1024):
    weight.sum().backward()
    optimizer.step()
    if held == 8192:
        held = 9000
        with contextlib.suppress(Exception):
            torch.cuda.reset_peak_memory_stats()
"""


class GpuPeakTest(unittest.TestCase):
    def lines_of(self, gpus):
        with tempfile.TemporaryDirectory(prefix="gradsync_test_") as folder:
            done = run_forked(STAND_IN, gpus, env=environment(folder))
            self.assertEqual(done.returncode, 0, done.stderr)
            [lines] = events_of(folder).values()
        self.assertEqual(of_kind(lines, "fault"), [])
        return lines

    def test_it_is_asked_at_each_step_and_before_the_job_resets_it(self):
        lines = self.lines_of(1)
        steps = [line["bytes"] for line in of_kind(lines, "optimizer_step")]
        self.assertEqual(steps, [4096, 8192, 9000])
        [line] = of_kind(lines, "gpu_peak")
        self.assertEqual((line["bytes"], line["reserved_bytes"]), (9000, 18000))

    def test_of_two_gpus_it_is_not_known(self):
        [line] = of_kind(self.lines_of(2), "gpu_peak")
        self.assertEqual((line["bytes"], line["sentence"]), (-1, "its tensors are on 2 GPUs"))


SYMMETRIC = """
import torch.distributed._symmetric_memory as symmetric
for _ in range(2):
    try:
        symmetric.rendezvous(None, "no such group")
    except Exception:
        pass
"""

# This imitates a torch for AMD's GPUs, by the word in its version alone.
ROCM = """
import importlib, sys, torch
torch.version.hip = "6.4"
del sys.modules["torch.cuda"]
importlib.import_module("torch.cuda")
"""


class NotSeenTest(unittest.TestCase):
    def faults_of(self, script, modules=None):
        with tempfile.TemporaryDirectory(prefix="gradsync_test_") as folder:
            path = Path(folder) / "script.py"
            path.write_text(script)
            more = {"PYTHONPATH": f"{HOOK}:{folder}"}
            for name, text in (modules or {}).items():
                (Path(folder) / name).parent.mkdir(exist_ok=True)
                (Path(folder) / name).write_text(text)
            done = run_python(path, env=environment(folder, **more))
            self.assertEqual(done.returncode, 0, done.stderr)
            files = events_of(folder)
        return [line["sentence"] for lines in files.values() for line in of_kind(lines, "fault")]

    def test_symmetric_memory_is_named_once_and_only_where_it_is_used(self):
        [fault] = self.faults_of(SYMMETRIC)
        self.assertIn("symmetric memory (torch.distributed._symmetric_memory)", fault)
        self.assertIn("is not seen", fault)
        self.assertEqual(self.faults_of("import torch.distributed._symmetric_memory"), [])

    def test_nvshmem_is_named(self):
        package = {"nvshmem/__init__.py": "", "nvshmem/core.py": ""}
        [fault] = self.faults_of("import nvshmem.core", package)
        self.assertIn("NVSHMEM (nvshmem.core)", fault)

    def test_a_torch_for_rocm_is_named(self):
        [fault] = self.faults_of(ROCM)
        self.assertIn("built for ROCm", fault)


# A comment marks each line that is to be recorded. The tensor has its data on the CPU and says
# otherwise: on a machine without a GPU nothing else can be read there.
CALLS = """
import torch
import torch.distributed as dist
from torch.distributed import all_reduce
import gradsync_watch_calls as calls
import gradsync_watch_hook as hook
dist.init_process_group("gloo")
number = torch.ones(())
dist.barrier()  # told
all_reduce(number)  # told
dist.all_reduce(number, async_op=True).wait()
dist.all_reduce(number.long(), dist.ReduceOp.MAX)  # told
dist.all_gather_object([None], 7)  # told
torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(1, 1))

def doubled(value):
    dist.all_reduce(value)
    return 2 * value

compiled = torch.compile(doubled, backend="eager", fullgraph=True)
assert compiled(number) == 2 * number
number.item()
calls.watch_reads(torch.Tensor, hook.standing_for)

class OnGpu(torch.Tensor):
    is_cuda = True

number.item()
there = number.as_subclass(OnGpu)
assert there.item() == 1  # told
assert float(there) == 1  # told

def scaled(value):
    return value * value.sum().item()

with torch._dynamo.config.patch(capture_scalar_outputs=True):
    assert torch.compile(scaled, backend="eager", fullgraph=True)(number) == 1
"""


# torch.compile has looked at collectives before the hook was there.
CALLS_WITHIN = """
import sys
import torch
import torch.distributed as dist
import torch.distributed._functional_collectives
import gradsync_watch_hook as hook
dist.init_process_group("gloo")
number = torch.ones(())
hook.begin(sys.argv[1])
dist.all_reduce(number)  # told

def doubled(value):
    dist.all_reduce(value)
    return 2 * value

assert torch.compile(doubled, backend="eager", fullgraph=True)(number) == 2 * number
hook.end()
"""


class CallsTest(unittest.TestCase):
    """What the job waits for by itself, from its own lines."""

    def test_calls_are_told_by_line_and_compile_as_they_did(self):
        names = ["barrier", "all_reduce", "all_reduce", "all_gather_object"]
        names += ["read item", "read __float__"]
        more = {"GRADSYNC_WATCH_DIR": "watched"}
        told = self.calls_told_by(run_forked, CALLS, more)
        self.assertEqual([line["name"] for line in told], names)
        details = [line.get("detail") for line in told]
        self.assertEqual(details, ["", "float32", "int64 max", "", None, None])

    def test_from_within_they_compile_as_they_did(self):
        run = functools.partial(run_python, "-c")
        [call] = self.calls_told_by(run, CALLS_WITHIN, {})
        self.assertEqual(call["name"], "all_reduce")

    def calls_told_by(self, run, source, more):
        """Returns what each line told of that says so, and no other one."""
        place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
        place |= {"RANK": "0", "WORLD_SIZE": "1", "PYTHONPATH": str(HOOK)} | more
        with tempfile.TemporaryDirectory(prefix="gradsync_test_") as folder:
            watched = Path(folder) / "watched"
            watched.mkdir()
            done = run(source, watched, env=environment(**place), cwd=folder)
            self.assertEqual(done.returncode, 0, done.stderr)
            [lines] = events_of(watched).values()
        self.assertEqual(of_kind(lines, "fault"), [])
        numbered = enumerate(source.splitlines(), 1)
        marked = [number for number, line in numbered if line.endswith("# told")]
        told = of_kind(lines, "call")
        self.assertEqual([line["line"] for line in told], marked)
        return told


class EventsTest(unittest.TestCase):
    """What the hook writes of a job, event by event."""

    @classmethod
    def setUpClass(cls):
        with tempfile.TemporaryDirectory(prefix="gradsync_test_") as folder:
            run_job(JOBS / "ddp.py", "improper", folder)
            cls.by_rank = events_of(folder)
        cls.source = (JOBS / "ddp.py").read_text().splitlines()

    def test_every_rank_writes_one_file_that_begins_with_a_start(self):
        self.assertEqual(set(self.by_rank), set(range(RANKS)))
        for lines in self.by_rank.values():
            self.assertEqual(lines[0]["kind"], "start")
            self.assertEqual(lines[0]["schema"], "gradsync.watch_hook/1")
            self.assertEqual(of_kind(lines, "rank")[0]["world_size"], RANKS)
            self.assertEqual(of_kind(lines, "fault"), [])

    def test_counts(self):
        for lines in self.by_rank.values():
            counts = {
                kind: len(of_kind(lines, kind))
                for kind in ("wrap", "forward", "backward", "no_sync_enter", "no_sync_leave")
            }
            expected = {"wrap": 1, "forward": 24, "backward": 24}
            expected |= {"no_sync_enter": 18, "no_sync_leave": 18}
            self.assertEqual(counts, expected)
            self.assertEqual(len(of_kind(lines, "optimizer_step")), 6)
            self.assertEqual(len(of_kind(lines, "zero_grad")), 6)
            self.assertEqual(of_kind(lines, "gradient_use"), [])

    def test_places_are_the_jobs_own_lines(self):
        for lines in self.by_rank.values():
            for kind, code in (
                ("wrap", "DistributedDataParallel(make_model())"),
                ("forward", "model(inputs)"),
                ("no_sync_enter", "model.no_sync()"),
                ("backward", "loss.backward()"),
                ("optimizer_step", "optimizer.step()"),
                ("zero_grad", "optimizer.zero_grad()"),
            ):
                for event in of_kind(lines, kind):
                    self.assertEqual(Path(event["file"]), JOBS / "ddp.py")
                    self.assertIn(code, self.source[event["line"] - 1])

    def test_a_wrap_has_the_options_and_the_size_of_the_gradients(self):
        for lines in self.by_rank.values():
            (wrap,) = of_kind(lines, "wrap")
            self.assertEqual(wrap["bytes"], 4 * (12 * 12 + 12 + 12 + 1))
            options = wrap["detail"].split()
            self.assertIn("find_unused_parameters=false", options)
            self.assertIn(f"bucket_bytes_cap={25 * 2**20}", options)
            self.assertIn("gradient_as_bucket_view=false", options)
            self.assertIn(f"largest_parameter_bytes={4 * 12 * 12}", options)
            self.assertEqual({e["object"] for e in of_kind(lines, "forward")}, {wrap["object"]})

    def test_process_groups_are_told_once_by_the_wrapper_and_once_by_torch(self):
        for lines in self.by_rank.values():
            told = [(group["ranks"], group["role"]) for group in of_kind(lines, "group")]
            self.assertEqual(told, [([0, 1], "data_parallel"), ([0, 1], "")])

    def test_times_are_of_the_monotonic_clock_and_nest(self):
        for lines in self.by_rank.values():
            events = [line for line in lines if "start_ns" in line]
            self.assertTrue(all(event["start_ns"] <= event["end_ns"] for event in events))
            backwards = of_kind(lines, "backward")
            for enter, leave in zip(
                of_kind(lines, "no_sync_enter"), of_kind(lines, "no_sync_leave"), strict=True
            ):
                inside = [
                    b
                    for b in backwards
                    if enter["end_ns"] <= b["start_ns"] and b["end_ns"] <= leave["start_ns"]
                ]
                self.assertEqual(len(inside), 1)


# A wrapper within a wrapper; a loss that replays a forward within its backward; and an optimizer
# that steps there.
WITHIN = """
import torch
from torch.nn.parallel import DistributedDataParallel
torch.distributed.init_process_group("gloo")

class Outer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.table = DistributedDataParallel(torch.nn.Linear(2, 2))
        self.over = torch.nn.Linear(2, 1)

    def forward(self, inputs):
        return self.over(self.table(inputs))

outer = Outer()
DistributedDataParallel._set_params_and_buffers_to_ignore_for_model(
    outer, ["table.module.weight", "table.module.bias"]
)
model = DistributedDataParallel(outer)
with model.no_sync():
    model(torch.ones(1, 2)).sum().backward()
inner = outer.table
optimizer = torch.optim.SGD(inner.parameters(), lr=0.1)

def replay(_):
    with torch.enable_grad():
        inner(torch.ones(1, 2)).sum().backward()
    optimizer.step()

leaf = torch.ones(1, requires_grad=True)
leaf.register_hook(replay)
leaf.sum().backward()
optimizer.step()
leaf.grad.norm()
inner(torch.ones(1, 2)).sum().backward()
"""


class WithinTest(unittest.TestCase):
    """What runs within a forward or a backward."""

    @classmethod
    def setUpClass(cls):
        place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
        place |= {"RANK": "0", "WORLD_SIZE": "1"}
        with tempfile.TemporaryDirectory(prefix="gradsync_test_") as folder:
            done = run_forked(WITHIN, env=environment(folder, **place))
            assert done.returncode == 0, done.stderr
            [cls.lines] = events_of(folder).values()
        cls.inner, cls.outer = (wrap["object"] for wrap in of_kind(cls.lines, "wrap"))

    def test_an_inner_models_forward_says_how_the_outer_one_calls_it(self):
        [inner] = of_kind(self.lines, "inner_forward")
        self.assertEqual((inner["object"], inner["detail"]), (self.inner, "inside=table"))
        forwards = [line["object"] for line in of_kind(self.lines, "forward")]
        self.assertEqual(forwards, [self.outer, self.inner, self.inner])

    def test_a_wrapper_has_the_gradients_that_it_reduces(self):
        sizes = [wrap["bytes"] for wrap in of_kind(self.lines, "wrap")]
        self.assertEqual(sizes, [4 * (4 + 2), 4 * (2 + 1)])

    def test_a_backward_within_one_is_told_where_a_forward_ran_before_it(self):
        whole, replayed, around, last = sorted(
            of_kind(self.lines, "backward"), key=lambda line: line["end_ns"]
        )
        self.assertLess(whole["end_ns"], around["start_ns"])
        self.assertLess(around["start_ns"], replayed["start_ns"])
        self.assertLess(around["end_ns"], last["start_ns"])

    def test_an_optimizer_says_of_which_models_it_is_within_backward_and_without(self):
        steps = [step.get("detail", "") for step in of_kind(self.lines, "optimizer_step")]
        self.assertEqual(steps, [f"of={self.inner}"] * 2)

    def test_a_gradient_of_no_parameter_may_be_read(self):
        self.assertEqual(of_kind(self.lines, "gradient_use"), [])


class GradientUseTest(unittest.TestCase):
    """Lines of a job that need the gradients as they are between two backwards."""

    def uses_of(self, name):
        """Lines of the job's code with how it used gradients there, by rank."""
        script = JOBS / "not_recognised.py"
        source = script.read_text().splitlines()
        with tempfile.TemporaryDirectory(prefix="gradsync_test_") as folder:
            run_job(script, name, folder)
            return {
                rank: [
                    (use["detail"], source[use["line"] - 1].strip())
                    for use in of_kind(lines, "gradient_use")
                ]
                for rank, lines in events_of(folder).items()
            }

    def test_the_first_read_by_the_job_is_recorded_and_no_clipping(self):
        read = ("read", "attack = 0.05 * attacked.grad / attacked.grad.norm()")
        changed = ("parameters", "mse_loss(model(inputs), targets).backward()")
        for uses in self.uses_of("fgm").values():
            self.assertEqual(uses, [read, changed] * 12)

    def test_parameters_that_are_written_past_autograd_are_noticed(self):
        for uses in self.uses_of("perturbed").values():
            self.assertEqual([how for how, _ in uses], ["parameters"] * 12)


# Reads a gradient after each of its backwards, or never; prints whether torch's class is then as it
# was.
READING = """
import os, sys, torch
torch.distributed.init_process_group("gloo")
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 2))
for _ in range(int(sys.argv[1])):
    model(torch.ones(1, 2)).sum().backward()
    changed = "grad" in vars(torch.Tensor)
    if sys.argv[2] == "reading":
        model.module.weight.grad.norm()
print(changed, "grad" in vars(torch.Tensor))
"""
# What torch.compile asks of Tensor.grad while it is looked at.
COMPILING = """
import torch
from torch._dynamo.utils import is_tensor_base_attr_getter
torch.distributed.init_process_group("gloo")
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 2))
model(torch.ones(1, 2)).sum().backward()
print("grad" in vars(torch.Tensor), is_tensor_base_attr_getter(torch.Tensor.grad.__get__))
"""


class ManyReadsTest(unittest.TestCase):
    """torch's class of tensors is not changed for ever."""

    BACKWARDS = 250  # above GradientReads.MOST_LOOKS

    def run_one(self, *job):
        place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
        place |= {"RANK": "0", "WORLD_SIZE": "1"}
        with tempfile.TemporaryDirectory(prefix="gradsync_test_") as folder:
            done = run_forked(*job, env=environment(folder, **place))
            self.assertEqual(done.returncode, 0, done.stderr)
            [lines] = events_of(folder).values()
            return done.stdout.split(), len(of_kind(lines, "gradient_use"))

    def test_who_reads_goes_on_to_be_seen(self):
        self.assertEqual(
            self.run_one(READING, self.BACKWARDS, "reading"), (["True", "True"], self.BACKWARDS)
        )

    def test_who_never_read_is_left_alone(self):
        self.assertEqual(self.run_one(READING, self.BACKWARDS, "never"), (["False", "False"], 0))

    def test_compilers_find_what_they_know(self):
        self.assertEqual(self.run_one(COMPILING), (["True", "True"], 0))


# Prints how much more the process's heap holds after the last of 16 micro-batches of its second
# step than before that step.
HELD_IN_A_STEP = """
import ctypes, gc, torch
import gradsync_watch_hook
class Mallinfo2(ctypes.Structure):
    _fields_ = [(f"field{i}", ctypes.c_size_t) for i in range(10)]
libc = ctypes.CDLL(None)
libc.mallinfo2.restype = Mallinfo2
def held():
    gc.collect()
    said = libc.mallinfo2()
    return said.field7 + said.field4  # in use: in the heap, and mapped
torch.set_num_threads(1)
parameters = [torch.nn.Parameter(torch.ones(100)) for _ in range(100)]
optimizer = torch.optim.SGD(parameters, lr=0.01)
for step in range(2):
    before = held()
    for micro_batch in range(16):
        sum(parameter.sum() for parameter in parameters).backward()
    after = held()
    optimizer.step()
    optimizer.zero_grad()
print(after - before)
"""


class AccountTest(unittest.TestCase):
    """What the account makes of a tensor; jobs with it are in watch_account_test.py."""

    def test_the_map_is_the_programs_and_that_of_a_whole_its_shards_sum(self):
        # least_squares_test.cpp has the same signs of the program's.
        code = (
            "import torch\n"
            "import gradsync_watch_sketch as sketch, gradsync_watch_recording as recording\n"
            "recording.torch = torch\n"
            "one = torch.ones(1)\n"
            "signs = [sketch.sketch_of(one, i * 1021)[i * 1021 % 64] for i in range(40)]\n"
            "print(''.join('+' if sign > 0 else '-' for sign in signs))\n"
            "whole = torch.randn(20000, dtype=torch.float64)\n"
            "cut = sketch.sketch_of(whole[:7777]) + sketch.sketch_of(whole[7777:], 7777)\n"
            "print(float((sketch.sketch_of(whole) - cut).abs().max()) < 1e-10)\n"
        )
        said = run_forked(code, env=environment(PYTHONPATH=str(HOOK)))
        expected = "-+++++-+--++++-+----+-+++--+-++--++-++-+\nTrue\n"
        self.assertEqual((said.stdout, said.stderr), (expected, ""))

    def test_it_holds_less_than_a_mebibyte_for_100_parameters_and_16_micro_batches(self):
        held = {}
        for account in ("", "1 1"):
            with tempfile.TemporaryDirectory(prefix="gradsync_test_") as folder:
                more = {"GRADSYNC_WATCH_ACCOUNT": account}
                done = run_forked(HELD_IN_A_STEP, env=environment(folder, **more))
                self.assertEqual((done.returncode, done.stderr), (0, ""))
                held[account] = int(done.stdout)
                accounts = list(Path(folder).glob("account-*.jsonl"))
                self.assertEqual(len(accounts), 1 if account else 0)
        sketches = held["1 1"] - held[""]
        self.assertLess(sketches, 2**20)
        self.assertGreaterEqual(sketches, 100 * 16 * 64 * 8)  # or they are held elsewhere

    def test_sketches_of_a_place_add_up_and_go_when_they_are_old(self):
        code = (
            "import torch\n"
            "import gradsync_watch_sketch as sketch, gradsync_watch_recording as recording\n"
            "recording.torch = torch\n"
            "kept = sketch.Sketches()\n"
            "for place in [(1, 0), (1, 1), (2, 1), (2, 0), (2, 2), (2, 2)]:\n"
            "    kept.add(place, torch.full((64,), 10.0 * place[0] + place[1]))\n"
            "def told(): return [(place, float(row[63])) for place, row in kept.in_order()]\n"
            "print(told())\n"
            "kept.forget_until(1)\n"
            "kept.add((3, 0), torch.ones(64))\n"
            "print(told())\n"
            "kept.forget_until(3)\n"
            "print(len(kept))\n"
        )
        said = run_forked(code, env=environment(PYTHONPATH=str(HOOK)))
        of_2 = [((2, 0), 20.0), ((2, 1), 21.0), ((2, 2), 44.0)]
        expected = f"{[((1, 0), 10.0), ((1, 1), 11.0), *of_2]}\n{[*of_2, ((3, 0), 1.0)]}\n0\n"
        self.assertEqual((said.stdout, said.stderr), (expected, ""))

    def test_an_exception_in_it_ends_it_and_nothing_else(self):
        with tempfile.TemporaryDirectory(prefix="gradsync_test_") as folder:
            text = (
                "import gradsync_watch_account\n"
                "gradsync_watch_account.sketch_of = lambda *_: 1 / 0\n"
                + ONE_STEP
                + "print(layer.weight.grad.tolist())\n"
            )
            more = {"GRADSYNC_WATCH_ACCOUNT": "1 1"}
            done = run_forked(text, env=environment(folder, **more))
            self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "[[1.0, 1.0]]\n", ""))
            [account] = Path(folder).glob("account-*.jsonl")
            (fault,) = of_kind([json.loads(x) for x in account.read_text().splitlines()], "fault")
            self.assertIn("the account stopped: ZeroDivisionError", fault["sentence"])
            [lines] = events_of(folder).values()
            self.assertEqual(len(of_kind(lines, "optimizer_step")), 1)


# Counts operations on meta tensors, as trainers do; then trains parameters with an optimizer whose
# closure runs two micro-batches, and prints how often all objects of the process were searched.
META_FIRST = """
import torch
import gradsync_watch_standing as standing
searches, search = [], standing.Standing.search
standing.Standing.search = lambda self: searches.append(search(self))
with torch.device("meta"):
    counted = torch.nn.Linear(2, 2)(torch.ones(1, 2))
    torch.nn.functional.cross_entropy(counted, torch.zeros(1, dtype=torch.int64)).backward()
parameters = [torch.nn.Parameter(torch.ones(3)) for _ in range(10)]
optimizer = torch.optim.SGD(parameters, lr=0.01)
def closure():
    optimizer.zero_grad()
    for _ in range(2):
        sum(parameter.sum() for parameter in parameters).backward()
for _ in range(3):
    optimizer.step(closure)
print(len(searches))
"""


class AccountedStepsTest(unittest.TestCase):
    """Steps as trainers make them: what is recorded of them, and at what price."""

    def test_meta_tensors_are_passed_over_and_a_closure_that_runs_once_is_read(self):
        with tempfile.TemporaryDirectory(prefix="gradsync_test_") as folder:
            more = {"GRADSYNC_WATCH_ACCOUNT": "1 1"}
            done = run_forked(META_FIRST, env=environment(folder, **more))
            self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "1\n", ""))
            [account] = Path(folder).glob("account-*.jsonl")
            lines = [json.loads(line) for line in account.read_text().splitlines()]
            [events] = events_of(folder).values()
        self.assertEqual(of_kind(lines, "fault"), [])
        self.assertEqual(len(of_kind(lines, "step")), 3)
        self.assertEqual(len(of_kind(lines, "parameter")), 3 * 10)
        for parameter in of_kind(lines, "parameter")[10:]:
            self.assertEqual([each["micro_batch"] for each in parameter["contributions"]], [0, 1])
        details = [step["detail"] for step in of_kind(events, "optimizer_step")]
        self.assertEqual(details, ["gradients=120 closures=1"] * 3)


# A generator is trained through its discriminator.
GAN = """
import torch
store = torch.distributed.HashStore()
torch.distributed.init_process_group("gloo", rank=0, world_size=1, store=store)
models = [torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 2)) for _ in range(2)]
optimizers = [torch.optim.SGD(model.parameters(), lr=0.1) for model in models]
for optimizer in optimizers:
    models[1](models[0](torch.ones(1, 2))).sum().backward()
    optimizer.step()
models[0].zero_grad()
optimizers[1].zero_grad()
"""


class OfWhichModelsTest(unittest.TestCase):
    def test_optimizers_and_clearings_say_it(self):
        with tempfile.TemporaryDirectory(prefix="gradsync_test_") as folder:
            done = run_forked(GAN, env=environment(folder))
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            [lines] = events_of(folder).values()
        for kind in ("optimizer_step", "zero_grad"):
            self.assertEqual([each["detail"] for each in of_kind(lines, kind)], ["of=1", "of=2"])


# A trainer as a library has it: the loop is its own. Its optimizer is none of torch's, and clips
# what it has looked at.
TRAINER = """
import torch
def fit(model):
    parameters = list(model.parameters())
    for _ in range(3):
        model(torch.ones(1, 2)).sum().backward()
        has_gradient = [p for p in parameters if p.grad is not None]
        torch.nn.utils.clip_grad_norm_(has_gradient, 1.0)
        for parameter in parameters:
            parameter.data.add_(parameter.grad, alpha=-0.1)
            parameter.grad.zero_()
"""
TRAINED = """
import os, sys, torch
sys.path.insert(0, sys.argv[1])
from of_others.loop import fit
store = torch.distributed.HashStore()
torch.distributed.init_process_group("gloo", rank=0, world_size=1, store=store)
fit(torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 2)))
"""


class TrainerTest(unittest.TestCase):
    def test_the_librarys_line_is_told_beside_the_jobs_and_its_steps_by_what_they_change(self):
        with tempfile.TemporaryDirectory(prefix="gradsync_test_") as folder:
            packages = Path(folder) / "site-packages"
            (packages / "of_others").mkdir(parents=True)
            (packages / "of_others" / "loop.py").write_text(TRAINER)
            (watched := Path(folder) / "watched").mkdir()
            done = run_forked(TRAINED, packages, env=environment(watched))
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            [lines] = events_of(watched).values()
        source = TRAINER.splitlines()
        for line in (*of_kind(lines, "forward"), *of_kind(lines, "backward")):
            self.assertEqual((line["line"], line["inside"]), (7, "of_others/loop.py"))
            self.assertIn("backward()", source[line["inside_line"] - 1])
        [wrap] = of_kind(lines, "wrap")
        self.assertNotIn("inside", wrap)
        # One between each two micro-batches. A look before torch's clipping is no read.
        uses = [(use["detail"], use["inside_line"]) for use in of_kind(lines, "gradient_use")]
        reads = [line for how, line in uses if how == "read"]
        self.assertEqual([how for how, _ in uses if how != "read"], ["parameters"] * 2)
        for line in reads:
            self.assertIn("alpha", source[line - 1])


TWICE = """
import os, sys, torch
import gradsync_watch_hook as hook
from torch.distributed.fsdp import fully_shard
store = torch.distributed.HashStore()
torch.distributed.init_process_group("gloo", rank=0, world_size=1, store=store)
layer = torch.nn.Linear(3, 2)
for folder in sys.argv[1:]:
    hook.begin(folder)
    if folder == sys.argv[1]:
        fully_shard(layer)
    layer(torch.ones(1, 3)).sum().backward()
    hook.end()
torch.distributed.destroy_process_group()
"""


class ShardsTest(unittest.TestCase):
    """Records of fully_shard's models, by a name that was imported before the hook was."""

    def test_every_watching_tells_it_once(self):
        with (
            tempfile.TemporaryDirectory(prefix="gradsync_test_") as one,
            tempfile.TemporaryDirectory(prefix="gradsync_test_") as other,
        ):
            done = run_python("-c", TWICE, one, other, env=environment(PYTHONPATH=str(HOOK)))
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            for folder in (one, other):
                [lines] = events_of(folder).values()
                self.assertEqual(of_kind(lines, "fault"), [])
                [group] = of_kind(lines, "group")
                self.assertEqual((group["ranks"], group["role"]), ([0], "shard"))
                [held] = of_kind(lines, "held_gradients")
                self.assertEqual((held["shard_bytes"], held["whole_bytes"]), (32, 32))


class HarmlessTest(unittest.TestCase):
    """Whatever happens to the hook, the job runs as it would have."""

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="gradsync_test_")
        self.addCleanup(self.folder.cleanup)
        self.path = Path(self.folder.name)

    def write(self, name, text):
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def lines_of_files(self):
        paths = self.path.glob("hook-*.jsonl")
        return [[json.loads(line) for line in p.read_text().splitlines()] for p in paths]

    def test_output_and_status_are_those_without_it(self):
        script = self.write(
            "job.py",
            "import sys\n"
            "import torch\n"
            "layer = torch.nn.Linear(2, 1)\n"
            "optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)\n"
            "layer(torch.ones(1, 2)).sum().backward()\n"
            "optimizer.step()\n"
            "print(sys.argv[1:], layer.weight.grad.tolist())\n"
            "print('to stderr', file=sys.stderr)\n"
            "sys.exit(3)\n",
        )
        plain = run_python(script, "a b", env=environment())
        watched = run_python(script, "a b", env=environment(self.path))
        self.assertEqual(plain.returncode, 3)
        for result in ("returncode", "stdout", "stderr"):
            self.assertEqual(getattr(watched, result), getattr(plain, result))
        self.assertEqual(len(list(self.path.glob("hook-*.jsonl"))), 1)

    def test_a_folder_that_is_gone_turns_it_off(self):
        is_on = "import gradsync_watch_recording as r; print(r.writer.is_on)\n"
        result = run_forked(ONE_STEP + is_on, env=environment(self.path / "gone"))
        self.assertEqual((result.returncode, result.stdout, result.stderr), (0, "False\n", ""))

    def test_an_exception_in_it_ends_it_and_nothing_else(self):
        text = (
            "import gradsync_watch_recording\n"
            "gradsync_watch_recording.call_site = lambda: 1 / 0\n" + ONE_STEP + "print('trained')\n"
        )
        result = run_forked(text, env=environment(self.path))
        self.assertEqual((result.returncode, result.stdout, result.stderr), (0, "trained\n", ""))
        (lines,) = events_of(self.path).values()
        (fault,) = of_kind(lines, "fault")
        self.assertRegex(fault["sentence"], "^the Python hook stopped in .*ZeroDivisionError")

    def test_a_torch_that_has_changed_is_told(self):
        script = self.write(
            "job.py",
            "import gradsync_watch_hook as hook\n"
            "def changed(module):\n"
            "    raise AttributeError('no such class')\n"
            "hook.WATCHED['torch.autograd'] = changed\n" + ONE_STEP,
        )
        result = run_python(script, env=environment(self.path))
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        (lines,) = events_of(self.path).values()
        (fault,) = of_kind(lines, "fault")
        self.assertIn("cannot watch torch.autograd: AttributeError", fault["sentence"])
        self.assertEqual(len(of_kind(lines, "optimizer_step")), 1)

    def test_exceptions_of_the_job_pass(self):
        text = (
            "import torch\n"
            "try:\n"
            "    torch.ones(2, requires_grad=True).backward()\n"
            "except RuntimeError as error:\n"
            "    print(type(error).__name__)\n"
            "torch.nn.Linear(1, 1).zero_grad(surprise=1)\n"
        )
        result = run_forked(text, env=environment(self.path))
        self.assertEqual((result.returncode, result.stdout), (1, "RuntimeError\n"))
        self.assertTrue(result.stderr.rstrip().endswith("argument 'surprise'"), result.stderr)

    def test_another_sitecustomize_runs_too(self):
        self.write("other/sitecustomize.py", "import sys\nsys.customized = __name__\n")
        more = {"PYTHONPATH": os.pathsep.join((str(HOOK), str(self.path / "other")))}
        code = "import sys, sitecustomize; print(sys.customized, sitecustomize.__file__)"
        result = run_python("-c", code, env=environment(self.path, **more))
        expected = f"sitecustomize {self.path / 'other' / 'sitecustomize.py'}\n"
        self.assertEqual((result.stdout, result.stderr), (expected, ""))

    def test_a_child_of_a_fork_leaves_the_parents_events_alone(self):
        text = (
            ONE_STEP + "import os\n"
            "layer(torch.ones(1, 2)).sum().backward()\n"  # not yet on the disk
            "if (child := os.fork()) == 0:\n"
            "    layer(torch.ones(1, 2)).sum().backward()\n"
            "    raise SystemExit\n"
            "os.waitpid(child, 0)\n"
        )
        result = run_forked(text, env=environment(self.path))
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        counts = sorted(len(of_kind(lines, "backward")) for lines in self.lines_of_files())
        self.assertEqual(counts, [1, 2])

    def test_what_a_process_of_multiprocessing_does_last_is_kept(self):
        text = (
            ONE_STEP + "import torch.multiprocessing\n"
            "def work():\n"
            "    layer.zero_grad()\n"
            "process = torch.multiprocessing.get_context('fork').Process(target=work)\n"
            "process.start()\n"
            "process.join()\n"
            "raise SystemExit(process.exitcode)\n"
        )
        result = run_forked(text, env=environment(self.path))
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        kinds = [{line["kind"] for line in lines} for lines in self.lines_of_files()]
        self.assertEqual(sum("zero_grad" in each for each in kinds), 1, kinds)

    def test_multiprocessing_before_torch_is_no_fault(self):
        script = self.write("job.py", "import multiprocessing.util\n" + ONE_STEP)
        result = run_python(script, env=environment(self.path))
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        (lines,) = events_of(self.path).values()
        self.assertEqual(of_kind(lines, "fault"), [])
        self.assertEqual(len(of_kind(lines, "optimizer_step")), 1)

    def test_a_process_without_torch_leaves_no_file(self):
        result = run_python("-c", "print('hello')", env=environment(self.path))
        self.assertEqual((result.stdout, result.stderr), ("hello\n", ""))
        self.assertEqual(list(self.path.iterdir()), [])

    def test_without_a_folder_it_does_nothing(self):
        code = "import sys; print('gradsync_watch_hook' in {f.__module__ for f in sys.meta_path})"
        more = {"PYTHONPATH": str(HOOK)}
        result = run_python("-c", code, env=environment(**more))
        self.assertEqual((result.stdout, result.stderr), ("False\n", ""))

    def test_functions_look_as_they_did(self):
        code = (
            "import inspect, torch\n"
            "from torch.nn.parallel import DistributedDataParallel as D\n"
            "print(inspect.signature(D.__init__), D.forward.__name__, D.no_sync.__doc__[:60])\n"
            "print(inspect.signature(torch.autograd.backward))\n"
        )
        plain = run_python("-c", code, env=environment())
        watched = run_forked(code, env=environment(self.path))
        self.assertEqual(watched.stdout, plain.stdout)
        self.assertIn("find_unused_parameters", plain.stdout)


ONE_STEP = (
    "import torch\n"
    "layer = torch.nn.Linear(2, 1)\n"
    "optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)\n"
    "layer(torch.ones(1, 2)).sum().backward()\n"
    "optimizer.step()\n"
)


if __name__ == "__main__":
    unittest.main(verbosity=2)
