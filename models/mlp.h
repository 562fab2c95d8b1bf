// A small perceptron over bag-of-words inputs: real arithmetic in a millisecond, for smoke tests
// and for steps in which communication dominates.
#pragma once

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

}  // namespace gradsync::models
