"""The package for Python: built from the programs of this build, installed into an environment of
its own, and used there as by who has nothing else: from another folder, without this checkout's
files, without a compiler, and with nowhere to keep what would be compiled.

Covers: harness/python/check_wheel.py,
harness/python/gradsync/__main__.py, fmt_archive.cpp, udev_unavailable.cpp.
"""

import json
import os
import subprocess
import sys
import tempfile
import unittest
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
sys.path[:0] = [str(ROOT / "harness" / "python"), str(ROOT / "tests" / "benchmarks")]
import check_wheel  # noqa: E402
from program import PROGRAM, free_port  # noqa: E402
from watch_test import CACHE  # noqa: E402

BUILD = Path(PROGRAM).parent
TORCH = Path(os.environ["GRADSYNC_TORCH"])
LARGEST_BYTES = 60e6
# What a user's PATH has at least; and no compiler.
TOOLS = ("sh", "env", "ip", "tc", "taskset", "uname", "lscpu", "git")
DEADLINE_S = 300

TRAINING = """
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
model = DistributedDataParallel(torch.nn.Linear(4, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(5):
    for _ in range(3):
        model(torch.ones(2, 4)).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
dist.destroy_process_group()
"""


def run(*command, **more):
    done = subprocess.run(
        [str(word) for word in command], capture_output=True, text=True, timeout=DEADLINE_S, **more
    )
    if done.returncode != 0:
        raise AssertionError(f"{command} ended with {done.returncode}: {done.stdout}{done.stderr}")
    return done.stdout


def build_wheel(place):
    """Returns the wheel made of the programs in the build folder, as a release is made of its."""
    stage = place / "stage"
    for component in ("program", "rank"):
        run("cmake", "--install", BUILD, "--prefix", stage, "--component", component)
    run(
        "cmake",
        f"-DPROGRAM={PROGRAM}",
        f"-DTORCH={TORCH}",
        f"-DPYTHON={sys.executable}",
        f"-DINTO={stage}/gradsync/bin",
        "-P",
        ROOT / "harness/cmake/InstallWatcher.cmake",
        env=os.environ | {"XDG_CACHE_HOME": str(CACHE)},
    )
    settings = (f"cmake.define.GRADSYNC_PREBUILT={stage}", "build.targets=all")
    run(
        *(sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "--no-index"),
        *(word for setting in settings for word in ("-C", setting)),
        *("-C", f"build-dir={place}/package", "-w", place, ROOT),
    )
    (wheel,) = place.glob("*.whl")
    return wheel


class WheelTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="gradsync_wheel_test_")
        cls.addClassCleanup(folder.cleanup)
        cls.place = Path(folder.name)
        cls.wheel = build_wheel(cls.place)
        cls.environment = cls.place / "environment"
        run(sys.executable, "-m", "venv", "--without-pip", cls.environment)
        (cls.packages,) = cls.environment.glob("lib/python*/site-packages")
        pip = (sys.executable, "-m", "pip", "--python", cls.environment / "bin/python")
        run(*pip, "install", "--no-index", "--no-deps", cls.wheel)
        cls.tools = cls.place / "tools"
        cls.tools.mkdir()
        for tool in TOOLS:
            found = run("sh", "-c", f"PATH=$PATH:/usr/sbin:/sbin command -v {tool} || true").strip()
            if found:
                (cls.tools / tool).symlink_to(found)

    def setUp(self):
        work = tempfile.TemporaryDirectory(prefix="gradsync_wheel_test_")
        self.addCleanup(work.cleanup)
        self.work = Path(work.name)

    def with_torch(self):
        """As after pip install torch: the one of the tests, seen from the environment, with all
        that is beside it but what would draw plots.
        """
        seen = self.packages / "torch_of_the_tests.pth"
        seen.write_text(f"{self.work / 'seen'}\n")
        self.addCleanup(seen.unlink)
        (self.work / "seen").mkdir()
        for module in TORCH.parent.iterdir():
            if not module.name.startswith("matplotlib"):
                (self.work / "seen" / module.name).symlink_to(module)

    def call(self, *words, expected=0, **env):
        """Returns (standard output, standard error) of a command of the environment."""
        done = subprocess.run(
            [self.environment / "bin" / words[0], *map(str, words[1:])],
            cwd=self.work,
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
            env={
                "PATH": f"{self.environment / 'bin'}:{self.tools}",
                "HOME": "/nonexistent",
                "TMPDIR": str(self.work),
                "GRADSYNC_BUSY_TIMES": "keep",  # tests run beside each other
            }
            | env,
        )
        self.assertEqual(done.returncode, expected, done.stdout + done.stderr)
        return done.stdout, done.stderr

    # --- what is in it ---------------------------------------------------------------------------

    def test_its_programs_ask_for_nothing_but_the_c_and_cpp_libraries(self):
        files = list(check_wheel.elf_files(self.packages))
        names = {file.name for file in files}
        self.assertLessEqual({"gradsync", "libgradsync_loader.so"}, names)
        self.assertEqual(len(names), 4, names)
        said = [
            line
            for file in files
            for line in check_wheel.complaints(file.name, check_wheel.read_elf(file))
        ]
        self.assertEqual(said, [])

    def test_what_a_check_of_them_would_find(self):
        text = """
 0x1 (NEEDED)             Shared library: [libfmt.so.9]
 0x1 (NEEDED)             Shared library: [libc.so.6]
 0x1d (RUNPATH)           Library runpath: [/home/me/torch/lib]
Version needs section '.gnu.version_r' contains 2 entries:
  0x0010:   Name: GLIBC_2.36  Flags: none  Version: 9
  0x0020:   Name: GLIBCXX_3.4.30  Flags: none  Version: 8
"""
        said = check_wheel.complaints("program", text)
        self.assertEqual(len(said), 3, said)
        for line, word in zip(said, ("GLIBC_2.36", "libfmt.so.9", "/home/me"), strict=True):
            self.assertIn(word, line)

    def test_it_is_small_and_has_no_licence_that_nobody_chose(self):
        self.assertLess(self.wheel.stat().st_size, LARGEST_BYTES)
        with zipfile.ZipFile(self.wheel) as file:
            (metadata,) = (name for name in file.namelist() if name.endswith("/METADATA"))
            text = file.read(metadata).decode()
        self.assertIn("Provides-Extra: torch", text)
        licences = {path.name for path in ROOT.glob("LICEN[CS]E*")}
        self.assertEqual("License" in text.partition("\n\n")[0], bool(licences))

    # --- without torch ---------------------------------------------------------------------------

    def test_what_comes_with_it_is_found(self):
        out, _ = self.call("gradsync", "list", "plans")
        self.assertIn("slowdown_table", out)
        self.call("gradsync", "predict", "memory", "mixtral_mini", "--wrapper", "fsdp")
        self.call("gradsync", "run", "smoke", "--dry-run")
        self.call("python", "-c", "import gradsync; gradsync.watching")
        out, _ = self.call("python", "-m", "gradsync", "--version")
        self.assertEqual(out, self.call("gradsync", "--version")[0])
        self.assertNotIn("torch", out)

    def test_what_needs_torch_says_so(self):
        _, err = self.call("gradsync", "run", "smoke", expected=4)
        self.assertIn(f"{self.environment}/bin/python has no torch", err)
        self.assertIn("gradsync[torch]", err)

    def test_other_files_can_be_named(self):
        out, _ = self.call("gradsync", "list", "plans", GRADSYNC_DATA=str(ROOT))
        self.assertIn("slowdown_table", out)
        _, err = self.call("gradsync", "list", "plans", expected=2, GRADSYNC_DATA=str(self.work))
        self.assertIn(f"GRADSYNC_DATA: got {self.work}, expected a folder with", err)

    # --- with torch ------------------------------------------------------------------------------

    def test_a_verdict(self):
        self.with_torch()
        training = self.work / "train.py"
        training.write_text(TRAINING)
        launch = ("python", "-m", "torch.distributed.run", "--nproc-per-node=2")
        port = f"--master-port={free_port()}"
        seen = self.work / "seen.json"
        words = ("watch", "--fail-on-excess", "--json", seen, "--", *launch, port, training)
        _, err = self.call("gradsync", *words, expected=1)
        self.assertIn("no_sync", err)
        self.assertNotIn("building the watcher", err)
        self.assertEqual(json.loads(seen.read_text())["world_size"], 2)

    def test_a_table(self):
        self.with_torch()
        out, err = self.call("gradsync", "run", "smoke", "--topology", "1x2", "--steps", "2")
        self.assertIn("| no_sync (reference)", out)
        (run,) = (self.work / "results/runs").iterdir()
        context = json.loads((run / "result.json").read_text())["context"]
        self.assertTrue(context["torch"].startswith("2."), err)

    def test_a_torch_that_nothing_was_built_for(self):
        self.with_torch()
        (rank,) = self.packages.glob("gradsync/bin/gradsync-rank-*")
        hidden = rank.rename(self.work / rank.name)
        self.addCleanup(hidden.rename, rank)
        _, err = self.call("gradsync", "run", "smoke", expected=4)
        self.assertIn("this package has no rank program for the torch", err)
        (watcher,) = self.packages.glob("gradsync/bin/libgradsync_watcher-*")
        away = watcher.rename(self.work / watcher.name)
        self.addCleanup(away.rename, watcher)
        _, err = self.call("gradsync", "watch", "--", "python", "-c", "")
        self.assertIn("there is no C++ compiler to build the watcher for this torch with", err)


if __name__ == "__main__":
    unittest.main(verbosity=2)
