// Micro-batches of pictures whose class is the rank's, and how far tensors differ. For tests.
#pragma once

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "models/batch_norm.h"
#include "models/data.h"

namespace gradsync::test {

// Micro-batch number `index` of `rank`: `examples` pictures of 8 x 8 pixels.
inline models::Batch pictures_of(int rank, int world_size, int index, int examples = 4) {
  models::DataOptions options;
  options.rank = rank;
  options.world_size = world_size;
  options.micro_batch_size = examples;
  options.sequence_length = 64;
  options.pictures = true;
  options.class_skew = true;
  models::DataLoader data(options, index + 1);
  for (int i = 0; i < index; ++i) data.next();
  return data.next();
}

// The batches one after the other, as one process would see them.
inline models::Batch together(const std::vector<models::Batch>& batches) {
  std::vector<at::Tensor> ids;
  std::vector<at::Tensor> labels;
  for (const models::Batch& batch : batches) {
    ids.push_back(batch.input_ids);
    labels.push_back(batch.labels);
  }
  return {at::cat(ids), at::Tensor(), at::cat(labels)};
}

inline models::Batch pictures_of_all(int world_size, int index) {
  std::vector<models::Batch> batches;
  for (int rank = 0; rank < world_size; ++rank) {
    batches.push_back(pictures_of(rank, world_size, index));
  }
  return together(batches);
}

// The largest difference of two elements, as a share of the largest of `wanted`.
inline double relative_difference(const at::Tensor& seen, const at::Tensor& wanted) {
  const double scale = wanted.detach().abs().max().item<double>();
  return (seen - wanted).detach().abs().max().item<double>() / std::max(scale, 1e-30);
}

inline void expect_same_statistics(const models::Model& seen, const models::Model& wanted,
                                   double tolerance) {
  const auto layers = models::batch_norms_of(seen);
  const auto wanted_layers = models::batch_norms_of(wanted);
  ASSERT_EQ(layers.size(), wanted_layers.size());
  for (std::size_t i = 0; i < layers.size(); ++i) {
    EXPECT_LT(relative_difference(layers[i]->running_mean, wanted_layers[i]->running_mean),
              tolerance)
        << "layer " << i;
    EXPECT_LT(relative_difference(layers[i]->running_var, wanted_layers[i]->running_var), tolerance)
        << "layer " << i;
    EXPECT_EQ(layers[i]->num_batches_tracked.item<std::int64_t>(),
              wanted_layers[i]->num_batches_tracked.item<std::int64_t>())
        << "layer " << i;
  }
}

}  // namespace gradsync::test
