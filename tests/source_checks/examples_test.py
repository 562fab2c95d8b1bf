"""Every command that a page shows works: its options, plans, models and files are known.

bash reads the examples (examples.py). Then each program is called as they call it, in the shortest
form that still reads all of it: CHECKS. What cannot be called at all is in UNCHECKED.
"""

import functools
import importlib.util
import json
import re
import shutil
import subprocess
import sys
import tomllib
import unittest
from collections.abc import Callable
from pathlib import Path

from examples import Sandbox, examples
from pages import ROOT, below

sys.path.insert(0, str(ROOT / "tests" / "benchmarks"))
from program import PROGRAM, ProgramTest

BUILD = Path(PROGRAM).parent
CORPUS = ROOT / "tests" / "fuzz" / "corpus"
PEERS = ROOT / "benchmarks" / "peers"
OK, USAGE, UNFIT = 0, 2, 4
TAKEN = "results/runs/RUN"

# An example, as bash read it -> why it is not called.
UNCHECKED = {
    "benchmarks/run smoke --model my_model": "linked in first; linked_model_test.py has such a one",
    "gradsync report watched0 watched1": "needs a job on two hosts; watch_hosts_test.py has one",
    "gradsync report watched --format trace": "needs a watched job; watch_report_test.py has one",
}
# Of `gradsync run`: what changes a plan, which other commands take too.
PLAN_OPTIONS = ("--set", "--topology", "--strategy", "--model", "--launches", "--rounds", "--steps")
MISSPELT = (
    "grdsync list plans",
    "benchmarks/rum smoke",
    "benchmarks/run smokes",
    "benchmarks/run smoke --strtegy baseline",
    "gradsync run smoke --model bert_tny",
    "gradsync run smoke --set launchs=2",
    "srun -n 2 gradsync run smoke --topology 2x1_1gbits",
    "gradsync report results/runs/RUM",
    "gradsync report A B --formt json",
    "gradsync predict memory mixtral_mini --wrapper fdsp",
    "gradsync search memory_sweep --set parts=shard --smallest memory_budget_bytes",
    "gradsync search memory_sweep --largest accumulation",
    "gradsync gate builds gates --baseline old/build --candidate build",
    "gradsync gate builds gate --baseline old/build --candidate build --margn 1%",
    "gradsync gate selftest gate --rows strategy=nosync",
    "gradsync watch --jsn watched.json -- true",
    "gradsync gate counts counts.json --updat -- true",
    "gradsync completion bsh",
    "GRADSYNC_TROCH=/x gradsync list plans",
    "cmake build/release -DGRADSYNC_MODEL=x",
    "pip install gradsync[troch]",
    "harness/python/release_wheel --rank 2.11.0",
    "tests/run -L units",
    "tests/nightly fuz",
    "python3 tests/mutations.py --lst",
    "models/profiles/fit_t4.py --chek",
    "models/record_profile.py my_model.py:built --out x.json",
    "benchmarks/peers/compare --topology 2x1_1gbits",
    "results/evidence/make.py held_out callibrate",
    "build/release/bin/torch_sync_tests --gtest_filter='Strategy.*'",
)


def text_of(files):
    return "\n".join(file.read_text() for file in files if file.is_file())


@functools.cache
def build_files():
    return text_of(file for name in ("CMakeLists.txt", "*.cmake") for file in below(name))


@functools.cache
def what_reads_variables():
    return text_of((ROOT / "harness/setup", *(ROOT / "tests").iterdir(), *below("*.cpp")))


def values(arguments, option):
    """Returns the values of `--option VALUE` and `--option=VALUE`, in turn."""
    found = []
    for i, argument in enumerate(arguments):
        name, equals, value = argument.partition("=")
        if name == option:
            found.append(value if equals else arguments[i + 1])
    return found


