#include "harness/results/result.h"

#include <algorithm>

#include "harness/results/result_fields.h"

namespace gradsync::results {

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
  return std::tuple_cat(
      fields_of(static_cast<const TimeParts*>(nullptr)),
      std::tuple{field("op", &CollectiveShare::op), field("bucket", &CollectiveShare::bucket)});
}

constexpr auto fields_of(const RankShare*) {
  return std::tuple_cat(fields_of(static_cast<const TimeParts*>(nullptr)),
                        std::tuple{field("rank", &RankShare::rank), field("node", &RankShare::node),
                                   field("waited_for_s", &RankShare::waited_for_s),
                                   field("collectives", &RankShare::collectives)});
}

constexpr auto fields_of(const Attribution*) {
  return std::tuple{field("steps", &Attribution::steps),
                    field("clock_error_s", &Attribution::clock_error_s),
                    field("ranks", &Attribution::ranks)};
}

constexpr auto fields_of(const LowerBound*) {
  return std::tuple{field("step_s", &LowerBound::step_s),
                    field("step_over_bound", &LowerBound::step_over_bound),
                    field("micro_batch_s", &LowerBound::micro_batch_s),
                    field("first_bucket_s", &LowerBound::first_bucket_s),
                    field("wire_s", &LowerBound::wire_s),
                    field("last_bucket_wire_s", &LowerBound::last_bucket_wire_s),
                    field("optimizer_s", &LowerBound::optimizer_s)};
}

constexpr auto fields_of(const IdleShare*) {
  return std::tuple{field("mean", &IdleShare::mean), field("by_rank", &IdleShare::by_rank)};
}

constexpr auto fields_of(const ParameterDistance*) {
  return std::tuple{field("last", &ParameterDistance::last),
                    field("after_step", &ParameterDistance::after_step)};
}

constexpr auto fields_of(const StatisticsSpread*) {
  return std::tuple{field("mean_gap", &StatisticsSpread::mean_gap),
                    field("variance_ratio", &StatisticsSpread::variance_ratio)};
}

constexpr auto fields_of(const CellResult*) {
  return std::tuple{
      field("part", &CellResult::part),
      field("cell", &CellResult::cell),
      field("status", &CellResult::status),
      field("reason", &CellResult::reason),
      field("trials", &CellResult::trials).later(),
      field("nodes", &CellResult::nodes).later(),
      field("ranks_per_node", &CellResult::ranks_per_node).later(),
      field("launches", &CellResult::launches),
      field("blocks", &CellResult::blocks),
      field("timing", &CellResult::timing),
      field("host_reads_back", &CellResult::host_reads_back).spared(),
      field("scale", &CellResult::scale).later(),
      field("step_s", &CellResult::step_s),
      field("micro_batch_s", &CellResult::micro_batch_s),
      field("sample_s", &CellResult::sample_s).later(),
      field("interval", &CellResult::interval).spared(),
      field("slowdown", &CellResult::slowdown),
      field("vs_baseline", &CellResult::vs_baseline).spared(),
      field("vs_local_statistics", &CellResult::vs_local_statistics).spared(),
      field("phase_s", &CellResult::phase_s).later(),
      field("exposed_comm_s", &CellResult::exposed_comm_s),
      field("unaccounted_s", &CellResult::unaccounted_s).later(),
      field("lower_bound", &CellResult::lower_bound).later(),
      field("idle_share", &CellResult::idle_share).later(),
      field("attribution", &CellResult::attribution).later(),
      field("parameter_distance", &CellResult::parameter_distance).later(),
      field("account", &CellResult::account).later(),
      field("running_statistics", &CellResult::running_statistics).spared(),
      field("collectives_per_step", &CellResult::collectives_per_step),
      field("declared_micro_batches", &CellResult::declared_micro_batches).spared(),
      field("peak_allocated_bytes", &CellResult::peak_allocated_bytes),
      field("peak_by_category", &CellResult::peak_by_category).later(),
      field("peak_reserved_bytes", &CellResult::peak_reserved_bytes),
      field("peak_reserved_estimate_bytes", &CellResult::peak_reserved_estimate_bytes).later(),
      field("predicted_peak_allocated_bytes", &CellResult::predicted_peak_allocated_bytes).later(),
      field("predicted_peak_by_category", &CellResult::predicted_peak_by_category).later(),
      field("host_peak_allocated_bytes", &CellResult::host_peak_allocated_bytes).spared(),
      field("predicted_host_peak_allocated_bytes", &CellResult::predicted_host_peak_allocated_bytes)
          .spared()};
}

constexpr auto fields_of(const LawPoint*) {
  return std::tuple{field("strategy", &LawPoint::strategy),
                    field("accumulation_steps", &LawPoint::accumulation_steps),
                    field("syncs", &LawPoint::syncs),
                    field("step_s", &LawPoint::step_s),
                    field("law_s", &LawPoint::law_s),
                    field("error", &LawPoint::error),
                    field("held_out", &LawPoint::held_out)};
}

constexpr auto fields_of(const Law*) {
  return std::tuple{field("part", &Law::part),
                    field("cell", &Law::cell),
                    field("fixed_s", &Law::fixed_s),
                    field("micro_batch_s", &Law::micro_batch_s),
                    field("sync_s", &Law::sync_s),
                    field("largest_residual", &Law::largest_residual),
                    field("largest_error", &Law::largest_error),
                    field("points", &Law::points)};
}

constexpr auto fields_of(const Best*) {
  return std::tuple{field("part", &Best::part),
                    field("among", &Best::among),
                    field("cell", &Best::cell),
                    field("step_s", &Best::step_s),
                    field("of", &Best::of),
                    field("vs", &Best::vs),
                    field("ratio", &Best::ratio),
                    field("ci95", &Best::ci95),
                    field("choices", &Best::choices).later(),
                    field("launches", &Best::launches).later(),
                    field("pairs", &Best::pairs)};
}

constexpr auto fields_of(const FrontPoint*) {
  return std::tuple{field("cell", &FrontPoint::cell),
                    field("peak_allocated_bytes", &FrontPoint::peak_allocated_bytes),
                    field("step_s", &FrontPoint::step_s), field("on_front", &FrontPoint::on_front),
                    field("vs_fastest", &FrontPoint::vs_fastest)};
}

constexpr auto fields_of(const ParetoFront*) {
  return std::tuple{field("part", &ParetoFront::part), field("cell", &ParetoFront::cell),
                    field("points", &ParetoFront::points), field("choices", &ParetoFront::choices)};
}

constexpr auto fields_of(const StrategyName*) {
  return std::tuple{field("name", &StrategyName::name), field("label", &StrategyName::label)};
}

constexpr auto fields_of(const Result*) {
  return std::tuple{constant("schema", kResultSchema),
                    field("context", &Result::context),
                    field("plan", &Result::plan),
                    field("strategies", &Result::strategies).later(),
                    field("cells", &Result::cells),
                    field("laws", &Result::laws).later(),
                    field("best", &Result::best).later(),
                    field("fronts", &Result::fronts).later(),
                    field("exit_status", &Result::exit_status)};
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
