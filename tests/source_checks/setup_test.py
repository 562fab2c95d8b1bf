"""harness/setup on machines that lack something, or are offline: what it says and how it ends.

The script runs from a copy, with a PATH of chosen tools and a stand-in for apt-get, so that
nothing is installed and no network is used.
"""

import os
import re
import shutil
import stat
import subprocess
import tempfile
import unittest
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
BASICS = "awk bash cat dirname env flock grep head ldd mkdir mv realpath rm sed sort tail tr"
TOOLS = ["g++", "cmake", "ninja", "tc"]
READY = 0
USAGE = 2
UNFIT = 4

ORACLES = (
    *("transformers", "accelerate", "safetensors", "jsonschema", "pytest", "xdist"),
    *("lightning", "prometheus_client", "tensorboard", "peft"),
)


class Machine:
    """A copy of harness/setup and the tools it can see."""

    def __init__(self, folder, tools):
        self.root = Path(folder) / "clone"
        self.bin = Path(folder) / "bin"
        for path in (self.root / "harness", self.bin):
            path.mkdir(parents=True)
        shutil.copy(ROOT / "harness" / "setup", self.root / "harness" / "setup")
        for tool in BASICS.split() + tools:
            found = shutil.which(tool, path=os.environ["PATH"] + ":/usr/sbin:/sbin")
            if found:
                (self.bin / tool).symlink_to(found)
        # An interpreter of its own, so that what this machine has installed does not matter.
        python = Path(folder) / "python"
        venv.create(python, symlinks=True)
        self.path = f"{python}/bin:{self.bin}"
        self.site = next(python.glob("lib/python3*/site-packages"))
        self.script("apt-get", f'echo "$@" >>{self.bin}/apt.log; exit 0')

    def script(self, name, body):
        path = self.bin / name
        path.unlink(missing_ok=True)
        path.write_text(f"#!/bin/bash\n{body}\n")
        path.chmod(path.stat().st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)

    def module(self, name, **files):
        package = self.site / name
        package.mkdir()
        (package / "__init__.py").write_text("raise ImportError('probes must not import')\n")
        for stem, text in files.items():
            (package / f"{stem}.py").write_text(text)
        return package

    def torch(self, version):
        """Installs what the probes look at; the library is no library, and so lacks nothing."""
        package = self.module("torch", version=f"__version__ = '{version}+cpu'\n")
        self.libtorch(package)
        return package

    @staticmethod
    def libtorch(folder):
        for name in ("lib/libtorch_cpu.so", "include/torch/csrc/distributed/c10d/reducer.hpp"):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).touch()

    def apt_calls(self):
        log = self.bin / "apt.log"
        return log.read_text().splitlines() if log.exists() else []

    def setup(self, *options, **environment):
        return subprocess.run(
            [str(self.root / "harness" / "setup"), *options],
            env={"PATH": self.path, "HOME": str(self.root), **environment},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )

    def env_file(self):
        text = (self.root / "build" / "deps" / "env").read_text()
        return dict(line.split("=", 1) for line in text.splitlines())


