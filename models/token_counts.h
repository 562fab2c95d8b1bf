// A batch of token ids as a bag of words, for perceptrons.
#pragma once

#include <ATen/ATen.h>

namespace gradsync::models {

// Returns how often each feature occurs in each example: [micro_batch, features], of the type and
// on the device of `like`. `ids`: [micro_batch, sequence_length] from 0 to `features`, exclusive.
inline at::Tensor token_counts(const at::Tensor& ids, std::int64_t features,
                               const at::TensorOptions& like) {
  return at::zeros({ids.size(0), features}, like).scatter_add(1, ids, at::ones(ids.sizes(), like));
}

}  // namespace gradsync::models
