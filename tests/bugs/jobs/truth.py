"""What is true of the jobs beside this file, as data: nothing here belongs to a checker.

A module of jobs is one kind of bug. It has a function for each job, decorated with its truth:

    @bug("https://github.com/...", 2024, TOO_OFTEN, reductions=(4, 1))
    def never_quiet(is_fixed):
        ...
            loss_of(model, batch).backward()  # bug

A bug is called with whether it is to be right; an `odd` job is right however strange it looks. The
line with the comment `# bug` is the one that a checker should name. A rank runs
`MODULE.py NAME [fixed]`. This module needs no torch, and reads the others without importing them.
"""

import ast
import json
from dataclasses import dataclass, field, replace
from pathlib import Path

HERE = Path(__file__).resolve().parent
MARK = "# bug"
functions = {}  # of the module that runs, by name

# What a checker may find. A bug has those that describe it.
TOO_OFTEN = "too_often"  # synchronizes more often than a step needs
TWICE = "twice"  # reduces what is equal on all ranks already
DRIFT = "drift"  # ranks train different parameters, or read different gradients
DROPPED = "dropped"  # a contribution does not reach the optimizer
UNEQUAL = "unequal"  # micro-batches, or ranks, have other weights than meant
FACTOR = "factor"  # all, or some parameters, are too large or too small
NOT_A_SUM = "not_a_sum"  # the gradient is no sum of what the step computed
APART = "apart"  # parts of one gradient have different factors
SPLIT = "split"  # the gradient depends on how the samples are split
BY_SPLIT = (SPLIT, FACTOR)
OF_RANKS = "of_ranks"  # a pair's split of ranks alone: micro-batches must stay whole
WASTE = "waste"  # the step waits, or holds memory, for nothing
CHOICE = "choice"  # some do it on purpose, as it saves memory
BY_CHOICE = (TOO_OFTEN, CHOICE)
NEED_NOT_FAIL = {WASTE, CHOICE}


# ---- what each micro-batch of each rank weighs, as a share of what is meant ---------------------

ALL = ("all",)  # 1
SCALED = ("scaled",)  # one factor, which depends on the data, as of clipping
UNEVEN = ("uneven",)  # a sum, with weights that depend on the data
NO_SUM = ("no_sum",)
UNREAD = ("unread",)  # not solved for: see what else the truth says


def times(factor):
    return ("each", (factor,))


def each(*weights):
    """Weights of the micro-batches of a step, the same on all ranks."""
    return ("each", weights)


ONLY_LAST = each(0, 0, 0, 1)


def by_rank(*rows):
    """A list for each rank whose data it is."""
    return ("rows", rows)


def own(*weights):
    """Each rank reads its own micro-batches, with these weights, and no other rank's."""
    return ("own", weights)


def early(count):
    """The first micro-batches are averaged; of the others each rank reads its own, undivided."""
    return ("early", count)


def within(size, weight):
    """Each rank reads those of its group of neighbours alone."""
    return ("within", (size, weight))


def read_by(*tables):
    """A table for each rank that reads."""
    return ("read_by", tables)


# For tokens.py: micro-batch i of rank r has 2 + 2 i + r tokens a sample, where 5.5 are usual.
MEAN_OF_MEANS = by_rank(*(tuple(5.5 / (2 + 2 * i + r) for i in range(4)) for r in range(2)))
MEAN_OF_RANKS = by_rank((5.5 / 5,), (5.5 / 6,))


