#include "harness/results/result.h"

#include <algorithm>

#include "harness/results/result_fields.h"

namespace gradsync::results {

std::string to_string(Timing timing) {
  return name_of(timing);
}

using nlohmann::json;

constexpr auto names_of(const Among*) {
  return std::to_array<std::pair<Among, const char*>>(
      {{Among::All, "all"}, {Among::WholeGradients, "whole_gradients"}});
}

constexpr auto field_of(const TimePart& part) {
  const auto always = field(part.field, part.seconds);
  if (part.shown == PartShown::Always) return always;
  return part.shown == PartShown::InFiles ? always.later() : always.spared();
}

constexpr auto fields_of(const TimeParts*) {
  return std::apply([](const auto&... parts) { return std::tuple{field_of(parts)...}; },
                    kTimeParts);
}

constexpr auto fields_of(const CollectiveShare*) {
  return std::tuple_cat(fields_of(static_cast<const TimeParts*>(nullptr)),
                        std::tuple{GRADSYNC_FIELDS(CollectiveShare, op, bucket)});
}

constexpr auto fields_of(const RankShare*) {
  return std::tuple_cat(
      fields_of(static_cast<const TimeParts*>(nullptr)),
      std::tuple{GRADSYNC_FIELDS(RankShare, rank, node, waited_for_s, collectives)});
}

GRADSYNC_FIELDS_OF(Attribution, steps, clock_error_s, ranks)
GRADSYNC_FIELDS_OF(LowerBound, step_s, step_over_bound, micro_batch_s, first_bucket_s, wire_s,
                   last_bucket_wire_s, optimizer_s)
GRADSYNC_FIELDS_OF(IdleShare, mean, by_rank)
GRADSYNC_FIELDS_OF(ParameterDistance, last, after_step)
GRADSYNC_FIELDS_OF(StatisticsSpread, mean_gap, variance_ratio)

constexpr auto fields_of(const CellResult*) {
  return std::tuple{
      GRADSYNC_FIELDS(CellResult, part, cell, status, reason, launches, blocks, timing, step_s,
                      micro_batch_s, slowdown, exposed_comm_s, collectives_per_step,
                      peak_allocated_bytes, peak_reserved_bytes),
      GRADSYNC_LATER_FIELDS(CellResult, trials, nodes, ranks_per_node, scale, sample_s, phase_s,
                            unaccounted_s, lower_bound, idle_share, attribution, parameter_distance,
                            account, peak_by_category, peak_reserved_estimate_bytes,
                            predicted_peak_allocated_bytes, predicted_peak_by_category),
      GRADSYNC_SPARED_FIELDS(CellResult, oom_place, host_reads_back, interval, vs_baseline,
                             vs_local_statistics, running_statistics, declared_micro_batches,
                             host_peak_allocated_bytes, predicted_host_peak_allocated_bytes)};
}

GRADSYNC_FIELDS_OF(LawPoint, strategy, accumulation_steps, syncs, step_s, law_s, error, held_out)
GRADSYNC_FIELDS_OF(Law, part, cell, fixed_s, micro_batch_s, sync_s, largest_residual, largest_error,
                   points)

constexpr auto fields_of(const Best*) {
  return std::tuple{GRADSYNC_FIELDS(Best, part, among, cell, step_s, of, vs, ratio, ci95, pairs),
                    GRADSYNC_LATER_FIELDS(Best, choices, launches)};
}

GRADSYNC_FIELDS_OF(FrontPoint, cell, peak_allocated_bytes, step_s, on_front, vs_fastest)

GRADSYNC_FIELDS_OF(ParetoFront, part, cell, points, choices)
GRADSYNC_FIELDS_OF(StrategyName, name, label)

constexpr auto fields_of(const Result*) {
  return std::tuple{constant("schema", kResultSchema),
                    GRADSYNC_FIELDS(Result, context, plan, cells, exit_status),
                    GRADSYNC_LATER_FIELDS(Result, strategies, laws, best, fronts)};
}

const FrontPoint& ParetoFront::fastest() const {
  return *std::ranges::min_element(points, {}, &FrontPoint::step_s);
}

std::optional<double> CellResult::moved_bytes() const {
  if (!collectives_per_step) return std::nullopt;
  double bytes = 0;
  for (const auto& [op, total] : *collectives_per_step) bytes += static_cast<double>(total.bytes);
  return bytes;
}

void to_json(json& out, const StepRatio& ratio) {
  out = write_fields(ratio);
}

void to_json(json& out, const Result& result) {
  out = write_fields(result);
}

json result_schema() {
  return fields_schema<Result>();
}

json interval_to_json(const std::optional<stats::Interval>& interval) {
  return interval ? field_to_json(*interval) : json(nullptr);
}

}  // namespace gradsync::results
