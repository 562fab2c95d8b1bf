// Storage that comes and goes under tensors which stay.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace gradsync::comm {

// Frees the memory of `tensor` and of every view of it; their shapes remain. Also where somebody
// else still holds the tensor: gloo's threads keep a reference a moment longer than its work takes.
void release_storage(const at::Tensor& tensor);

// Returns when tensors hold no more than `bytes`, as measure::meter() counts. For tensors that are
// torch's own and cannot be released: what its collectives pack is gone when the last thread of
// gloo has let go of it, and on a busy machine that may be many steps later. Blocks for two seconds
// at most; nothing should be held longer.
void await_release(std::int64_t bytes);

// Returns `tensor` with its memory in a storage that no other code holds. Code that still holds
// `tensor` has an empty one from now on. So the memory is freed when its new owner frees it.
at::Tensor reclaim_storage(const at::Tensor& tensor);

// Gives a released tensor, contiguous and at offset 0, memory again. Its values are undefined.
void refill_storage(const at::Tensor& tensor);

}  // namespace gradsync::comm