def expected(table, reader, columns):
    """Returns the weight of each column, (rank, micro-batch), in what `reader` reads."""
    kind, *rest = table
    ranks = 1 + max(rank for rank, _ in columns)
    if kind == "read_by":
        return expected(rest[0][reader], reader, columns)
    pick = {
        "all": lambda rank, i: 1.0,
        "each": lambda rank, i: of(rest[0], i),
        "rows": lambda rank, i: of(rest[0][rank], i),
        "own": lambda rank, i: of(rest[0], i) if rank == reader else 0.0,
        "early": lambda rank, i: 1.0 if i < rest[0] else ranks * (rank == reader),
        "within": lambda rank, i: rest[0][1] * (rank // rest[0][0] == reader // rest[0][0]),
    }[kind]
    return [float(pick(*column)) for column in columns]


def of(weights, i):
    return weights[i] if len(weights) > 1 else weights[0]


# ---- the truth of a job ------------------------------------------------------------------------


@dataclass(frozen=True)
class Truth:
    """What holds for one way to run a job: with the bug, or right."""

    weights: object = ALL  # a table, or tables by the prefix of parameters' names
    sometimes: tuple = ()  # other tables, of steps that are not usual
    reductions: int | None = 1  # calls that sum gradients, of a rank in its usual step
    drifts: tuple = ()  # prefixes of parameters and buffers that differ between ranks
    ranks: int = 2

    def table_of(self, name, tables=None):
        tables = self.weights if tables is None else tables
        if not isinstance(tables, dict):
            return tables
        fits = [prefix for prefix in tables if is_of(name, prefix)]
        return tables[max(fits, key=len)] if fits else ALL


def is_of(name, prefix):
    return not prefix or name == prefix or name.startswith(prefix + ".")


@dataclass(frozen=True)
class Job:
    name: str
    kind: str
    script: Path
    thread: str  # its public address; "" of an odd job
    year: int
    findings: tuple
    wrong: Truth | None  # None of an odd job
    right: Truth
    pair: object  # whether a checker that compares splits of the same samples is the one to see it
    line: int | None  # the one to name
    about: str
    is_elsewhere: bool = False

    def truth(self, is_fixed):
        return self.right if is_fixed or self.wrong is None else self.wrong

    def words(self, is_fixed):
        return (self.name, "fixed") if is_fixed and self.wrong else (self.name,)


@dataclass
class bug:
    thread: str
    year: int
    findings: object  # one or several
    weights: object = ALL
    sometimes: tuple = ()
    reductions: object = (1, 1)  # now, and enough
    drifts: tuple = ()
    ranks: int = 2
    pair: object = False
    right: dict = field(default_factory=dict)  # of the fixed one, where it is not ALL

    def __call__(self, function):
        functions[function.__name__] = function
        return function

    def job(self, **more):
        now, enough = self.reductions
        wrong = Truth(self.weights, self.sometimes, now, self.drifts, self.ranks)
        right = replace(Truth(reductions=enough, ranks=self.ranks), **self.right)
        findings = (self.findings,) if isinstance(self.findings, str) else self.findings
        return Job(thread=self.thread, year=self.year, findings=findings, wrong=wrong, right=right,
                   pair=self.pair, **more)  # fmt: skip


class odd:
    """A correct job that looks wrong. It may have an address, of a thread that asks about it."""

    def __init__(self, thread="", year=0, **right):
        self.thread, self.year, self.right = thread, year, right

    def __call__(self, function):
        functions[function.__name__] = function
        return function

    def job(self, **more):
        return Job(thread=self.thread, year=self.year, findings=(), wrong=None, pair=False,
                   right=Truth(**self.right), **more)  # fmt: skip


def called(words):
    """Runs the job that the words `NAME [fixed]` name."""
    name, *fixed = words
    function = functions[name]
    return function(bool(fixed)) if function.__code__.co_argcount else function()


def jobs():
    """Returns all jobs by name: those beside this file, and those that elsewhere.json names."""
    found = elsewhere()
    for script in sorted(HERE.glob("*.py")):
        text = script.read_text()
        lines = text.splitlines()
        for node in ast.parse(text).body:
            truth = truth_of(node)
            if truth is None:
                continue
            assert node.name not in found, node.name
            marked = [n for n in span_of(node) if lines[n - 1].rstrip().endswith("  " + MARK)]
            found[node.name] = truth.job(
                name=node.name,
                kind=script.stem,
                script=script,
                line=marked[0] if marked else None,
                about=" ".join((ast.get_docstring(node) or "").split()),
            )
    return found


def elsewhere():
    """Returns jobs of the tree around this folder, where it is there. They prove themselves: their
    truth is data of tests/harness/watch/truths.py, and strangers_test.py holds them to it.
    """
    found = {}
    for each in json.loads((HERE.parent / "elsewhere.json").read_text()):
        script = HERE.parents[1] / each["script"]
        if not script.exists():
            continue
        lines = script.read_text().splitlines()
        statements = ast.parse("\n".join(lines)).body
        [node] = [n for n in statements if name_of(n) == each["name"]]
        wrong, right = truths_elsewhere(node, each["ranks"])
        called_by = {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
        spans = [span_of(n) for n in (node, *statements) if n is node or name_of(n) in called_by]
        marked = [n for span in spans for n in span if lines[n - 1].endswith("  # to change")]
        found[each["name"]] = Job(
            name=each["name"],
            kind=each["kind"],
            script=script,
            thread=each["thread"],
            year=each["year"],
            findings=tuple(each["findings"]),
            wrong=wrong,
            right=right,
            pair=False,
            line=marked[0] if marked else None,
            about=" ".join((ast.get_docstring(node) or "").split()),
            is_elsewhere=True,
        )
    return found


def truths_elsewhere(node, ranks):
    """Returns what is true of a bug and of its fix, of which the decorator says the reductions:
    @job(too_often(reductions=16), fixed=once(reductions=4)).
    """
    [call] = [each for each in node.decorator_list if each.func.id == "job"]
    fixed = next(each.value for each in call.keywords if each.arg == "fixed")
    for said in (call.args[0], fixed):
        named = [each for each in ast.walk(said) if getattr(each, "arg", None) == "reductions"]
        count = named[0].value.value if named else None
        yield Truth(weights=UNREAD, reductions=count, ranks=ranks)


def name_of(node):
    return getattr(node, "name", None)


def span_of(node):
    return range(node.lineno, node.end_lineno + 1)


def truth_of(node):
    """Returns how the function of the statement is decorated, None: it is no job."""
    for call in getattr(node, "decorator_list", ()):
        if isinstance(call, ast.Call) and getattr(call.func, "id", None) in ("bug", "odd"):
            return eval(compile(ast.Expression(call), "", "eval"), globals())
    return None
