"""Compiles the kernels of paced layers by NVRTC, which needs neither GPU nor driver, for each
architecture that the build names: by the CUDA that is not installed here, too.

    nvrtc_test.py LIBRARY...        libnvrtc.so.12, libnvrtc.so.13
"""

import ctypes
import re
import sys
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
KERNELS = ROOT / "harness" / "comm" / "cuda" / "pace_kernels.cu"
TOOLKIT = ROOT / "harness" / "cmake" / "FindGpuToolkit.cmake"
# NVRTC compiles device code alone, and has no headers of the host.
TYPES = "namespace std { using uint64_t = unsigned long long; }\n"


def device_code():
    """The file's unnamed namespace: all but what the host calls."""
    inside = re.search(r"^namespace \{$(.*)^\}  // namespace$", KERNELS.read_text(), re.S | re.M)
    return TYPES + inside.group(1).replace("__global__ void", 'extern "C" __global__ void')


def architectures():
    """Those that the configure step names, "70"."""
    return re.search(r"IN ITEMS ((?:\d+ ?)+)\)", TOOLKIT.read_text()).group(1).split()


class Nvrtc:
    def __init__(self, path):
        self.library = ctypes.CDLL(path)

    def version(self):
        major, minor = ctypes.c_int(), ctypes.c_int()
        self.library.nvrtcVersion(ctypes.byref(major), ctypes.byref(minor))
        return major.value, minor.value

    def supported(self):
        count = ctypes.c_int()
        self.library.nvrtcGetNumSupportedArchs(ctypes.byref(count))
        numbers = (ctypes.c_int * count.value)()
        self.library.nvrtcGetSupportedArchs(numbers)
        return [str(number) for number in numbers]

    def compile(self, code, architecture):
        """Returns what the compiler said, and whether it could."""
        program = ctypes.c_void_p()
        source = code.encode()
        made = self.library.nvrtcCreateProgram(
            ctypes.byref(program), source, b"pace_kernels.cu", 0, None, None
        )
        assert made == 0, f"nvrtcCreateProgram: {made}"
        options = [f"--gpu-architecture=sm_{architecture}".encode(), b"--std=c++17"]
        status = self.library.nvrtcCompileProgram(
            program, len(options), (ctypes.c_char_p * len(options))(*options)
        )
        size = ctypes.c_size_t()
        self.library.nvrtcGetProgramLogSize(program, ctypes.byref(size))
        log = ctypes.create_string_buffer(size.value)
        self.library.nvrtcGetProgramLog(program, log)
        self.library.nvrtcDestroyProgram(ctypes.byref(program))
        return log.value.decode(), status == 0


class KernelsTest(unittest.TestCase):
    libraries = ()

    def test_every_architecture_that_a_toolkit_knows(self):
        for path in self.libraries:
            compiler = Nvrtc(path)
            known = [each for each in architectures() if each in compiler.supported()]
            self.assertGreater(len(known), 3, f"{path} knows {compiler.supported()}")
            for architecture in known:
                with self.subTest(version=compiler.version(), architecture=architecture):
                    log, compiled = compiler.compile(device_code(), architecture)
                    self.assertTrue(compiled, log)
                    print(f"CUDA {compiler.version()}: sm_{architecture}", file=sys.stderr)

    def test_what_a_gpu_before_these_lacks_is_refused(self):
        for path in self.libraries:
            compiler = Nvrtc(path)
            for old in ("50", "60"):
                if old in compiler.supported():
                    self.assertFalse(compiler.compile(device_code(), old)[1])


if __name__ == "__main__":
    KernelsTest.libraries = sys.argv[1:]
    if not KernelsTest.libraries:
        sys.exit(__doc__)
    unittest.main(verbosity=2, argv=sys.argv[:1])
