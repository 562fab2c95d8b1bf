"""The memory of this process's CPU tensors, counted by the watcher's library
(harness/watch/inject/preload/tensor_memory.cpp).
"""

import ctypes
import gc

from gradsync import program


class TensorMemory:
    """Counts what this thread allocates from here on; make it before the first tensor, after torch
    was imported. Exact inside of a watched block, where gloo's threads are known and waited for.
    Nothing that goes wrong here is raised: `unknown` says why nothing is counted.
    """

    def __init__(self):
        self.unknown = None
        try:
            self.native = ctypes.CDLL(program.prepared()["watcher"])
            self.native.gradsync_count_tensors.restype = ctypes.c_bool
            self.native.gradsync_tensor_bytes.restype = ctypes.c_int64
            self.native.gradsync_tensor_peak_bytes.restype = ctypes.c_int64
            if not self.native.gradsync_count_tensors():
                self.unknown = "torch's allocator is not one that can be counted"
        except (OSError, AttributeError, program.Unwatchable) as error:
            self.unknown = str(error)

    def held_bytes(self):
        return None if self.unknown else self.native.gradsync_tensor_bytes()

    def peak_bytes(self):
        """The most since reset_peak()."""
        return None if self.unknown else self.native.gradsync_tensor_peak_bytes()

    def reset_peak(self):
        """What is garbage by now is not held: when Python would have seen that is chance."""
        gc.collect()
        if not self.unknown:
            self.native.gradsync_reset_tensor_peak()
