#include "harness/report/columns.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "harness/text/labels.h"

namespace gradsync::report {

using results::CellResult;
using results::LowerBound;
using results::OpCount;
using results::StepTimes;
using summary::PartView;

namespace {

template <typename Maybe>
Quantity quantity(const Maybe& value) {
  if (!value) return {};
  return *value;
}

// One number of a group of them that may not be known, such as `p5` of the times of a step.
template <typename Group, typename Number>
auto number_in(Known<Group> CellResult::*group, Number Group::*number) {
  return [group, number](const CellResult& cell) -> Quantity {
    if (!(cell.*group)) return {};
    if constexpr (std::is_same_v<Number, std::size_t>) {
      return static_cast<std::int64_t>((*(cell.*group)).*number);
    } else if constexpr (std::is_same_v<Number, std::optional<double>>) {
      return quantity((*(cell.*group)).*number);
    } else {
      return (*(cell.*group)).*number;
    }
  };
}

auto known(auto CellResult::*field) {
  return [field](const CellResult& cell) { return quantity(cell.*field); };
}

Column csv_alone(const char* name, std::function<Quantity(const CellResult&)> value) {
  return {name, "", Unit::Plain, "", std::move(value)};
}

template <typename Group>
Column end_column(const char* name, Known<Group> CellResult::*group, double stats::Interval::*end) {
  return csv_alone(name, [group, end](const CellResult& cell) -> Quantity {
    if (!(cell.*group) || !(cell.*group)->ci95) return {};
    return (*(cell.*group)->ci95).*end;
  });
}

Column step_column(const char* name, const char* head, double StepTimes::*number) {
  return {name, head, Unit::Seconds, "", number_in(&CellResult::step_s, number)};
}

// What was counted of an operation; nullptr where it was not used, or nothing is known.
const OpCount* total_of(const CellResult& cell, const std::string& op) {
  if (!cell.collectives_per_step) return nullptr;
  const auto found = cell.collectives_per_step->find(op);
  return found == cell.collectives_per_step->end() ? nullptr : &found->second;
}

Column total_column(const char* name, const char* op, std::int64_t OpCount::*total) {
  return csv_alone(name, [op, total](const CellResult& cell) -> Quantity {
    const OpCount* found = total_of(cell, op);
    return found == nullptr ? Quantity{} : found->*total;
  });
}

Column sample_column() {
  return {"", "ms/sample", Unit::Milliseconds, "ms/sample = s/step over the examples of all ranks",
          number_in(&CellResult::sample_s, &StepTimes::mean)};
}

Column idle_column() {
  return {"idle_share", "idle", Unit::Percent,
          "idle = share of a step in which a rank has nothing to compute, mean over the ranks",
          number_in(&CellResult::idle_share, &results::IdleShare::mean)};
}

Column distance_column(std::size_t steps) {
  return {"parameter_distance", "distance", Unit::Tiny,
          fmt::format("distance = |p - q| / |q| of a rank's parameters p and rank 0's q, {} from a "
                      "common start",
                      text::counted(steps, "step", "steps")),
          number_in(&CellResult::parameter_distance, &results::ParameterDistance::last)};
}

Column allocated_column() {
  return {"peak_allocated_bytes", "peak alloc.", Unit::Bytes, "",
          known(&CellResult::peak_allocated_bytes)};
}

Column vs_local_column() {
  return {"step_vs_local_statistics", "vs local", Unit::Plain,
          "vs local = s/step over that of the same row without SyncBatchNorm",
          [](const CellResult& cell) -> Quantity {
            return cell.vs_local_statistics ? quantity(*cell.vs_local_statistics) : Quantity{};
          }};
}

auto apart(double results::StatisticsSpread::*number) {
  return [number](const CellResult& cell) -> Quantity {
    if (!cell.running_statistics) return {};
    return (*cell.running_statistics).*number;
  };
}

// How far the ranks' running statistics are apart: two columns, explained with the second.
Column means_apart_column() {
  return {"running_mean_gap", "means apart", Unit::Sds, "",
          apart(&results::StatisticsSpread::mean_gap)};
}
Column variances_apart_column() {
  return {"running_variance_ratio", "variances apart", Unit::Times,
          "apart = between ranks' running statistics after a trial, in the widest channel",
          apart(&results::StatisticsSpread::variance_ratio)};
}

Column bound_column() {
  return {"lower_bound_s", "bound", Unit::Seconds, "",
          number_in(&CellResult::lower_bound, &LowerBound::step_s)};
}
Column over_bound_column() {
  return {"step_over_bound", "step / bound", Unit::Plain, "",
          number_in(&CellResult::lower_bound, &LowerBound::step_over_bound)};
}

// Where steps hold different numbers of examples, their times do not compare.
bool steps_differ_in_size(const PartView& part) {
  std::set<long> examples;
  for (const CellResult& cell : part.cells) {
    if (!cell.step_s || !cell.sample_s) continue;
    examples.insert(std::lround(cell.step_s->mean / cell.sample_s->mean));
  }
  return examples.size() > 1;
}

// Steps after which the ranks' parameters were compared; 0: in no cell.
std::size_t distance_steps(const PartView& part) {
  for (const CellResult& cell : part.cells) {
    if (cell.parameter_distance) return cell.parameter_distance->after_step.size();
  }
  return 0;
}

// Where the cells' peaks differ by more than a hundredth: a column of equal numbers tells nothing.
bool peaks_differ(const PartView& part) {
  std::set<std::int64_t> peaks;
  for (const CellResult& cell : part.cells) {
    if (cell.peak_allocated_bytes) peaks.insert(*cell.peak_allocated_bytes);
  }
  constexpr double kNotable = 1.01;
  return !peaks.empty() &&
         static_cast<double>(*peaks.rbegin()) > kNotable * static_cast<double>(*peaks.begin());
}

}  // namespace

Column slowdown_column() {
  return {"slowdown_vs_no_sync", "slowdown", Unit::Plain, "", known(&CellResult::slowdown)};
}

Column exposed_column() {
  return {"exposed_comm_s", "exposed", Unit::SecondsWithUnit, "",
          known(&CellResult::exposed_comm_s)};
}

Column count_column(const std::string& op) {
  return {"", op, Unit::Plain, "", [op](const CellResult& cell) -> Quantity {
            if (!cell.collectives_per_step) return {};
            const OpCount* found = total_of(cell, op);
            return found == nullptr ? std::int64_t{0} : found->count;
          }};
}

Column moved_column() {
  return {"", "moved", Unit::Bytes, "moved = bytes of all collectives, per rank and step",
          [](const CellResult& cell) -> Quantity { return quantity(cell.moved_bytes()); }};
}

std::vector<Column> detail_columns(const PartView& part) {
  const auto any = [&](auto is_so) { return std::ranges::any_of(part.cells, is_so); };
  std::vector<Column> columns;
  if (steps_differ_in_size(part)) columns.push_back(sample_column());
  columns.push_back(slowdown_column());
  columns.push_back(exposed_column());
  if (any([](const CellResult& cell) { return text::is_on_the_road(cell.cell); })) {
    columns.push_back(idle_column());
  }
  for (const char* op : kCountedOps) {
    const auto uses_op = [op](const CellResult& cell) { return uses(cell, op); };
    if (any(uses_op)) columns.push_back(count_column(op));
  }
  columns.push_back(moved_column());
  if (const auto steps = distance_steps(part); steps > 0) columns.push_back(distance_column(steps));
  if (peaks_differ(part)) columns.push_back(allocated_column());
  if (any([](const CellResult& cell) { return cell.vs_local_statistics.has_value(); })) {
    columns.push_back(vs_local_column());
  }
  if (any([](const CellResult& cell) { return cell.running_statistics.has_value(); })) {
    columns.push_back(means_apart_column());
    columns.push_back(variances_apart_column());
  }
  return columns;
}

std::vector<Column> spread_columns() {
  return {step_column("step_p5_s", "p5", &StepTimes::p5),
          step_column("step_median_s", "median", &StepTimes::median),
          step_column("step_p95_s", "p95", &StepTimes::p95),
          step_column("step_max_s", "largest", &StepTimes::max)};
}

std::vector<Column> bound_columns() {
  return {bound_column(), over_bound_column()};
}

const std::vector<Column>& csv_columns() {
  static const std::vector<Column> columns{
      csv_alone("status", [](const CellResult& cell) { return results::to_string(cell.status); }),
      csv_alone("reason", [](const CellResult& cell) { return cell.reason; }),
      csv_alone("timing", [](const CellResult& cell) { return results::to_string(cell.timing); }),
      csv_alone("launches",
                [](const CellResult& cell) { return static_cast<std::int64_t>(cell.launches); }),
      csv_alone("blocks",
                [](const CellResult& cell) { return static_cast<std::int64_t>(cell.blocks); }),
      step_column("step_mean_s", "", &StepTimes::mean),
      step_column("step_median_s", "median", &StepTimes::median),
      csv_alone("step_sd_s", number_in(&CellResult::step_s, &StepTimes::sd)),
      step_column("step_p5_s", "p5", &StepTimes::p5),
      step_column("step_p95_s", "p95", &StepTimes::p95),
      step_column("step_max_s", "largest", &StepTimes::max),
      end_column("step_ci95_lo_s", &CellResult::step_s, &stats::Interval::lo),
      end_column("step_ci95_hi_s", &CellResult::step_s, &stats::Interval::hi),
      csv_alone("steps", number_in(&CellResult::step_s, &StepTimes::n)),
      slowdown_column(),
      end_column("slowdown_ci95_lo", &CellResult::slowdown, &stats::Interval::lo),
      end_column("slowdown_ci95_hi", &CellResult::slowdown, &stats::Interval::hi),
      exposed_column(),
      csv_alone("unaccounted_s", known(&CellResult::unaccounted_s)),
      bound_column(),
      over_bound_column(),
      idle_column(),
      distance_column(0),
      total_column("all_reduce_count", "all_reduce", &OpCount::count),
      total_column("all_reduce_bytes", "all_reduce", &OpCount::bytes),
      total_column("reduce_scatter_count", "reduce_scatter", &OpCount::count),
      total_column("reduce_scatter_bytes", "reduce_scatter", &OpCount::bytes),
      total_column("all_gather_count", "all_gather", &OpCount::count),
      total_column("all_gather_bytes", "all_gather", &OpCount::bytes),
      csv_alone("declared_micro_batches",
                [](const CellResult& cell) { return std::int64_t{cell.declared_micro_batches}; }),
      allocated_column(),
      csv_alone("peak_reserved_bytes", known(&CellResult::peak_reserved_bytes)),
      csv_alone("peak_reserved_estimate_bytes", known(&CellResult::peak_reserved_estimate_bytes)),
      csv_alone("predicted_peak_allocated_bytes",
                known(&CellResult::predicted_peak_allocated_bytes)),
      csv_alone("host_peak_allocated_bytes", known(&CellResult::host_peak_allocated_bytes)),
      csv_alone("predicted_host_peak_allocated_bytes",
                known(&CellResult::predicted_host_peak_allocated_bytes)),
      means_apart_column(),
      variances_apart_column(),
      vs_local_column()};
  return columns;
}

bool uses(const CellResult& cell, const std::string& op) {
  const OpCount* total = total_of(cell, op);
  return total != nullptr && total->count > 0;
}

}  // namespace gradsync::report
