// Gradients cross the wire in two bytes each: a DDP communication hook that casts a bucket before
// its all_reduce and back after.
//
// The sum over the ranks is made in the small type, too. fp16 keeps 11 bits of a gradient and ends
// at 65504; bf16 keeps 8 and has the range of float32.
// Source: torch/distributed/algorithms/ddp_comm_hooks/default_hooks.py, fp16_compress_hook and
// bf16_compress_hook. torch has the first in C++ as well, c10d::FP16CompressCommHook.
#pragma once

#include <c10/core/ScalarType.h>
#include <torch/csrc/distributed/c10d/comm.hpp>

#include <memory>

namespace gradsync::sync {

// Returns the hook for one Reducer: casts a bucket to `dtype`, divides it by the number of ranks,
// so that the sum stays in range, sums it over the ranks of `group`, and casts the mean back into
// the bucket. The small copy lives from the cast to the end of its all_reduce.
std::unique_ptr<c10d::CommHookInterface> make_compress_hook(
    c10::intrusive_ptr<c10d::ProcessGroup> group, c10::ScalarType dtype);

}  // namespace gradsync::sync
