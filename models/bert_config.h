// The sizes of a BERT, and how it attends.   No torch.
#pragma once

#include <cstdint>

namespace gradsync::models {

// As transformers' attn_implementation has it.
enum class AttentionImplementation : std::uint8_t {
  Eager,  // spelled out: two products with a softmax and dropout between them
  Sdpa  // torch's scaled_dot_product_attention, which takes a kernel that is fused where it has one
};

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
  AttentionImplementation attention = AttentionImplementation::Eager;
};

}  // namespace gradsync::models