class ExamplesTest(ProgramTest):
    def setUp(self):
        super().setUp()
        self.sandbox = Sandbox(self.place, [name for name in CHECKS if name not in SCRIPTS])
        self.place = self.sandbox.tree  # where the program runs

    def check(self, call):
        self.assertIn(call.program, CHECKS, "no test knows how to call it")
        for variable in call.variables:
            name = variable.split("=")[0]
            self.assertTrue(name in what_reads_variables(), f"nothing reads {name}")
        CHECKS[call.program](self, call.arguments, call.variables)

    def test_every_example_works(self):
        checked, unchecked = set(), set()
        for page, example in examples():
            for call in self.sandbox.calls_of(example):
                if str(call) in UNCHECKED:
                    unchecked.add(str(call))
                elif call not in checked:
                    checked.add(call)
                    with self.subTest(page=page, example=str(call)):
                        self.check(call)
        self.assertGreater(len(checked), 50)
        self.assertEqual(unchecked, set(UNCHECKED), "what no page has needs no exception")

    def test_every_example_of_a_help_screen_works(self):
        commands = re.findall(r"^  (\w+) ", self.ask(["--help"]).out, re.MULTILINE)
        checked = []
        for command in commands:
            _, _, shown = self.ask([command, "--help"]).out.partition("\nExample\n")
            for example in re.split(r"^  (?=gradsync )", shown, flags=re.MULTILINE):
                for call in self.sandbox.calls_of(" ".join(example.split())):
                    checked.append(call)
                    with self.subTest(example=str(call)):
                        self.check(call)
        self.assertGreater(len(checked), 12)

    def test_what_is_misspelt_is_found(self):
        for example in MISSPELT:
            with self.subTest(example=example), self.assertRaises(AssertionError):
                for call in self.sandbox.calls_of(example):
                    self.check(call)

    # gradsync

    def ask(self, arguments, statuses=(OK,), variables=()):
        for left in self.place.glob("left*"):  # by another example
            shutil.rmtree(left) if left.is_dir() else left.unlink()
        env = dict(variable.split("=", 1) for variable in variables)
        outcome = self.call(*arguments, env=env)
        said = f"gradsync {' '.join(map(str, arguments))}\n{outcome.err}"
        self.assertIn(outcome.status, statuses, said)
        return outcome

    def refused_for(self, text, arguments, statuses=(USAGE,)):
        """All else is right: what it refuses is what cannot be here."""
        self.assertIn(text, self.ask(arguments, statuses).err)

    def gradsync(self, arguments, variables):
        command, *rest = arguments
        asked = getattr(self, f"ask_{command}", None)
        if asked:
            asked(rest, variables)
        else:
            self.ask(arguments, variables=variables)

    def ask_run(self, rest, variables):
        return self.ask(["run", *rest, "--dry-run"], variables=variables)

    def plan_part(self, rest, plan):
        """Returns the cells of the plan that `gradsync COMMAND REST` takes."""
        changes = [(name, value) for name in PLAN_OPTIONS for value in values(rest, name)]
        words = [word for change in changes for word in change]
        return [
            trial["cell"] for trial in json.loads(self.ask_run([plan, *words, "--json"], ()).out)
        ]

    def ask_search(self, rest, variables):
        if "--" in rest:
            options, job = rest[: rest.index("--")], rest[rest.index("--") :]
            nowhere = ("--python", "nowhere", "--out", "left")
            self.refused_for("nowhere", ["search", *options, *nowhere, *job], (UNFIT,))
            return
        self.plan_part(rest, rest[0])
        self.refused_for(TAKEN, ["search", *rest, "--out", TAKEN])

    def ask_doctor(self, rest, variables):
        self.ask(["doctor", *rest], (OK, UNFIT))

    def ask_watch(self, rest, variables):
        options = rest[: rest.index("--")]
        self.assertGreater(len(rest), len(options) + 1, "watches nothing")
        elsewhere = [option.replace("watched", "left") for option in options]
        self.ask(["watch", *elsewhere, "--", "true"], (OK, UNFIT))

    def ask_judge(self, rest, variables):
        files = [word for word in rest if not word.startswith("-")]
        self.refused_for(f"{files[0]}: cannot be read", ["judge", *rest])

    def ask_demo(self, rest, variables):
        self.refused_for("nowhere", ["demo", *rest, "--python", "nowhere"], (UNFIT,))

    def ask_predict(self, rest, variables):
        if "--trace" in rest:
            file = rest[rest.index("--trace") + 1]
            self.refused_for(f"{file}: cannot be read", ["predict", *rest])
            return
        if "--" not in rest:
            self.ask(["predict", *rest], variables=variables)
            return
        options, job = rest[: rest.index("--")], rest[rest.index("--") :]
        self.refused_for("nowhere", ["predict", *options, "--python", "nowhere", *job], (UNFIT,))

    def ask_equal(self, rest, variables):
        options, job = rest[: rest.index("--")], rest[rest.index("--") :]
        self.refused_for("nowhere", ["equal", *options, "--python", "nowhere", *job], (UNFIT,))

    def ask_gate(self, rest, variables):
        getattr(self, f"gate_of_{rest[0]}")(rest[1:])

    def gate_of_counts(self, rest):
        options, job = rest[: rest.index("--")], rest[rest.index("--") :]
        nowhere = ("--python", "nowhere", "--out", "left")
        writes = "--update" in options
        text, status = ("nowhere", UNFIT) if writes else ("--update writes it", USAGE)
        self.refused_for(text, ["gate", "counts", *options, *nowhere, *job], (status,))

    def gate_of_commands(self, rest):
        nowhere = ("--python", "nowhere", "--out", "left")
        self.refused_for("nowhere", ["gate", "commands", *rest, *nowhere], (UNFIT,))

    def gate_of_builds(self, rest):
        self.rows_of(rest)
        (baseline,) = values(rest, "--baseline")
        self.refused_for(baseline, ["gate", "builds", *rest, "--out", "left"])

    def gate_of_selftest(self, rest):
        self.rows_of(rest)
        given = [word for word in rest if word != "--out" and word not in values(rest, "--out")]
        self.refused_for(TAKEN, ["gate", "selftest", *given, "--out", TAKEN])

    def rows_of(self, rest):
        plan = [word for word in rest[:1] if not word.startswith("-")]
        cells = self.plan_part(rest, *(plan or ["gate"]))
        for row in values(rest, "--rows"):
            wanted = dict(pair.split("=") for pair in row.split(","))
            self.assertTrue([cell for cell in cells if wanted.items() <= cell.items()], row)

    def run_of_a_plan(self, arguments, variables):
        has_plan = arguments and not arguments[0].startswith("-")
        self.ask_run(arguments if has_plan else ["slowdown_table", *arguments], ())

    def launched(self, arguments, variables):
        """What a launcher starts; its own options are its own affair."""
        self.gradsync(arguments[arguments.index("gradsync") + 1 :], variables)

    # Builds and tests

    def chosen_by_ctest(self, arguments, variables):
        listing = ["ctest", "--test-dir", BUILD, "-N", *arguments]
        done = subprocess.run(listing, capture_output=True, text=True, check=True)
        if "--rerun-failed" not in arguments:
            self.assertGreater(int(re.search(r"Total Tests: (\d+)", done.stdout)[1]), 0)

    def nightly(self, arguments, variables):
        parts = re.search(r"# +PART: ([\w ]+)", (ROOT / "tests/nightly").read_text())[1].split()
        self.assertLessEqual(set(arguments), set(parts))

    def cmake(self, arguments, variables):
        self.assertEqual(arguments[0], "build/release")
        for option in arguments[1:]:
            name = re.fullmatch(r"-D(\w+)=.*", option)[1]
            self.assertTrue(re.search(rf"\b{name}\b", build_files()), f"no build asks for {name}")

    def built(self, target):
        self.assertTrue(re.search(rf"gradsync_test\({target} ", build_files()), target)

    def sync_test(self, arguments, variables):
        (pattern,) = values(arguments, "--gtest_filter")
        suite = f"TEST({pattern.split('.')[0]},"
        tests = (ROOT / "tests/harness/sync").glob("*_test.cpp")
        self.assertTrue(suite in text_of(tests), f"no {suite}")

    def fuzzer(self, arguments, variables):
        self.assertTrue((CORPUS / "plan.txt").exists())

    def corpus(self, arguments, variables):
        do, reader, name, _ = arguments
        self.assertEqual(do, "add")
        self.assertTrue((CORPUS / f"{reader}.txt").exists(), reader)
        self.assertRegex(name, "^(bad|valid)_")

    def pip(self, arguments, variables):
        project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
        command, what = arguments
        self.assertIn(command, ("install", "wheel"))
        if command == "wheel":
            self.assertEqual(what, ".")
        else:
            name, extra = re.fullmatch(r"(\w+)(?:-\*\.whl)?(?:\[(\w+)\])?", what).groups()
            self.assertEqual(name, project["name"])
            self.assertIn(extra, [None, *project["optional-dependencies"]])

    def release_wheel(self, arguments, variables):
        script = [ROOT / "harness/python/release_wheel", *arguments, "--help"]
        self.assertEqual(subprocess.run(script, capture_output=True).returncode, 0)

    # Python

    def python(self, *command):
        done = subprocess.run(
            [sys.executable, *command], cwd=self.place, capture_output=True, text=True
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def has_options(self, script, arguments):
        """For a script that would measure, write, or import torch."""
        text = (ROOT / script).read_text()
        for argument in arguments:
            if argument.startswith("--"):
                self.assertIn(f'"{argument.split("=")[0]}"', text)

    def interpreted(self, arguments, variables):
        script, *rest = arguments
        if script == "-c":
            self.assertTrue(self.python(script, *rest))
        elif script == "tests/mutations.py":
            self.assertTrue(self.python(ROOT / script, *rest, "--list"))
        elif script == "tests/layering_test.py":
            self.python(ROOT / script, *rest)
        else:
            self.has_options(script, rest)
            for file in (word for word in rest if "/" in word):
                self.assertTrue((self.place / file).exists(), file)

    def fit(self, arguments, variables):
        if "--write" in arguments or not importlib.util.find_spec("scipy"):
            self.has_options("models/profiles/fit_t4.py", arguments)
        else:
            self.python(ROOT / "models/profiles/fit_t4.py", *arguments)

    def record_profile(self, arguments, variables):
        self.has_options("models/record_profile.py", arguments)
        file, function = arguments[0].split(":")
        shown = ROOT / file if (ROOT / file).exists() else self.place / file
        self.assertIn(f"def {function}(", shown.read_text())

    def evidence(self, arguments, variables):
        if arguments[0] == "peers":
            return self.peer(f"peers.{arguments[1]}", arguments[2:])
        asked = (
            "import sys; sys.path.insert(0, sys.argv[1]); item, *step = sys.argv[2:]; import make\n"
            "names = {'text': make.NAMES, 'again': make.AGAIN}\n"
            "assert {*step} <= {*(names.get(item) or make.item(item).STEPS)}"
        )
        self.python("-c", asked, str(ROOT / "results" / "evidence"), *arguments[:2])

    def peer(self, name, arguments):
        self.python(
            "-c",
            f"import sys; sys.path[:0] = [{str(PEERS)!r}, {str(ROOT / 'results/evidence')!r}]\n"
            f"import importlib, network, options; name = importlib.import_module({name!r})\n"
            "given = name.parse(sys.argv[1:])\n"
            "if 'topology' in given: network.read_topology(options.topology_file(given.topology))",
            *arguments,
        )


def peer(name):
    return lambda test, arguments, variables: test.peer(name, arguments)


def built(name):
    return lambda test, arguments, variables: test.built(name)


SCRIPTS: dict[str, Callable] = {
    "benchmarks/peers/compare": peer("compare"),
    "benchmarks/run": ExamplesTest.run_of_a_plan,
    "harness/python/release_wheel": ExamplesTest.release_wheel,
    "models/profiles/fit_t4.py": ExamplesTest.fit,
    "models/record_profile.py": ExamplesTest.record_profile,
    "results/evidence/make.py": ExamplesTest.evidence,
    "tests/fuzz/corpus.py": ExamplesTest.corpus,
    "tests/nightly": ExamplesTest.nightly,
    "tests/run": ExamplesTest.chosen_by_ctest,
}
CHECKS = SCRIPTS | {
    "build/deps/venv/bin/python": ExamplesTest.interpreted,
    "build/fuzz/bin/fuzz_plan": ExamplesTest.fuzzer,
    "build/release/bin/gate_replay_test": built("gate_replay_test"),
    "build/release/bin/report_golden_test": built("report_golden_test"),
    "build/release/bin/torch_sync_tests": ExamplesTest.sync_test,
    "build/release/gradsync": ExamplesTest.gradsync,
    "cmake": ExamplesTest.cmake,
    "gradsync": ExamplesTest.gradsync,
    "mpirun": ExamplesTest.launched,
    "pip": ExamplesTest.pip,
    "python3": ExamplesTest.interpreted,
    "srun": ExamplesTest.launched,
    "torchrun": ExamplesTest.launched,
}

if __name__ == "__main__":
    unittest.main(verbosity=2)
