"""What the program says of GPUs where there are none, or only a driver's word for them.

The driver's library is a stub in some of these tests: tests/harness/launch/nvml_stub.cpp.
"""

import ctypes
import json
import os
import unittest
from pathlib import Path

from program import PROGRAM, QUICK, ROOT, ProgramTest

try:
    import jsonschema
except ImportError:
    jsonschema = None

STUB = os.environ["GRADSYNC_NVML_STUB"]  # its folder
HAS_MODULE = (Path(PROGRAM).parent / "libgradsync_cuda.so").exists()


def has_driver():
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False
    return True


needs_module = unittest.skipUnless(HAS_MODULE, "this build has no CUDA module")
needs_no_driver = unittest.skipIf(has_driver(), "an NVIDIA driver is here")


class RefusalTest(ProgramTest):
    def on_cuda(self, *arguments, **stub):
        extra = {"LD_LIBRARY_PATH": STUB} | stub if stub else {}
        return self.run_plan(QUICK, "--device", "cuda", *arguments, env=extra)

    @unittest.skipIf(HAS_MODULE, "this build has the CUDA module")
    def test_a_build_without_cuda(self):
        self.assert_refused(self.on_cuda(), "this build has no CUDA", "nvcc", status=4)

    @needs_module
    @needs_no_driver
    def test_a_machine_without_a_driver(self):
        for backend in ("gloo", "nccl"):
            outcome = self.on_cuda("--backend", backend)
            self.assert_refused(outcome, "no NVIDIA driver", "--device cpu", status=4)
        self.assertFalse((self.place / "run").exists())

    @needs_module
    def test_a_driver_without_gpus(self):
        outcome = self.on_cuda(STUB_GPUS="0")
        self.assert_refused(outcome, "lists no GPU", "--device cpu", status=4)
        self.assertFalse((self.place / "run").exists())

    @needs_module
    @needs_no_driver
    def test_what_only_a_rank_can_know_is_said_once(self):
        outcome = self.on_cuda("--backend", "nccl", STUB_GPUS="1", STUB_BUSY="4242")
        self.assert_refused(outcome, "CUDA", "--device cpu", status=4)
        self.assertIn("warn: GPU 0 (NVIDIA Stub 80GB) is busy: process 4242", outcome.err)
        result = self.result()
        self.assertEqual(result["exit_status"], 4)
        self.assertEqual(result["context"]["gpu"], "1 x NVIDIA Stub 80GB")
        self.assertEqual(result["context"]["gpus"][0]["driver"], "580.65.06")
        self.assertEqual(result["context"]["gpus"][0]["processes"][0]["pid"], 4242)
        if jsonschema:
            schema = json.loads((ROOT / "results/schema/result.schema.json").read_text())
            jsonschema.validate(result, schema)

    def test_a_dry_run_needs_no_gpu(self):
        outcome = self.call("run", "smoke", "--device", "cuda", "--backend", "nccl", "--dry-run")
        self.assertEqual((outcome.status, outcome.err), (0, ""))

    def test_a_run_on_the_cpu_says_why_it_looked_at_no_gpu(self):
        outcome = self.run_plan(QUICK, env={"LD_LIBRARY_PATH": STUB, "STUB_GPUS": "1"})
        self.assertEqual(outcome.status, 0, outcome.err)
        context = self.result()["context"]
        self.assertIsNone(context["gpus"])
        self.assertEqual(context["gpus_reason"], "the plan computes on the CPU")

    def test_the_doctor_looks_at_them(self):
        stub = {"LD_LIBRARY_PATH": STUB, "STUB_GPUS": "2", "STUB_BUSY": "7"}
        found = self.call("doctor", env=stub)
        self.assertIn("warn  GPU 0 (NVIDIA Stub 80GB) is busy: process 7 (1.50 GiB)", found.out)
        self.assertIn("ok    GPU 1 (NVIDIA Stub 80GB) is idle", found.out)


if __name__ == "__main__":
    unittest.main(verbosity=2)
