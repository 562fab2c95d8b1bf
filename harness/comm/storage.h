// Storage that comes and goes under tensors which stay.
#pragma once

#include <ATen/core/Tensor.h>

namespace gradsync::comm {

// Frees the memory of `tensor` and of every view of it; their shapes remain. Also where somebody
// else still holds the tensor: gloo's threads keep a reference a moment longer than its work takes.
void release_storage(const at::Tensor& tensor);

// Gives a released tensor, contiguous and at offset 0, memory again. Its values are undefined.
void refill_storage(const at::Tensor& tensor);

}  // namespace gradsync::comm
