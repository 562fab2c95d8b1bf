"""The CI jobs that benchmarks/gates/README.md shows can be pasted: YAML, and bash inside of it.

What the action and the template of counts do when they run is in ci_counts_test.py.
"""

import os
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

GATES = Path(__file__).resolve().parents[2] / "benchmarks/gates"
README = GATES / "README.md"
SKIPPED = 77
EXPRESSION = re.compile(r"\$\{\{.*?\}\}")  # GitHub fills it in before a shell sees it

try:
    import yaml
except ImportError:
    print("skipped: this Python has no yaml; harness/setup --oracles brings it")
    sys.exit(SKIPPED)


def examples():
    return [
        yaml.safe_load(text)
        for text in re.findall(
            r"^```yaml\n(.*?)^```$", README.read_text(), re.DOTALL | re.MULTILINE
        )
    ]


class CiExamples(unittest.TestCase):
    def setUp(self):
        self.github_counts, self.gitlab_counts, self.github, self.gitlab = examples()

    def assert_is_a_gate(self, scripts):
        for script in scripts:
            done = subprocess.run(
                ["bash", "-n"], input=EXPRESSION.sub("x", script), capture_output=True, text=True
            )
            self.assertEqual((done.returncode, done.stderr), (0, ""), script)
        whole = "\n".join(scripts)
        for words in (
            "harness/setup",
            "harness/cmake/build release gradsync",
            "gradsync gate builds gate",
        ):
            self.assertIn(words, whole)
        for option in ("--baseline ../baseline/build/release", "--candidate build/release"):
            self.assertIn(option, whole)

    def test_github(self):
        job = self.github["jobs"]["gate"]
        self.assertIn("runs-on", job)
        self.assert_is_a_gate([step["run"] for step in job["steps"] if "run" in step])
        for step in job["steps"]:
            self.assertEqual(len({"run", "uses"} & set(step)), 1, step)

    def test_gitlab(self):
        job = self.gitlab["gate"]
        self.assert_is_a_gate(job["before_script"] + job["script"])
        self.assertEqual(job["allow_failure"], {"exit_codes": [3, 4]})

    def test_the_actions_inputs_are_known(self):
        (step,) = (
            step
            for step in self.github_counts["jobs"]["counts"]["steps"]
            if "gradsync" in step.get("uses", "")
        )
        self.assertIn("benchmarks/gates/github@", step["uses"])
        action = yaml.safe_load((GATES / "github/action.yml").read_text())
        self.assert_inputs(step["with"], action["inputs"], lambda known: known.get("required"))

    def test_the_templates_inputs_are_known(self):
        (include,) = self.gitlab_counts["include"]
        self.assertTrue(include["remote"].endswith("benchmarks/gates/gitlab.yml"))
        spec, _ = yaml.safe_load_all((GATES / "gitlab.yml").read_text())
        self.assert_inputs(
            include["inputs"], spec["spec"]["inputs"], lambda known: "default" not in known
        )

    def assert_inputs(self, given, known, is_required):
        self.assertLessEqual(given.keys(), known.keys())
        self.assertLessEqual({name for name in known if is_required(known[name])}, given.keys())

    def test_undecided_and_unfit_do_not_fail_the_job_and_all_else_does(self):
        (gate,) = (
            s["run"] for s in self.github["jobs"]["gate"]["steps"] if s.get("name") == "Gate"
        )
        statuses = re.findall(r"^\s*(\S+)\) (echo|exit)", gate, re.MULTILINE)
        self.assertEqual(statuses, [("3", "echo"), ("4", "echo"), ("*", "exit")])
        for status in range(6):
            self.assertEqual(self.ends_with(gate, status), 0 if status in (0, 3, 4) else status)

    def ends_with(self, script, status):
        """Runs the step as GitHub does, where the gate ends with `status`."""
        with tempfile.TemporaryDirectory() as place:
            program = Path(place, "build/release/gradsync")
            program.parent.mkdir(parents=True)
            program.write_text(f"#!/bin/sh\nexit {status}\n")
            program.chmod(0o755)
            return subprocess.run(
                ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script],
                cwd=place,
                env=os.environ | {"GITHUB_STEP_SUMMARY": f"{place}/summary.md"},
                capture_output=True,
            ).returncode


if __name__ == "__main__":
    unittest.main(verbosity=2)