class SetupTest(unittest.TestCase):
    def machine(self, without=()):
        folder = tempfile.TemporaryDirectory(prefix="gradsync_setup_")
        self.addCleanup(folder.cleanup)
        return Machine(folder.name, [tool for tool in TOOLS if tool not in without])

    def ready_machine(self, version="2.11.0"):
        machine = self.machine()
        machine.torch(version)
        machine.module("matplotlib")
        machine.module("numpy")
        return machine

    def assert_ends(self, result, status, pattern):
        self.assertEqual(result.returncode, status, result.stderr)
        self.assertRegex(result.stderr, pattern)
        self.assertEqual(result.stdout, "", "stdout is for results alone")

    def test_a_ready_machine_is_left_alone(self):
        machine = self.ready_machine()
        self.assert_ends(machine.setup(), READY, r"\Asetup: ready: LibTorch 2\.11\.0 in .*\n\Z")
        self.assertEqual(machine.apt_calls(), [])
        self.assertEqual(machine.env_file()["GRADSYNC_TORCH"], str(machine.site / "torch"))

    def test_only_what_is_missing_is_installed(self):
        machine = self.ready_machine()
        (machine.bin / "ninja").unlink()
        self.assert_ends(machine.setup(), READY, r"setup: installing ninja-build with apt \.\.\.")
        self.assertEqual(len(machine.apt_calls()), 2, "one update, one install")
        self.assertRegex(machine.apt_calls()[0], r"update$")
        self.assertRegex(machine.apt_calls()[1], r"install --no-install-recommends ninja-build$")

    def test_the_fuzzers_compiler_is_asked_for_only_by_its_option(self):
        machine = self.ready_machine()
        machine.setup()
        self.assertEqual(machine.apt_calls(), [])
        machine.setup("--fuzz")
        self.assertRegex(machine.apt_calls()[1], r"install --no-install-recommends clang\b")

    def test_what_only_tests_import_is_asked_for_by_them_alone(self):
        machine = self.ready_machine()
        self.forbid_downloads(machine)
        self.assert_ends(machine.setup(), READY, "setup: ready")
        self.assert_ends(machine.setup("--tests"), UNFIT, "pip could not install them")
        for module in ("scipy", "pip", "scikit_build_core"):
            machine.module(module)
        self.assert_ends(machine.setup("--tests"), READY, "setup: ready")

    def test_without_a_compiler_all_headers_are_asked_for(self):
        machine = self.ready_machine()
        (machine.bin / "g++").unlink()
        machine.setup()
        for package in ("g++", "nlohmann-json3-dev", "libgloo-dev", "libboost-math-dev"):
            self.assertIn(f" {package}", machine.apt_calls()[1])

    def test_a_failing_apt_says_what_to_install_by_hand(self):
        machine = self.ready_machine()
        (machine.bin / "ninja").unlink()
        machine.script("apt-get", "echo 'E: no route to the archive'; exit 100")
        result = machine.setup()
        self.assert_ends(result, UNFIT, "as root: apt-get update && apt-get install .*ninja-build")
        self.assertIn("no route to the archive", result.stderr)

    def test_a_machine_without_apt_is_told_the_packages(self):
        machine = self.ready_machine()
        (machine.bin / "ninja").unlink()
        (machine.bin / "apt-get").unlink()
        self.assert_ends(machine.setup(), UNFIT, "no apt-get here; install .*ninja-build")

    @unittest.skipUnless(
        os.geteuid() == 0 and shutil.which("setpriv"), "needs root, to run as somebody else"
    )
    def test_a_user_without_sudo_gets_the_command_line(self):
        machine = self.ready_machine()
        (machine.bin / "ninja").unlink()
        for path in (machine.root.parent, machine.root):
            os.chmod(path, 0o777)
        script = machine.root / "harness" / "setup"
        result = subprocess.run(
            [
                shutil.which("setpriv"),
                "--reuid=65534",
                "--regid=65534",
                "--clear-groups",
                str(script),
            ],
            env={"PATH": machine.path},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        self.assert_ends(result, UNFIT, "no sudo; as root: apt-get install .*ninja-build")
        self.assertEqual(machine.apt_calls(), [])

    def test_an_old_cmake_is_refused(self):
        machine = self.ready_machine()
        machine.script("cmake", "echo 'cmake version 3.18.4'")
        self.assert_ends(machine.setup(), UNFIT, r"cmake is older than 3\.24; put a newer one")
        self.assertRegex(machine.apt_calls()[1], r" cmake$")

    def test_the_directory_asked_for_comes_first(self):
        machine = self.ready_machine()
        other = machine.root / "other torch"
        machine.libtorch(other)
        self.assert_ends(machine.setup(GRADSYNC_TORCH=str(other)), READY, "ready: .*other torch")

    def test_a_wrong_directory_is_refused(self):
        machine = self.ready_machine()
        result = machine.setup(GRADSYNC_TORCH="/nowhere")
        self.assert_ends(result, UNFIT, "GRADSYNC_TORCH=/nowhere is no usable LibTorch; expected")

    def test_a_torch_in_range_is_used_as_it_is(self):
        for version in ("2.11.0", "2.13.1", "2.15.2"):
            with self.subTest(version=version):
                machine = self.ready_machine(version)
                self.assert_ends(machine.setup(), READY, f"LibTorch {re.escape(version)} in")

    def test_a_torch_out_of_range_is_passed_over(self):
        for version in ("2.9.1", "2.10.0", "2.16.0", "3.0.0"):
            with self.subTest(version=version):
                machine = self.ready_machine(version)
                self.forbid_downloads(machine)
                result = machine.setup()
                self.assert_ends(result, UNFIT, r"downloading --no-deps torch==2\.11\.0 with pip")

    def forbid_downloads(self, machine):
        """Makes the private environment one whose pip reaches no server."""
        tools = machine.root / "build" / "deps" / "venv" / "bin"
        tools.mkdir(parents=True)
        for name, body in (("pip", "echo 'no route to the index'; exit 1"), ("python", "exit 1")):
            machine.script(name, body)
            (machine.bin / name).rename(tools / name)

    def test_a_failing_download_says_what_to_install_by_hand(self):
        machine = self.machine()
        self.forbid_downloads(machine)
        result = machine.setup()
        self.assert_ends(result, UNFIT, r"by hand, when online: \S+/pip install .*torch==2\.11\.0")
        self.assertIn("no route to the index", result.stderr)

    def test_an_interrupted_download_is_begun_again(self):
        machine = self.machine()
        self.forbid_downloads(machine)
        machine.setup()
        self.assert_ends(machine.setup(), UNFIT, "downloading --no-deps torch")

    def test_what_one_test_compares_with_may_be_missing(self):
        machine = self.ready_machine()
        for module in ORACLES:
            machine.module(module)
        (machine.site / "torch" / "lib" / "libtorch_python.so").touch()
        # A preprocessor that finds every header but one.
        machine.script("g++", "if grep -q simgrid; then echo missing: libsimgrid-dev; fi")
        self.assert_ends(machine.setup("--oracles"), READY, "installing libsimgrid-dev with apt")
        machine.script("apt-get", "exit 100")
        result = machine.setup("--oracles")
        self.assert_ends(result, READY, "warn: going on without libsimgrid-dev: .*skipped")
        self.assertNotIn("libsimgrid-dev", machine.setup().stderr)

    def test_usage(self):
        machine = self.ready_machine()
        self.assert_ends(machine.setup("--everything"), USAGE, "unknown option '--everything'")
        self.assert_ends(machine.setup("--torch"), USAGE, "--torch needs a VERSION")


if __name__ == "__main__":
    unittest.main(verbosity=2)
