"""What is true of the jobs in the folders beside this file, and where each stands.

A module of jobs has one function for each, decorated with what gradsync is to say of it:

    @job(too_often(), fixed=once())
    def baseline(is_fixed):
        ...
            mse_loss(model(inputs), targets).backward()  # to change

A job with a `fixed` truth is called with whether it is to be right. The comments of its lines say
which line a verdict is to name. A rank runs `MODULE.py NAME [fixed]`; this module needs no torch,
and reads the others without importing them.
"""

import ast
import functools
import hashlib
import re
from dataclasses import dataclass, field
from pathlib import Path

TO_CHANGE = "# to change"
functions = {}  # of the module that runs, by name


@dataclass
class Truth:
    """The verdict of gradsync watch on a job, and the numbers of its usual step."""

    kind: str
    micro_batches: int = 4
    synchronized: int = 1
    cause: str | None = None  # by its name in JSON
    why: str | None = None  # what the cause does not say; {# x} is the line that has this comment
    also: tuple = ()  # kinds of further verdicts
    fails: bool = False  # --fail-on-excess does
    names_line: bool = False  # the one with TO_CHANGE
    varies: bool = False  # how many micro-batches are usual depends on the steps that were seen
    wastes: tuple = ()
    calls: dict = field(default_factory=dict)  # of a step, all from one line, by kind of waste
    flags: tuple | None = None  # (name, is on the root, times on, times off)
    axes: dict = field(default_factory=dict)  # counts of a step by what process groups do
    holds: str | None = None  # the policy of which the job itself notes what gradients it holds
    # What a job of strangers/ proves by itself:
    drift: dict = field(default_factory=dict)  # the first step that differs, by name or module
    reductions: int | None = None  # of gradients, by a rank in its usual step
    said: dict = field(default_factory=dict)  # what else it finds, on every rank
    fails_by_account: bool | None = None  # --fail-on-excess should with --account; None: as without


def once(micro_batches=4, **more):
    return Truth("once_per_step", micro_batches, **more)


def too_often(cause="no_no_sync", count=4, kind="more_than_once", **more):
    usual = {"synchronized": count, "fails": True, "names_line": True}
    return Truth(kind, cause=cause, **usual | more)


def gate_status(kind, fails):
    """How --fail-on-excess ends where the job succeeds and that is the first verdict."""
    if fails:
        return 1
    return 4 if kind in ("no_steps", "not_recognised", "not_in_file") else 0


def replicas_too_often(cause="all_reduce_flag_not_called", **more):
    also = ("fsdp_every_micro_batch",)
    return too_often(cause, kind="replicas_more_than_once", also=also, **more)


def never(cause, micro_batches=4, kind="never", synchronized=0, **more):
    return Truth(kind, micro_batches, synchronized, cause, fails=True, names_line=True, **more)


def too_early(cause, kind="too_early", **more):
    return Truth(kind, cause=cause, fails=True, names_line=True, **more)


def not_recognised(cause, micro_batches=4, synchronized=0, **more):
    return Truth("not_recognised", micro_batches, synchronized, cause, **more)


def drifts_at_times(**more):
    also = ("some_steps_never",)
    return Truth("replicas_drift", cause="drifts_though_reduced", also=also, fails=True, **more)


# Causes of a drift that are at a line.
LINES_OF_DRIFT = ("in_no_wrapper", "added_behind_wrap", "wrapper_ignores", "group_of_one")


def drifts(cause, drift, micro_batches=1, **more):
    usual = {"fails": True, "names_line": cause in LINES_OF_DRIFT}
    return Truth("replicas_drift", micro_batches, cause=cause, drift=drift, **usual | more)


def reduced_twice(micro_batches=1, **more):
    usual = {"cause": "equal_before", "fails": True, "names_line": True}
    return Truth("reduced_twice", micro_batches, **usual | more)


def sharded_each(**more):
    """FSDP's own way, which saves memory: no accusation."""
    cause = "shards_save_memory"
    return Truth("fsdp_every_micro_batch", synchronized=4, cause=cause, names_line=True, **more)


@dataclass
class Account:
    """The account of gradient weights of a job."""

    kind: str = "equal"
    says: str = "weigh the same within"
    also: str | None = None  # in a second sentence
    is_off: bool = False
    why: str = ""


