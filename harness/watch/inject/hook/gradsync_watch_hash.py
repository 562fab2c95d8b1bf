"""Bit hashes of tensors, which change with any one bit. Equal hashes of two ranks mean equal
tensors, but for one chance in 2**32.

On the CPU it is zlib's CRC, which makes no tensor. On a GPU it is computed there, in parts that fit
below the most that the process has held: no peak that is reported grows. Where there is no such
room, the parts are computed on the host.
"""

import contextlib
import ctypes
import functools
import os
import zlib

from gradsync_watch_sketch import torch, unseen_by_the_job

ODD, SECOND_ODD = -0x61C8864680B583EB, -0x4B47D0C5A5B5D1AB  # 64-bit, from splitmix64's kind
PART, LEAST_PART = 2**20, 2**12  # numbers at once
SAMPLE = 4
BYTES_OF_ONE = 40  # while one number is hashed: five of 64 bits


def has_values(tensor):
    """GPUs of paper (harness/paper/standins.h) compute nothing: what a tensor holds there is no
    value of the job's."""
    return tensor.device.type != "cuda" or "GRADSYNC_PAPER" not in os.environ


def is_hashable(tensor):
    """Whether its memory is all its own, in one piece, and has values."""
    kinds = (torch().Tensor, torch().nn.Parameter)
    is_plain = type(tensor) in kinds or type(tensor).__name__ == "FlatParameter"
    return (
        is_plain
        and tensor.layout == torch().strided
        and tensor.device.type in ("cpu", "cuda")
        and has_values(tensor)
        and tensor.numel() > 0
        and torch().ops.aten.is_non_overlapping_and_dense(tensor)
    )


def bytes_on_host(tensor):
    count = tensor.numel() * tensor.element_size()
    return memoryview((ctypes.c_char * count).from_address(tensor.data_ptr())).cast("B")


def hash_of(tensor):
    """A number of up to 64 bits."""
    if tensor.device.type == "cpu":
        return zlib.crc32(bytes_on_host(tensor))
    with unseen_by_the_job():
        return hash_in_parts(tensor)


def sample_of(tensor):
    """A few of its numbers, from its middle: by how much two ranks differ, where they do."""
    row = in_one_row(tensor)
    middle = row.numel() // 2
    return [float(number) for number in row[middle : middle + SAMPLE].tolist()]


def is_constant(tensor):
    """Whether all of its elements are alike."""
    if tensor.device.type == "cpu":
        data, size = bytes_on_host(tensor), tensor.element_size()
        return data[size:] == data[:-size]
    with unseen_by_the_job():
        kinds = {1: torch().uint8, 2: torch().int16, 4: torch().int32, 8: torch().int64}
        lowest, highest = torch().aminmax(in_one_row(tensor).view(kinds[tensor.element_size()]))
        return bool(lowest == highest)


def in_one_row(tensor):
    """Its elements in the order of memory."""
    return tensor.detach().as_strided((tensor.numel(),), (1,), tensor.storage_offset())


@functools.cache
def hardware_of(device):
    """What computes there: "NVIDIA H100", "AMD EPYC ..."; "" where it is not known."""
    if device.type == "cuda":
        return torch().cuda.get_device_name(device)
    with contextlib.suppress(OSError), open("/proc/cpuinfo", encoding="utf-8") as lines:
        names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
        return names[0] if names else ""
    return ""


def words_of(tensor):
    """Its memory as integers of 32 bits, or of 8 where it does not divide by 4."""
    count = tensor.numel() * tensor.element_size()
    return in_one_row(tensor).view(torch().int32 if count % 4 == 0 else torch().uint8)


def hash_in_parts(tensor):
    words = words_of(tensor)
    size = part_size(words)
    total = 0
    for first in range(0, words.numel(), size or PART):
        part = words[first : first + (size or PART)]
        total += mixed(part if size else part.cpu(), first)
    return total % 2**64


def part_size(words):
    """How many numbers can be hashed at once without a new peak; 0: not even a few."""
    if not words.is_cuda:
        return PART
    cuda = torch().cuda
    room = cuda.max_memory_allocated(words.device) - cuda.memory_allocated(words.device)
    size = min(PART, room // BYTES_OF_ONE)
    return size if size >= LEAST_PART else 0


def mixed(words, first):
    """The sum over `words`, of which the first has place `first`, of a bijection of each."""
    numbers = words.to(torch().int64)
    numbers += torch().arange(first, first + words.numel(), device=words.device) * ODD
    numbers ^= numbers >> 29
    numbers *= SECOND_ODD
    numbers ^= numbers >> 32
    return numbers.sum().item()
