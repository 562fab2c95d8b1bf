"""A transformers model whose layers run again in backward, by torch's own checkpoint, and a clock
of how long that takes."""

import contextlib
import time


class Recomputing:
    """Its clock runs while a layer runs again: inside of backward, until all is there that backward
    needs. One thread."""

    def __init__(self):
        self._elapsed_s = 0.0

    def checkpoint(self, model):
        """From now on no layer of `model` keeps activations: `torch.utils.checkpoint` without
        reentrance, as transformers calls it."""
        how = {"use_reentrant": False, "context_fn": self._contexts}
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs=how)

    def elapsed_s(self):
        return self._elapsed_s

    def _contexts(self):
        """Returns the contexts of a layer's two runs."""
        return contextlib.nullcontext(), self._running()

    @contextlib.contextmanager
    def _running(self):
        begun_s = time.perf_counter()
        try:
            yield  # left by an exception, once the last tensor is there
        finally:
            self._elapsed_s += time.perf_counter() - begun_s
