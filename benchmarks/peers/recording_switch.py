"""Switches off and on what `gradsync watch` has torch call back for in this process: by the C++
functions of ATen/record_function.h, since nothing of torch's Python does it."""

import ctypes
from pathlib import Path

import torch

HAS, DISABLE, ENABLE = (
    "_ZN2at18hasGlobalCallbacksEv",
    "_ZN2at15disableCallbackEm",
    "_ZN2at16reenableCallbackEm",
)
MOST_HANDLES = 64  # torch numbers them from 1 on


class RecordingSwitch:
    def __init__(self):
        """Errors: RuntimeError where nothing records, or more than one does."""
        library = ctypes.CDLL(str(Path(torch.__file__).parent / "lib" / "libtorch_cpu.so"))
        self._has, self._disable, self._enable = (library[name] for name in (HAS, DISABLE, ENABLE))
        self._has.restype = ctypes.c_bool
        for function in (self._disable, self._enable):
            function.argtypes, function.restype = [ctypes.c_uint64], None
        self._handle = self._find()

    def _find(self):
        if not self._has():
            raise RuntimeError("nothing records in this process, expected gradsync watch")
        for handle in range(1, MOST_HANDLES):
            self._disable(handle)
            found = not self._has()
            self._enable(handle)
            if found:
                return handle
        raise RuntimeError("more than gradsync watch records in this process")

    def set(self, on):
        """Errors: RuntimeError where torch does not do it."""
        (self._enable if on else self._disable)(self._handle)
        if self._has() != on:
            raise RuntimeError(f"recording could not be switched {'on' if on else 'off'}")
