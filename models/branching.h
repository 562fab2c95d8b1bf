// A small perceptron with two branches, of which each micro-batch takes one, as its data says. The
// parameters of the other branch are then unused, and get no gradient: this shows what DDP does
// with and without find_unused_parameters.
//
// The first token decides: even takes the left branch, odd the right one. So random data sends the
// ranks different ways in one micro-batch, and a rank different ways in those of one step.
#pragma once

#include "models/model.h"
#include "models/suite.h"

namespace gradsync::models {

class Branching : public Model {
 public:
  // Parameters are drawn from `seed` alone, and are the same for both kinds.
  Branching(UntakenBranch untaken, std::uint64_t seed, at::Device device);

  // Uses input_ids [micro_batch, sequence_length] as Mlp does, and labels.
  // Blocks: until the device has the first token.
  at::Tensor loss(const Batch& batch) override;
  std::int64_t vocabulary_size() const override;
  std::string reads_back() const override { return "the first token, which chooses the branch"; }

 private:
  struct Layer {
    at::Tensor weight, bias;
  };
  Layer make_layer(const std::string& name, std::int64_t inputs, std::int64_t outputs,
                   at::Generator& generator, at::Device device);

  UntakenBranch untaken_;
  Layer trunk_, left_, right_, head_;
};

// Returns whether a micro-batch takes the left branch.
bool takes_left(const Batch& batch);

}  // namespace gradsync::models
