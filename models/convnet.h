// A small convolutional network with batch normalization, for pictures of a cat, a dog or a car.
// What it is for: its layers look at the whole micro-batch at once, so what a rank computes depends
// on which examples it shares a batch with (sync/sync_batch_norm.h).
#pragma once

#include <memory>
#include <vector>

#include "models/model.h"

namespace gradsync::models {

class ConvNet : public Model {
 public:
  // Parameters are drawn from `seed` alone.
  ConvNet(std::uint64_t seed, at::Device device);

  // Uses input_ids [micro_batch, pixels] as gray pictures, row by row, and labels.
  at::Tensor loss(const Batch& batch) override;

  // Returns [micro_batch, classes]. Any number of pixels will do: a picture is a square, no smaller
  // than 8 x 8, and black where pixels are missing.
  at::Tensor logits(const Batch& batch);

  std::vector<Unit> units() const override;  // convolution, normalization, relu: a layer each
  std::int64_t vocabulary_size() const override;
  bool reads_pictures() const override { return true; }

 private:
  class Layer;
  struct Head;
  std::vector<std::shared_ptr<Layer>> layers_;
  std::shared_ptr<Head> head_;
};

}  // namespace gradsync::models
