"""Has torch.profiler record a few steps of a job that uses a GPU, for `gradsync watch --seconds`:
NCCL does not report when a collective ended, and the kernels in a trace do. The trace is a file of
the watched folder, which harness/watch/read/foreign/profiled_steps.h reads.

Steps are counted by the first optimizer that steps. FIRST of them pass: DDP arranges its buckets,
and libraries choose their kernels. The first of the RECORDED ones does not count: the profiler
begins, and the GPU has nothing queued.

The job's own profiler comes first: where it has one, nothing is recorded, and what was is dropped.
What goes wrong ends the recording alone, with a line that says so.
"""

import contextlib
import functools
import os
import sys
import threading
import warnings
import weakref

import gradsync_watch_recording as recording

FIRST, RECORDED = 3, 4
FEWEST = 2  # of these, where they take longer than MOST_S
MOST_S = 60
MOST_BYTES = 256 * 2**20  # of the trace; a larger one is dropped
TOOL = "CUDA_INJECTION64_PATH"  # where NVIDIA's own profilers get into a process


class Refused(Exception):
    """There are no seconds, for this reason."""


def refuse(_, error):
    seconds.refuse(error if isinstance(error, Refused) else recording.words_of(error))


guarded = recording.guard(
    lambda: seconds is not None and not seconds.is_over and recording.writer.is_on, refuse
)


def check_gpu():
    torch = recording.torch
    cuda = sys.modules.get("torch.cuda")
    if cuda is None or not cuda.is_initialized():
        raise Refused("the job uses no GPU; seconds of gloo need no --seconds")
    if os.environ.get(TOOL):
        raise Refused(f"another profiler is in the job ({TOOL} is set)")
    if torch.profiler.ProfilerActivity.CUDA not in torch.profiler.supported_activities():
        raise Refused("this torch's profiler cannot record a GPU")


class Seconds:
    """The recording of this process."""

    def __init__(self, folder):
        self.folder = folder
        self.optimizer, self.ended = None, 0
        self.profile, self.begun_ns, self.thread = None, 0, 0
        self.is_over, self.is_calling = False, False

    def step_ended(self, optimizer):
        if self.optimizer is None:
            self.optimizer = weakref.ref(optimizer)
        if self.optimizer() is not optimizer:
            return
        self.ended += 1
        if self.ended == FIRST:
            self.begin()
        elif self.profile is not None and self.is_enough():
            self.end()

    def is_enough(self):
        recorded = self.ended - FIRST
        is_late = recording.now_ns() - self.begun_ns > MOST_S * 10**9
        return recorded >= RECORDED or (recorded >= FEWEST and is_late)

    def begin(self):
        check_gpu()
        torch = recording.torch
        if torch.autograd._profiler_enabled():
            self.see_jobs_profiler()
        if torch._C._current_graph_task_id() != -1:
            raise Refused("an optimizer of the job steps within backward")
        activities = torch.profiler.ProfilerActivity
        with self.calling():
            self.profile = torch.profiler.profile(activities=[activities.CPU, activities.CUDA])
            self.profile.start()
        self.begun_ns, self.thread = recording.now_ns(), threading.get_ident()

    def end(self):
        if threading.get_ident() != self.thread:
            raise Refused("the job's steps end on several threads")
        end_ns = recording.now_ns()
        path = os.path.join(self.folder, f"seconds-{os.getpid()}.json")
        part = f"{path}.part"
        with self.calling():
            self.profile.stop()
            self.profile.export_chrome_trace(part)
        self.profile, self.is_over = None, True
        if os.path.getsize(part) > MOST_BYTES:
            os.remove(part)
            raise Refused(f"the trace of {RECORDED} steps is larger than {MOST_BYTES >> 20} MiB")
        os.rename(part, path)
        recording.writer.write("profiled", start_ns=self.begun_ns, end_ns=end_ns)

    @contextlib.contextmanager
    def calling(self):
        """While it is entered, calls of the profiler are ours, and the job hears none of its
        warnings.
        """
        self.is_calling = True
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                yield
        finally:
            self.is_calling = False

    def see_jobs_profiler(self):
        raise Refused("the job has a profiler of its own; gradsync judge reads its traces")

    def refuse(self, reason):
        profile, self.profile, self.is_over = self.profile, None, True
        recording.writer.fault(f"no seconds of its GPU: {reason}")
        if profile is not None:
            with self.calling(), contextlib.suppress(Exception):
                profile.stop()


seconds = None


def start(folder, wish):
    """Records where `wish` is not empty."""
    global seconds
    seconds = Seconds(folder) if wish else None


def forget():
    """In the child of a fork, which may be a rank."""
    if seconds is not None:
        start(seconds.folder, "as its parent")


# ---- what the hook has called ----------------------------------------------------------------


@guarded
def after_step(optimizer, *_):
    seconds.step_ended(optimizer)


@guarded
def before_profiler():
    if not seconds.is_calling:
        seconds.see_jobs_profiler()


@guarded
def at_end():
    """Does not wait for the GPU, which may wait for a rank that is gone. torch ends with a signal
    where its profiler still runs.
    """
    if seconds.profile is not None:
        seconds.profile.profiler.use_device = None
    if seconds.ended > 0:
        least = FIRST + RECORDED
        raise Refused(f"the job ended after {seconds.ended} optimizer steps, and it takes {least}")


def watch_profiler(module):
    """`module`: torch.autograd.profiler, through which every profile of torch's begins."""

    def watch(name):
        original = getattr(module, name)

        @functools.wraps(original)
        def watched(*args, **kwargs):
            before_profiler()
            return original(*args, **kwargs)

        setattr(module, name, watched)

    watch("_prepare_profiler")
    watch("_enable_profiler")
