// The fields of what results and comparisons of results are made of. For the files that write them;
// everything else includes result.h alone.
#pragma once

#include <array>

#include "harness/base/fields.h"
#include "harness/results/result.h"

namespace gradsync::stats {

inline nlohmann::json field_to_json(const Interval& interval) {
  return nlohmann::json::array({interval.lo, interval.hi});
}
inline nlohmann::json field_schema(const Interval*) {
  return {{"type", "array"}, {"items", {{"type", "number"}}}};
}

}  // namespace gradsync::stats

namespace gradsync::results {

inline nlohmann::json field_to_json(const Context& context) {
  return context.written;
}
inline void field_from_json(const nlohmann::json& in, Context& context, const FieldPlace& place) {
  if (!in.is_object()) place.fail(&in, "an object");
  context = Context(in);
}
inline nlohmann::json field_schema(const Context*) {
  return {{"type", "object"}};
}

inline nlohmann::json field_to_json(const Parameters& parameters) {
  return parameters.written();
}
inline void field_from_json(const nlohmann::json& in, Parameters& parameters,
                            const FieldPlace& place) {
  if (!in.is_object()) place.fail(&in, "an object");
  parameters = in;
}
inline nlohmann::json field_schema(const Parameters*) {
  return {{"type", "object"},
          {"additionalProperties", {{"type", {"boolean", "integer", "string"}}}}};
}

constexpr auto names_of(const Status*) {
  return std::to_array<std::pair<Status, const char*>>({{Status::Ok, "ok"},
                                                        {Status::Oom, "oom"},
                                                        {Status::Timeout, "timeout"},
                                                        {Status::Failed, "failed"},
                                                        {Status::Skipped, "skipped"},
                                                        {Status::Invalid, "invalid"}});
}

constexpr auto names_of(const Timing*) {
  return std::to_array<std::pair<Timing, const char*>>(
      {{Timing::Real, "real"}, {Timing::Paced, "paced"}});
}

constexpr auto fields_of(const OpCount*) {
  return std::tuple{field("count", &OpCount::count), field("bytes", &OpCount::bytes)};
}

constexpr auto fields_of(const TrialAccount*) {
  return std::tuple{field("kind", &TrialAccount::kind),
                    field("verdict", &TrialAccount::verdict),
                    field("weight_min", &TrialAccount::weight_min),
                    field("weight_max", &TrialAccount::weight_max),
                    field("weight_error", &TrialAccount::weight_error),
                    field("factor", &TrialAccount::factor),
                    field("condition", &TrialAccount::condition),
                    field("left_over", &TrialAccount::left_over),
                    field("contributions", &TrialAccount::contributions),
                    field("parameters", &TrialAccount::parameters)};
}

constexpr auto fields_of(const StepTimes*) {
  return std::tuple{field("mean", &StepTimes::mean),       field("median", &StepTimes::median),
                    field("sd", &StepTimes::sd),           field("p5", &StepTimes::p5).later(),
                    field("p95", &StepTimes::p95).later(), field("max", &StepTimes::max).later(),
                    field("ci95", &StepTimes::ci95),       field("n", &StepTimes::n)};
}

constexpr auto fields_of(const Ratio*) {
  return std::tuple{field("ratio", &Ratio::ratio), field("ci95", &Ratio::ci95),
                    field("interval", &Ratio::interval).later()};
}

constexpr auto fields_of(const StepRatio*) {
  return std::tuple_cat(fields_of(static_cast<const Ratio*>(nullptr)),
                        std::tuple{field("vs", &StepRatio::vs).spared(),
                                   field("launches", &StepRatio::launches).later(),
                                   field("pairs", &StepRatio::pairs).later()});
}

}  // namespace gradsync::results