def off(kind, says, also=None):
    return Account(kind, says, also, is_off=True)


def axis(collectives=None, ideal=None, excess=None):
    counts = {"collectives": collectives, "ideal": ideal, "excess": excess}
    return {which: operations for which, operations in counts.items() if operations is not None}


SHARDS_ONCE = axis({"all_gather": 12, "reduce_scatter": 2}, excess={})
SHARDS_EACH = axis(
    {"all_gather": 12, "reduce_scatter": 8},
    {"all_gather": 12, "reduce_scatter": 2},
    {"reduce_scatter": 6},
)
REPLICAS_EACH = axis({"all_reduce": 8}, {"all_reduce": 2}, {"all_reduce": 6})
REPLICAS_ONCE = axis({"all_reduce": 2}, {"all_reduce": 2}, {})


@dataclass
class job:
    truth: object
    fixed: object = None  # None: the job cannot be asked to be right, or is
    ranks: int = 2
    torch: str = "0.0"  # the first one that has what it takes

    def __call__(self, function):
        functions[function.__name__] = function
        return function


def called(words):
    """Runs the job that the words `NAME [fixed]` name."""
    name, *fixed = words
    function = functions[name]
    return function(bool(fixed)) if function.__code__.co_argcount else function()


@dataclass
class Case:
    """A job as it is run: with the fix or without."""

    name: str
    script: Path
    words: tuple  # of the command line, behind the script
    truth: object
    ranks: int
    torch: str
    spans: list  # line numbers of its function, and of those of the module that it names

    @functools.cached_property
    def marks(self):
        """Returns the numbers of its lines that have comments, by comment."""
        return marks_of(self.script, self.spans)

    @property
    def digest(self):
        """Returns what changes when the job does, or what it may call: not its lines' numbers."""
        [own] = [
            node for node in parsed(self.script) if getattr(node, "name", None) == self.words[0]
        ]
        files = (self.script, self.script.with_name("training.py"))
        return digest_of(files, *own.body, *self.marks)


@functools.cache
def parsed(file):
    return ast.parse(file.read_text()).body


def digest_of(files, *more):
    """Returns a digest of these files without the jobs in them, and of statements or texts."""
    statements = [node for file in files for node in parsed(file) if not job_of(node)]
    texts = [n if isinstance(n, str) else ast.dump(n) for n in (*statements, *more)]
    dumped = repr(texts)
    return hashlib.sha256(dumped.encode()).hexdigest()[:16]


def marks_of(file, spans):
    lines = file.read_text().splitlines()
    marked = [(lines[n - 1].partition("  # "), n) for span in reversed(spans) for n in span]
    return {"# " + mark: number for (_, sign, mark), number in marked if sign}


def with_lines(text, marks):
    """Returns the text with the numbers of the marks that stand in it in braces."""
    return re.sub(r"\{(.+?)\}", lambda mark: str(marks[mark[1]]), text)


def job_of(node):
    """Returns how the function of the statement is decorated, None: it is no job."""
    for call in getattr(node, "decorator_list", ()):
        if isinstance(call, ast.Call) and getattr(call.func, "id", None) == "job":
            return eval(compile(ast.Expression(call), "", "eval"), globals())
    return None


def jobs_in(folder):
    """Returns the jobs of the folder's modules by name, those that are fixed as NAME_fixed."""
    cases = {}
    for script in sorted(folder.glob("*.py")):
        nodes = parsed(script)
        for node in nodes:
            found = job_of(node)
            for truth, more in ((found.truth, ()), (found.fixed, ("fixed",))) if found else ():
                name = "_".join((node.name, *more))
                assert name not in cases, name
                if truth:
                    words, spans = (node.name, *more), spans_of(node, nodes)
                    cases[name] = Case(name, script, words, truth, found.ranks, found.torch, spans)
    return cases


def spans_of(function, statements):
    named = {node.id for node in ast.walk(function) if isinstance(node, ast.Name)}
    helpers = [node for node in statements if getattr(node, "name", None) in named]
    return [range(node.lineno, node.end_lineno + 1) for node in (function, *helpers)]
