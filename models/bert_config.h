// The sizes of a BERT.   No torch.
#pragma once

#include <cstdint>

namespace gradsync::models {

// Defaults: bert-base-cased.
struct BertConfig {
  std::int64_t layers = 12;
  std::int64_t hidden = 768;
  std::int64_t heads = 12;
  std::int64_t intermediate = 3072;
  std::int64_t vocabulary = 28996;
  std::int64_t positions = 512;
  std::int64_t token_types = 2;
  std::int64_t labels = 2;
  double dropout = 0.1;  // hidden, attention and classifier alike
  double layer_norm_eps = 1e-12;
  double initializer_range = 0.02;
};

}  // namespace gradsync::models
