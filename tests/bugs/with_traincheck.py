"""A rank of a job, as TrainCheck traces it: checkers/traincheck.py gives this to
traincheck-collect, which instruments torch behind its import.

    with_traincheck.py SCRIPT NAME [fixed]

It says what TrainCheck cannot find by itself in a script that is not its own: which parameters to
sample (those whose names the job gives to its proof), and when a step ends.
"""

import importlib
import runpy
import sys
from pathlib import Path

from traincheck.config import config

# What lies below the API of training: learning from a trace of all torch takes minutes more.
BELOW = ("torch._", "torch.compiler", "torch.cuda", "torch.library", "torch.utils")
config.INSTR_MODULES_TO_SKIP += BELOW
compiled = importlib.import_module("torch._C")  # by name: it is not to be instrumented yet
if not importlib.import_module("torch").cuda.is_available():
    # Instrumenting asks torch for CUDA's settings, and takes no for an answer of a CPU build alone.
    del compiled._cuda_getDeviceCount

import torch  # noqa: E402
from torch.optim.optimizer import register_optimizer_step_post_hook  # noqa: E402
from traincheck.instrumentor import VarSampler  # noqa: E402
from traincheck.instrumentor.control import start_step  # noqa: E402

sys.argv = sys.argv[1:]
sys.path.insert(0, str(Path(sys.argv[0]).parent))
try:
    from proof import Proof
except ImportError:  # a job of the tree around this folder
    from training import Proof


class Named(torch.nn.Module):
    """Stands for a module that has these parameters."""

    def __init__(self, named):
        super().__init__()
        self.__dict__["named"] = dict(named)

    def named_parameters(self):
        return self.named.items()


samplers = []
gives_modules = hasattr(Proof, "follow")
given, ended = Proof.follow if gives_modules else Proof.compare, Proof.end_step


def sampled(self, what, *prefix):
    samplers.append(VarSampler(what if gives_modules else Named(what), "".join(prefix) or "model"))
    return given(self, what, *prefix)


def ended_and_begun(self):
    ended(self)
    start_step()


setattr(Proof, given.__name__, sampled)
Proof.end_step = ended_and_begun
register_optimizer_step_post_hook(lambda *_: [each.dump_sample() for each in samplers])
start_step()
runpy.run_path(sys.argv[0], run_name="__main__")
