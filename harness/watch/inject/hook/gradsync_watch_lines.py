"""Tells the preloaded library which lines of the job led to an operator, where gradsync asks for
it: a number for each stack of them, which the file of this process explains.
"""

import ctypes
import functools
import linecache
import os
import sys

import gradsync_watch_recording as recording

numbers = {}  # by the lines of a stack


def job_lines():
    """Yields file and line of the job's own functions that run on this thread, the innermost
    first.
    """
    frame = sys._getframe(1)
    while frame is not None:
        if not recording.is_library(frame.f_code.co_filename):
            yield frame.f_code.co_filename, frame.f_lineno or frame.f_code.co_firstlineno
        frame = frame.f_back


@ctypes.CFUNCTYPE(ctypes.c_int)
def number_of_stack():
    """0: no function of the job's runs on this thread."""
    stack = tuple(dict.fromkeys(job_lines()))
    if not stack:
        return 0
    if stack not in numbers:
        numbers[stack] = len(numbers) + 1
        lines = [
            {"file": file, "line": line, "text": linecache.getline(file, line).strip()}
            for file, line in stack
        ]
        recording.writer.write("work_stack", number=numbers[stack], lines=lines)
    return numbers[stack]


@functools.cache
def start():
    if "GRADSYNC_WATCH_WORK_LINES" in os.environ:
        library = ctypes.CDLL(os.environ["GRADSYNC_WATCH_LIBRARY"], mode=os.RTLD_NOLOAD)
        library.gradsync_find_stacks(number_of_stack)


@recording.guarded
def after_step(optimizer, args, kwargs):
    start()
