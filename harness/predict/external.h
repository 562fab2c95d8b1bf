// What others published of their own machines: which of their numbers are given to the model, and
// which it has to predict.
//
// Nobody publishes layer times. So a model is as many equal layers as it has, forward a third of a
// micro-batch; and of the rows of one set-up, one gives what a micro-batch computes, and, where
// the link's rate is not stated, one more gives that: each is what makes the model's step the
// row's. The others are predicted, and their values go into nothing. Results/external has the files
// and the page.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "harness/predict/prediction.h"

namespace gradsync::predict {

// What a row is there for.
enum class Role {
  GivesCompute,    // of a micro-batch
  GivesIntraRate,  // of a rank's link inside its node
  GivesInterRate,  // of a node's link
  Predicted
};

enum class PublishedUnit { SamplesPerSecond, SamplesPerSecondAndRank, SecondsPerStep };

struct ExternalRow {
  std::string label;
  Role role = Role::Predicted;
  double value = 0;  // in the unit of the file
  int nodes = 1;
  int ranks_per_node = 1;
  std::string strategy = "baseline";
  int accumulation_steps = 1;
  bool is_hybrid = false;  // of fsdp

  int world_size() const { return nodes * ranks_per_node; }
};

struct External {
  std::string name;
  std::string address;  // where it was published
  std::string about;    // the set-up, in its publisher's terms
  std::string wrapper = "ddp";
  PublishedUnit unit = PublishedUnit::SamplesPerSecond;
  double micro_batch_size = 1;  // in samples, of a rank
  std::int64_t parameters = 0;
  int layers = 1;              // equal ones
  double embedding_share = 0;  // of the parameters that are in front of them: ready last, and
                               // hardly any computation; 0: all are in the layers
  std::int64_t bytes_per_element = 4;     // on the wire
  std::optional<std::string> intra_rate;  // a line's, where one is stated
  std::optional<std::string> inter_rate;
  std::vector<std::string> assumed;  // what the publisher does not say
  std::vector<ExternalRow> rows;
};

// Errors: ConfigError with file, field, got and expected; also where no row gives the compute.
External read_external(const std::string& path);

struct PredictedRow {
  ExternalRow row;
  double predicted = 0;        // in the file's unit
  stats::Interval interval90;  // in the file's unit
  double error() const { return predicted / row.value - 1; }
};

// Returns the rows to be predicted, in their order.
std::vector<PredictedRow> predict_external(const External& external, const Doubt& doubt);

}  // namespace gradsync::predict
