"""What the program says of its own command line: one screen of help, completion in
bash, and the man page, all from the same parser.

Covers: command_page.cpp, completion.cpp, help_screen.cpp, man_page.cpp, manual_commands.cpp.
"""

import re
import shutil
import subprocess
import unittest
from pathlib import Path

from program import PROGRAM, ROOT, ProgramTest

WIDTH, SCREEN = 80, 40
GOLDEN = Path(__file__).with_name("help.txt")
# What a shell would have on its line, and some of what may follow.
CANDIDATES = (
    ("gradsync ", {"watch", "gate", "run", "doctor", "demo", "completion"}),
    ("gradsync wat", {"watch"}),
    ("gradsync --v", {"--version"}),
    ("gradsync watch --fail", {"--fail-on-excess"}),
    ("gradsync predict ", {"memory", "step"}),
    ("gradsync predict memory --b", {"--budget"}),
    ("gradsync predict memory bert_", {"bert_tiny", "bert_mini"}),
    ("gradsync run slow", {"slowdown_table"}),
    ("gradsync run smoke --topology 2x1_1g", {"2x1_1gbit"}),
    ("gradsync run smoke --strategy no_s", {"no_sync", "no_sync_improper"}),
    ("gradsync run smoke --model mixtral_m", {"mixtral_mini"}),
    ("gradsync list t", {"topologies"}),
    ("gradsync completion b", {"bash"}),
)
NOT_CANDIDATES = (
    ("gradsync ", {"arm", "--version", "memory"}),
    ("gradsync run smoke --topology ", {"NxR", "--steps"}),
)
# Completes the line that is its first argument, as bash does when TAB is pressed.
BASH = """
source /dev/stdin <<<"$(gradsync completion bash)"
line=$1
read -r -a COMP_WORDS <<<"$line"
[[ $line == *" " ]] && COMP_WORDS+=("")
COMP_CWORD=$((${#COMP_WORDS[@]} - 1)) COMP_LINE=$line COMP_POINT=${#line}
complete -p gradsync >/dev/null && _gradsync
printf '%s\\n' "${COMPREPLY[@]}"
"""


class HelpTest(ProgramTest):
    def commands(self):
        return re.findall(r"^  (\w+) ", self.call("--help").out, re.MULTILINE)

    def test_the_program_on_one_screen(self):
        screen = self.call("--help")
        self.assertEqual(screen.status, 0)
        self.assertEqual(screen.out, GOLDEN.read_text())
        lines = screen.out.splitlines()
        self.assertLessEqual(len(lines), SCREEN)
        self.assertLessEqual(max(map(len, lines)), WIDTH)

    def test_each_command_in_80_columns_with_all_its_options(self):
        commands = self.commands()
        self.assertGreater(len(commands), 10)
        predict = ("predict memory", "predict step", "predict links")
        for command in (*commands, *predict):
            if command == "gradsync":
                continue
            with self.subTest(command=command):
                page = self.call(*command.split(), "--help")
                self.assertEqual(page.status, 0, page.err)
                self.assertTrue(page.out.startswith(f"usage: gradsync {command}"), page.out)
                self.assertLessEqual(max(map(len, page.out.splitlines())), WIDTH, page.out)
        watch = self.call("watch", "--help").out
        self.assertIn("usage: gradsync watch [options] -- COMMAND...", watch)
        self.assertIn("--fail-on-excess", watch)

    def test_what_is_wrong_with_the_machine_names_the_doctor(self):
        missing = {"GRADSYNC_RANK": str(self.place / "missing")}
        outcome = self.call("run", "smoke", "--out", self.place / "run", env=missing)
        self.assert_refused(outcome, "gradsync doctor says what this machine lacks", status=4)


class CompletionTest(ProgramTest):
    def candidates(self, line):
        tools = self.place / "bin"
        if not tools.exists():
            tools.mkdir()
            (tools / "gradsync").symlink_to(PROGRAM)
        done = subprocess.run(
            ["bash", "--noprofile", "--norc", "-c", BASH, "bash", line],
            env={"PATH": f"{tools}:/usr/bin:/bin", "HOME": str(self.place)},
            capture_output=True,
            text=True,
            timeout=60,
        )
        self.assertEqual(done.stderr, "")
        return set(done.stdout.split())

    def test_what_may_follow(self):
        for line, expected in CANDIDATES:
            with self.subTest(line=line):
                self.assertLessEqual(expected, self.candidates(line))
        for line, unwanted in NOT_CANDIDATES:
            with self.subTest(line=line):
                self.assertFalse(unwanted & self.candidates(line))

    def test_another_shell_is_refused(self):
        self.assert_refused(self.call("completion", "zsh"), "zsh", "bash")


class ManTest(ProgramTest):
    def page(self):
        page = self.call("man")
        self.assertEqual(page.status, 0, page.err)
        return page.out

    @unittest.skipUnless(
        shutil.which("mandoc"), "mandoc is not installed; harness/setup --tests has it"
    )
    def test_mandoc_has_nothing_against_it(self):
        done = subprocess.run(
            ["mandoc", "-T", "lint", "-W", "warning"],
            input=self.page(),
            capture_output=True,
            text=True,
        )
        self.assertEqual((done.returncode, done.stdout + done.stderr), (0, ""))

    def test_it_has_every_command_and_the_exit_statuses_of_the_page(self):
        text = self.page().replace("\\-", "-")
        for usage in ("watch [options] -- COMMAND...", "run [options] PLAN", "predict memory"):
            self.assertIn(f'.SS "gradsync {usage}', text)
        self.assertIn("--fail-on-excess", text)
        said = set(re.findall(r"^\\fB(\d+)\\fR$", text, re.MULTILINE))
        readme = (ROOT / "benchmarks" / "README.md").read_text()
        self.assertLessEqual(set(re.findall(r"^\| (\d+) \|", readme, re.MULTILINE)), said)


if __name__ == "__main__":
    unittest.main(verbosity=2)
