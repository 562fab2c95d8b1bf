// Micro-batches to train on: synthetic, shaped like GLUE's MRPC, or token ids from a file.
//
// MRPC's training set has 3668 sentence pairs. The synthetic set has as many examples with a length
// distribution like that of the tokenized pairs; token ids are random, since neither step time nor
// synchronization depends on their meaning. Where a model reads pictures, they are those of
// models/pictures.h: as many, and all of one size.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "models/model.h"

namespace gradsync::models {

struct DataOptions {
  int rank = 0;
  int world_size = 1;
  int micro_batch_size = 16;
  int sequence_length = 64;      // fixed: every example has it; mrpc: the longest allowed
  bool varying_lengths = false;  // mrpc: padded to the longest in the batch, as the guide's script
  std::int64_t vocabulary_size = 28996;
  bool pictures = false;    // what the synthetic set has instead of token ids
  bool class_skew = false;  // each rank sees one class alone: label rank % classes
  std::uint64_t seed = 42;
  std::string file;  // JSON Lines: {"input_ids": [...], "label": 0 or 1}
  at::Device device = at::kCPU;
};

// An endless, seeded, per-rank sequence of micro-batches; epochs reshuffle. All batches are made in
// the constructor (`batches` of them, repeated), so that next() costs nothing inside the timed
// window.
class DataLoader {
 public:
  // Errors: ConfigError for a bad data file (names line and field), for pictures of varying
  // lengths, and for class_skew where no example has this rank's label.
  DataLoader(const DataOptions& options, int batches);

  const Batch& next();
  void restart() { position_ = 0; }
  // Micro-batches of one pass over the set: ceil(examples / (world_size x micro_batch_size)).
  int batches_per_epoch() const { return batches_per_epoch_; }

 private:
  std::vector<Batch> batches_;
  std::size_t position_ = 0;
  int batches_per_epoch_ = 0;
};

}  // namespace gradsync::models
