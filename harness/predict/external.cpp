#include "harness/predict/external.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "harness/base/errors.h"
#include "harness/base/fields.h"
#include "harness/base/json_fields.h"
#include "harness/base/units.h"
#include "harness/plan/strategies.h"
#include "harness/predict/setting.h"

namespace gradsync::predict {

constexpr auto names_of(const Role*) {
  return std::array{std::pair{Role::GivesCompute, "gives compute"},
                    std::pair{Role::GivesIntraRate, "gives intra rate"},
                    std::pair{Role::GivesInterRate, "gives inter rate"},
                    std::pair{Role::Predicted, "predicted"}};
}

constexpr auto names_of(const PublishedUnit*) {
  return std::array{std::pair{PublishedUnit::SamplesPerSecond, "samples/s"},
                    std::pair{PublishedUnit::SamplesPerSecondAndRank, "samples/s/rank"},
                    std::pair{PublishedUnit::SecondsPerStep, "s/step"}};
}

constexpr auto fields_of(const ExternalRow*) {
  return std::tuple{field("label", &ExternalRow::label),
                    field("role", &ExternalRow::role),
                    field("value", &ExternalRow::value),
                    field("nodes", &ExternalRow::nodes),
                    field("ranks_per_node", &ExternalRow::ranks_per_node),
                    field("strategy", &ExternalRow::strategy).later(),
                    field("accumulation_steps", &ExternalRow::accumulation_steps).later(),
                    field("is_hybrid", &ExternalRow::is_hybrid).later()};
}

constexpr auto fields_of(const External*) {
  return std::tuple{constant("schema", "gradsync.external/1"),
                    field("name", &External::name),
                    field("address", &External::address),
                    field("about", &External::about),
                    field("wrapper", &External::wrapper),
                    field("unit", &External::unit),
                    field("micro_batch_size", &External::micro_batch_size),
                    field("parameters", &External::parameters),
                    field("layers", &External::layers),
                    field("embedding_share", &External::embedding_share).later(),
                    field("bytes_per_element", &External::bytes_per_element),
                    field("intra_rate", &External::intra_rate).spared(),
                    field("inter_rate", &External::inter_rate).spared(),
                    field("assumed", &External::assumed),
                    field("rows", &External::rows)};
}

namespace {

constexpr double kForwardShare = 1.0 / 3;
constexpr double kBitsOfAByte = 8;
constexpr int kTensorsPerLayer = 4;

constexpr double kCostsNothing = 1e24;  // bytes/s

// What the given rows tell; before they do, a first guess.
struct Unknowns {
  double micro_batch_s = 1;
  double intra_bytes_per_s = kCostsNothing;
  double inter_bytes_per_s = kCostsNothing;
};

StepModel model_of(const External& external, double micro_batch_s) {
  StepModel model;
  model.name = external.name;
  const double layers = external.layers;
  const auto parameters = static_cast<double>(external.parameters);
  const auto of_a_layer = static_cast<std::int64_t>(parameters * (1 - external.embedding_share) /
                                                    layers / kTensorsPerLayer);
  if (external.embedding_share > 0) {
    const auto of_embeddings = static_cast<std::int64_t>(parameters * external.embedding_share);
    model.layers.push_back({"embeddings", 0, 0, {of_embeddings}});
  }
  const std::vector<std::int64_t> tensors(kTensorsPerLayer, std::max<std::int64_t>(1, of_a_layer));
  for (int i = 0; i < external.layers; ++i) {
    model.layers.push_back({fmt::format("layer {}", i + 1), micro_batch_s * kForwardShare / layers,
                            micro_batch_s * (1 - kForwardShare) / layers, tensors});
  }
  return model;
}

Network network_of(const ExternalRow& row, const Unknowns& unknowns) {
  Network network;
  network.nodes = row.nodes;
  network.ranks_per_node = row.ranks_per_node;
  network.intra = Link{unknowns.intra_bytes_per_s, 0};
  network.inter = Link{unknowns.inter_bytes_per_s, 0};
  return network;
}

StepOptions options_of(const External& external, const ExternalRow& row) {
  StepOptions options;
  options.wrapper = external.wrapper;
  options.syncs = plan::declared_syncs(external.wrapper, row.strategy, row.accumulation_steps);
  options.gradient_bytes = external.bytes_per_element;
  options.parameter_bytes = external.bytes_per_element;
  options.is_hybrid = row.is_hybrid;
  return options;
}

double step_s(const External& external, const ExternalRow& row, const Unknowns& unknowns) {
  return step_schedule(model_of(external, unknowns.micro_batch_s), network_of(row, unknowns),
                       options_of(external, row))
      .end_s();
}

// The unit and seconds are each other's reciprocals, but for s/step: the same either way.
double converted(const External& external, const ExternalRow& row, double value) {
  if (external.unit == PublishedUnit::SecondsPerStep) return value;
  const double of_a_rank = external.micro_batch_size * row.accumulation_steps;
  const bool of_all = external.unit == PublishedUnit::SamplesPerSecond;
  return of_a_rank * (of_all ? row.world_size() : 1) / value;
}

double* unknown_of(Role role, Unknowns& unknowns) {
  switch (role) {
    case Role::GivesCompute:
      return &unknowns.micro_batch_s;
    case Role::GivesIntraRate:
      return &unknowns.intra_bytes_per_s;
    case Role::GivesInterRate:
      return &unknowns.inter_bytes_per_s;
    case Role::Predicted:
      break;
  }
  return nullptr;
}

// Halves the logarithm's interval until the row's own step comes out, or an end is reached.
void solve(const External& external, const ExternalRow& row, Unknowns& unknowns) {
  double* const unknown = unknown_of(row.role, unknowns);
  const bool grows = row.role == Role::GivesCompute;
  const double wanted_s = converted(external, row, row.value);
  double low = grows ? 1e-9 : 1e3;
  double high = grows ? 1e6 : kCostsNothing;
  constexpr int kHalvings = 64;
  for (int i = 0; i < kHalvings; ++i) {
    *unknown = std::sqrt(low * high);
    const bool too_long = step_s(external, row, unknowns) > wanted_s;
    (too_long == grows ? high : low) = *unknown;
  }
}

double payload_bytes_per_s(const std::string& rate) {
  return parse_rate_bits_per_s(rate) * LinkConstants{}.payload_share / kBitsOfAByte;
}

// Each given row once more until none changes what another one told.
Unknowns solved(const External& external) {
  Unknowns unknowns;
  if (external.intra_rate) unknowns.intra_bytes_per_s = payload_bytes_per_s(*external.intra_rate);
  if (external.inter_rate) unknowns.inter_bytes_per_s = payload_bytes_per_s(*external.inter_rate);
  constexpr int kMostRounds = 25;
  constexpr double kSettled = 1e-9;
  for (int round = 0; round < kMostRounds; ++round) {
    const double before_s = unknowns.micro_batch_s;
    for (const ExternalRow& row : external.rows) {
      if (row.role != Role::Predicted) solve(external, row, unknowns);
    }
    if (std::abs(unknowns.micro_batch_s / before_s - 1) < kSettled) break;
  }
  return unknowns;
}

void refuse_unless_positive(const std::string& path, const std::string& field, double value) {
  if (value > 0) return;
  throw ConfigError(path, field, fmt::format("{}", value), "a number above 0");
}

void check(const External& external, const std::string& path) {
  refuse_unless_positive(path, "micro_batch_size", external.micro_batch_size);
  refuse_unless_positive(path, "parameters", static_cast<double>(external.parameters));
  refuse_unless_positive(path, "layers", external.layers);
  refuse_unless_positive(path, "bytes_per_element",
                         static_cast<double>(external.bytes_per_element));
  if (!(external.embedding_share >= 0 && external.embedding_share < 1)) {
    throw ConfigError(path, "embedding_share", fmt::format("{}", external.embedding_share),
                      "a share, at least 0 and below 1");
  }
  bool has_compute = false;
  for (const ExternalRow& row : external.rows) {
    for (const double value :
         {row.value, 1.0 * row.nodes, 1.0 * row.ranks_per_node, 1.0 * row.accumulation_steps}) {
      refuse_unless_positive(path, "rows", value);
    }
    plan::declared_syncs(external.wrapper, row.strategy, row.accumulation_steps);
    has_compute = has_compute || row.role == Role::GivesCompute;
  }
  if (!has_compute) {
    throw ConfigError(path, "rows", "none that gives it", "a row with the role \"gives compute\"");
  }
}

}  // namespace

External read_external(const std::string& path) {
  const auto external = read_only_fields<External>(read_json_file(path), path);
  check(external, path);
  return external;
}

std::vector<PredictedRow> predict_external(const External& external, const Doubt& doubt) {
  const Unknowns unknowns = solved(external);
  const StepModel model = model_of(external, unknowns.micro_batch_s);
  std::vector<PredictedRow> predicted;
  for (const ExternalRow& row : external.rows) {
    if (row.role != Role::Predicted) continue;
    const Prediction of =
        predict_step(model, network_of(row, unknowns), options_of(external, row), doubt);
    const double one = converted(external, row, of.interval90.lo);
    const double other = converted(external, row, of.interval90.hi);
    predicted.push_back(
        {row, converted(external, row, of.step_s), {std::min(one, other), std::max(one, other)}});
  }
  return predicted;
}

}  // namespace gradsync::predict
