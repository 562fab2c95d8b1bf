"""The action and the template of benchmarks/gates that hold counts: their steps run as a runner
runs them, in an environment without a compiler, on a small job of two ranks and on one that lost
its no_sync.

What a release brings is stood in for: pip by one that installs the program of this checkout. A
wheel has its watcher built; here it is built beforehand, and CXX names by which compiler, which is
not in PATH.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
GATES = ROOT / "benchmarks" / "gates"
PROGRAM = os.environ.get("GRADSYNC_PROGRAM", str(ROOT / "build/release/gradsync"))
TORCH_PYTHON = os.environ.get("GRADSYNC_TEST_PYTHON", sys.executable)
DDP = ROOT / "tests" / "harness" / "watch" / "jobs" / "ddp.py"
PROPER, IMPROPER = ("baseline", "fixed"), ("improper",)
TOOLS = "bash cat env rm uname"
SKIPPED = 77
DEADLINE_S = 600

try:
    import yaml
except ImportError as error:
    print(f"skipped: {error}; harness/setup --oracles brings it")
    sys.exit(SKIPPED)

sys.path.insert(0, str(ROOT / "tests" / "benchmarks"))
from watch_test import FORKED_RANKS, watched_server  # noqa: E402


def action():
    return yaml.safe_load((GATES / "github" / "action.yml").read_text())


def template():
    return list(yaml.safe_load_all((GATES / "gitlab.yml").read_text()))


def filled(text, inputs, pattern):
    return re.sub(pattern, lambda found: inputs[found[1]], str(text))


def without_compilers(folder):
    """A PATH of what steps need, and a pip that installs the program there."""
    folder.mkdir()
    for tool in TOOLS.split():
        (folder / tool).symlink_to(shutil.which(tool))
    (folder / "python3").write_text(f'#!/bin/bash\nexec {shlex.quote(TORCH_PYTHON)} "$@"\n')
    pip = f'#!/bin/bash\necho "$@" >>{folder}/pip.log\nln -s {PROGRAM} {folder}/gradsync\n'
    (folder / "pip").write_text(pip.replace("ln -s", shutil.which("ln") + " -sf"))
    for name in ("python3", "pip"):
        (folder / name).chmod(0o755)
    return folder


class CountsInCi(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.compiler = os.environ.get("CXX") or shutil.which("c++")
        cls.cache = str(Path(PROGRAM).parent / "watch_cache")
        subprocess.run(
            [PROGRAM, "watch", "--prepare", "--python", TORCH_PYTHON],
            env=os.environ | {"XDG_CACHE_HOME": cls.cache, "CXX": cls.compiler},
            capture_output=True,
            check=True,
            timeout=DEADLINE_S,
        )

    def setUp(self):
        self.place = Path(tempfile.mkdtemp(prefix="gradsync_test_"))
        self.addCleanup(shutil.rmtree, self.place, ignore_errors=True)
        self.tools = without_compilers(self.place / "bin")
        for tool in ("c++", "g++", "clang++", "cc"):
            self.assertIsNone(shutil.which(tool, path=str(self.tools)))

    def run_script(self, script, variables):
        usual = {
            "PATH": str(self.tools),
            "XDG_CACHE_HOME": self.cache,
            "CXX": self.compiler,
            "RUNNER_TEMP": str(self.place),
            "GITHUB_STEP_SUMMARY": str(self.place / "step_summary.md"),
            **watched_server().place,
        }
        return subprocess.run(
            [self.tools / "bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script],
            cwd=self.place,
            env=usual | variables,
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
        )

    def job(self, words):
        return shlex.join(["python3", str(FORKED_RANKS), "2", str(DDP), *words])

    # GitHub

    def run_action(self, **inputs):
        """Returns the outcome of its last step of bash."""
        known = action()["inputs"]
        self.assertLessEqual(inputs.keys(), known.keys())
        given = {name: str(known[name].get("default", "")) for name in known} | inputs
        for step in action()["runs"]["steps"]:
            if "run" not in step:
                continue
            self.assertEqual(step["shell"], "bash")
            variables = {
                name: filled(text, given, r"\$\{\{ inputs\.([\w-]+) \}\}")
                for name, text in step["env"].items()
            }
            done = self.run_script(step["run"], variables)
            if done.returncode != 0:
                break
        return done

    def test_they_pass_and_then_find_a_lost_no_sync(self):
        written = self.run_action(command=self.job(PROPER), update="true")
        self.assertEqual(written.returncode, 0, written.stderr)
        passed = self.run_action(command=self.job(PROPER))
        self.assertEqual(passed.returncode, 0, passed.stderr)
        self.assertIn("VERDICT: PASSED", passed.stdout)
        failed = self.run_action(command=self.job(IMPROPER), **{"time-budget": "10m"})
        self.assertEqual(failed.returncode, 1, failed.stderr)
        summary = (self.place / "step_summary.md").read_text()
        self.assertIn("### gradsync: PASSED", summary)
        self.assertIn("### gradsync: NOT PASSED", summary)
        self.assertRegex(summary, r"change ddp\.py line \d+: enclose the forward")
        seen = self.place / "gradsync-counts"
        for name in ("gate.json", "watch.json", "counts.json", "job.log"):
            self.assertTrue((seen / name).exists(), name)
        self.assertEqual(
            (self.tools / "pip.log").read_text().splitlines(), 3 * ["install --quiet gradsync"]
        )
        self.assert_the_template_finds_a_lost_no_sync()

    def test_the_action_installs_what_it_is_told_and_fails_without_a_file(self):
        for inputs, expected in (
            ({"version": "1.2"}, "gradsync==1.2"),
            ({"wheel": "dist/a.whl", "version": "1.2"}, "dist/a.whl"),
        ):
            done = self.run_action(command="true", **inputs)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn("--update writes it", done.stderr)
            self.assertIn(expected, (self.tools / "pip.log").read_text())

    def test_what_was_seen_is_kept_whatever_the_end(self):
        (keep,) = [step for step in action()["runs"]["steps"] if "uses" in step]
        self.assertEqual(keep["if"], "always()")
        self.assertIn("gradsync-counts", keep["with"]["path"])

    # GitLab

    def assert_the_template_finds_a_lost_no_sync(self):
        spec, jobs = template()
        (job,) = jobs.values()
        inputs = {
            name: str(given.get("default", "")) for name, given in spec["spec"]["inputs"].items()
        }
        inputs["command"] = self.job(IMPROPER)
        done = self.run_gitlab(job, inputs)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("VERDICT: NOT PASSED", done.stdout)
        self.assertIn("### gradsync: NOT PASSED", (self.place / "gradsync.md").read_text())
        self.assertEqual(job["artifacts"]["when"], "always")
        for path in job["artifacts"]["paths"]:
            self.assertTrue((self.place / path).exists(), path)

    def run_gitlab(self, job, inputs):
        variables = {
            name: filled(text, inputs, r"\$\[\[ inputs\.([\w-]+) \]\]")
            for name, text in job["variables"].items()
        }
        return self.run_script("\n".join(job["script"]), variables)


if __name__ == "__main__":
    unittest.main(verbosity=2)
