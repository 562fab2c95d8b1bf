// A small perceptron over bag-of-words inputs: real arithmetic in a millisecond, for smoke tests
// and for steps in which communication dominates.
#pragma once

#include <ATen/ATen.h>

#include "models/model.h"

namespace gradsync::models {

class Mlp : public Model {
 public:
  // Parameters are drawn from `seed` alone.
  Mlp(std::uint64_t seed, at::Device device);
  // Uses input_ids [micro_batch, sequence_length] as numbers, folded to 64 features, and labels.
  at::Tensor loss(const Batch& batch) override;
  std::vector<Unit> units() const override;  // one per linear layer
  std::optional<std::vector<std::int64_t>> unit_output_shape(std::size_t unit,
                                                             const Batch& batch) const override;
  std::int64_t vocabulary_size() const override;

 private:
  std::vector<at::Tensor> weights_;
  std::vector<at::Tensor> biases_;
};

// Returns how often each feature occurs in each example: [micro_batch, features], of the type and
// on the device of `like`. `ids`: [micro_batch, sequence_length] from 0 to `features`, exclusive.
inline at::Tensor token_counts(const at::Tensor& ids, std::int64_t features,
                               const at::TensorOptions& like) {
  return at::zeros({ids.size(0), features}, like).scatter_add(1, ids, at::ones(ids.sizes(), like));
}

}  // namespace gradsync::models
