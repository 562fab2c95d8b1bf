#include "harness/predict/link_fit.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include "harness/base/errors.h"
#include "harness/stats/least_squares.h"

namespace gradsync::predict {
namespace {

constexpr std::size_t kUnknowns = 3;  // 1 / rate, latency, host
enum Sought { kInverseRate, kLatency, kHost };
// Explanations with errors this close are equally good; the first one counts: the rate alone.
constexpr double kSameError = 1e-12;
using Row = std::array<double, kUnknowns>;
using Solution = std::array<double, kUnknowns>;

// How the library goes about what a ring could do with less.
struct Ways {
  bool scatters_by_all_reduce = false;
  bool gathers_half_late = false;
};

Network network_of(const MeasuredCollective& row, const Link& link, double collective_s,
                   const Ways& ways) {
  Network network;
  network.nodes = row.nodes;
  network.ranks_per_node = row.ranks_per_node;
  (row.nodes > 1 ? network.inter : network.intra) = link;
  network.host.collective_s = collective_s;
  network.scatters_by_all_reduce = ways.scatters_by_all_reduce;
  network.gather_pause = ways.gathers_half_late ? kGlooPause : 0;
  return network;
}

// What each unknown is multiplied by.
Row coefficients(const MeasuredCollective& row, const Ways& ways) {
  const CollectiveTime time =
      collective_time(network_of(row, {1, 1}, 1, ways), Group::World, row.operation, row.bytes);
  return {time.wire_s, time.latency_s, time.host_s};
}

double length_of(const std::vector<Row>& rows, Sought column) {
  double sum = 0;
  for (const Row& row : rows) sum += row[column] * row[column];
  return std::sqrt(sum);
}

// Returns what leaves least over with `used`, the others 0: the right side is 1, since errors are
// relative. Columns get one length, so that none is small for its unit. Nothing where they depend
// on each other.
std::optional<Solution> solve(const std::vector<Row>& rows, const std::vector<Sought>& used) {
  std::vector<double> lengths;
  for (const Sought each : used) lengths.push_back(length_of(rows, each));
  if (std::ranges::min(lengths) == 0) return std::nullopt;
  stats::Equations equations(used.size());
  for (const Row& row : rows) {
    std::vector<double> columns;
    for (std::size_t i = 0; i < used.size(); ++i) columns.push_back(row[used[i]] / lengths[i]);
    equations.add(columns, 1);
  }
  const stats::Fit fit = equations.solve();
  Solution solution{};
  for (std::size_t i = 0; i < used.size(); ++i) {
    if (fit.estimates[i].kind != stats::FittedWeight::Kind::Known) return std::nullopt;
    solution[used[i]] = fit.estimates[i].weight / lengths[i];
  }
  return solution;
}

double squared_error(const std::vector<Row>& rows, const Solution& solution) {
  double sum = 0;
  for (const Row& row : rows) {
    double error = -1;
    for (std::size_t i = 0; i < kUnknowns; ++i) error += row[i] * solution[i];
    sum += error * error;
  }
  return sum;
}

struct Fitted {
  Solution solution{};
  bool is_latency_apart = false;
  double squared_error = std::numeric_limits<double>::infinity();
};

Fitted best_fit(const std::vector<Row>& rows) {
  Fitted best;
  best.is_latency_apart = solve(rows, {kLatency, kHost}).has_value();
  std::vector<std::vector<Sought>> subsets{{kInverseRate}, {kHost}, {kInverseRate, kHost}};
  if (best.is_latency_apart) {
    for (const auto& more : std::vector(subsets)) {
      subsets.push_back(more);
      subsets.back().push_back(kLatency);
    }
    subsets.push_back({kLatency});
  }
  for (const auto& used : subsets) {
    const auto solution = solve(rows, used);
    if (!solution || std::ranges::any_of(*solution, [](double x) { return x < 0; })) continue;
    const double error = squared_error(rows, *solution);
    if (error >= best.squared_error - kSameError) continue;
    best.solution = *solution;
    best.squared_error = error;
  }
  return best;
}

Fitted fit(std::span<const MeasuredCollective> measured, const Ways& ways) {
  std::vector<Row> rows;
  for (const MeasuredCollective& row : measured) {
    rows.push_back(coefficients(row, ways));
    for (double& value : rows.back()) value /= row.seconds;
  }
  return best_fit(rows);
}

CollectiveTime time_of(const FittedLink& link, const MeasuredCollective& row) {
  const Ways ways{link.scatters_by_all_reduce.value_or(false),
                  link.gathers_half_late.value_or(false)};
  const Network network =
      network_of(row, {link.bytes_per_s, link.latency_s}, link.collective_s, ways);
  return collective_time(network, Group::World, row.operation, row.bytes);
}

std::optional<double> root_mean_square(const std::vector<double>& errors) {
  constexpr std::size_t kEnough = 3;
  if (errors.size() < kEnough) return std::nullopt;
  double sum = 0;
  for (const double error : errors) sum += error * error;
  return std::sqrt(sum / static_cast<double>(errors.size()));
}

void add_doubts(FittedLink& link, std::span<const MeasuredCollective> rows) {
  constexpr double kOfTheWire = 0.8;
  std::vector<double> of_rate;
  std::vector<double> of_host;
  for (const MeasuredCollective& row : rows) {
    const CollectiveTime time = time_of(link, row);
    const double missed_s = row.seconds - time.total_s();
    if (time.wire_s >= kOfTheWire * time.total_s()) {
      of_rate.push_back(missed_s / time.total_s());
    } else {
      of_host.push_back(missed_s / (time.latency_s + time.host_s));
    }
  }
  link.rate_doubt = root_mean_square(of_rate);
  link.host_doubt = root_mean_square(of_host);
}

}  // namespace

double predicted_s(const FittedLink& link, const MeasuredCollective& row) {
  return time_of(link, row).total_s();
}

FittedLink fit_link(std::span<const MeasuredCollective> rows) {
  Ways ways;
  Fitted best;
  for (const Ways& tried : {Ways{}, Ways{true, false}, Ways{false, true}, Ways{true, true}}) {
    const Fitted fitted = fit(rows, tried);
    if (fitted.squared_error >= best.squared_error) continue;
    best = fitted;
    ways = tried;
  }
  if (!(best.solution[kInverseRate] > 0)) {
    throw ConfigError("the times of collectives tell no rate: expected larger messages, too");
  }
  const auto is_there = [&](Operation operation) {
    return std::ranges::any_of(
        rows, [&](const MeasuredCollective& row) { return row.operation == operation; });
  };
  FittedLink link;
  link.bytes_per_s = 1 / best.solution[kInverseRate];
  link.latency_s = best.solution[kLatency];
  link.collective_s = best.solution[kHost];
  link.is_latency_apart = best.is_latency_apart;
  if (is_there(Operation::ReduceScatter)) link.scatters_by_all_reduce = ways.scatters_by_all_reduce;
  if (is_there(Operation::AllGather)) link.gathers_half_late = ways.gathers_half_late;
  link.error_rms = std::sqrt(best.squared_error / static_cast<double>(rows.size()));
  add_doubts(link, rows);
  return link;
}

}  // namespace gradsync::predict
