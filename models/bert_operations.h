// The operations of a BERT as events of memory, and the sizes of their tensors. No torch.
#pragma once

#include <cstdint>

#include "models/bert_config.h"
#include "models/footprint.h"

namespace gradsync::models::bert {

// A linear layer and what it makes of a micro-batch, in bytes.
struct Linear {
  std::int64_t input = 0;        // [rows, in]
  std::int64_t output = 0;       // [rows, out]
  std::int64_t weight = 0;       // [out, in], and its gradient
  std::int64_t bias = 0;         // [out], likewise
  SumBuffers bias_sum = {};      // of the gradient of the bias
  bool own_are_trained = false;  // weight and bias
  std::int64_t narrow = 0;       // [rows, rank], of its low-rank update; 0: it has none
  std::int64_t a = 0;            // [rank, in], likewise
  std::int64_t b = 0;            // [out, rank], likewise
  std::int64_t element = 0;
  bool flattens = false;  // it reads [examples, length, in], as a view of [rows, in]

  bool has_update() const { return narrow > 0; }
  // If so, its input is kept.
  bool trains_anything() const { return own_are_trained || has_update(); }
};

// Sizes in bytes of the tensors that a BERT makes.
struct Sizes {
  Sizes(const BertConfig& config, const MicroBatchShape& shape, const UnitLevers& levers);

  std::int64_t element;      // of a tensor
  std::int64_t hidden;       // [examples, length, hidden]: hidden states, queries, keys, values
  std::int64_t scores;       // [examples, heads, length, length]
  std::int64_t per_token;    // [examples, length]
  std::int64_t one_example;  // [1, length, hidden]: embeddings that are the same for all
  std::int64_t vector;       // parameters and their gradients
  std::int64_t rows;         // [examples, heads, length, 1] of truth values: rows of the scores
  bool weights_are_trained;  // those of the layers and the pooler
  AttentionImplementation attention;
  Kernels kernels;

  // Returns the bytes of a dropout mask for `size` bytes: a factor for each element, or on a GPU a
  // truth value.
  std::int64_t mask(std::int64_t size) const { return kernels.are_gpus ? size / element : size; }

  Linear query;
  Linear key;
  Linear value;
  Linear attention_output;
  Linear intermediate;
  Linear output;
  Linear pooler;
  Linear classifier;
};

void dropout(const Sizes& sizes, std::int64_t size, MemoryScript& script);
void dropout_backward(const Sizes& sizes, std::int64_t size, MemoryScript& script);

void layer_norm(const Sizes& sizes, MemoryScript& script);
void layer_norm_backward(const Sizes& sizes, MemoryScript& script);

// Makes its output; its input stays.
void linear(const Linear& layer, MemoryScript& script);
// Notes that only backward needs its output from now on.
void output_goes(const Linear& layer, MemoryScript& script);
void output_saved(const Linear& layer, MemoryScript& script);

// When backward lets go of what an operation saved.
enum class LetGo {
  AfterNode,      // with the node of the graph that has it
  WithinItsTurn,  // it ran again and was handed out: before the node's gradients are summed
  AfterLastNode,  // what a unit keeps to run again: with the last node that has something of it
};

struct LinearBackward {
  bool needs_input_gradient = true;
  bool added = false;       // the input's gradient so far is there, and this is added to it
  std::int64_t input = 0;   // what the layer read, where nothing else needs it any more; else 0
  std::int64_t beside = 0;  // another tensor that is kept as long as that
  LetGo when = LetGo::AfterNode;
};

// Turns the gradient of a linear layer's output into that of its input and of what it trains.
void linear_backward(const Linear& layer, const LinearBackward& how, MemoryScript& script);

// Returns an encoder layer on its way through a micro-batch.
PassScript layer_pass(const Sizes& sizes, const UnitKind& kind);

}  // namespace gradsync::models::bert
