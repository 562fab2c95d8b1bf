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
      {{Timing::Real, "real"}, {Timing::Paced, "paced"}, {Timing::Paper, "paper"}});
}

GRADSYNC_FIELDS_OF(OpCount, count, bytes)

constexpr auto fields_of(const OomPlace*) {
  return std::tuple{GRADSYNC_FIELDS(OomPlace, micro_batch, phase),
                    field("unit", &OomPlace::unit).spared()};
}

GRADSYNC_FIELDS_OF(TrialAccount, kind, verdict, weight_min, weight_max, weight_error, factor,
                   condition, left_over, contributions, parameters)

constexpr auto fields_of(const StepTimes*) {
  return std::tuple{GRADSYNC_FIELDS(StepTimes, mean, median, sd, ci95, n),
                    GRADSYNC_LATER_FIELDS(StepTimes, p5, p95, max)};
}

constexpr auto fields_of(const Ratio*) {
  return std::tuple{GRADSYNC_FIELDS(Ratio, ratio, ci95),
                    field("interval", &Ratio::interval).later()};
}

constexpr auto fields_of(const StepRatio*) {
  return std::tuple_cat(fields_of(static_cast<const Ratio*>(nullptr)),
                        std::tuple{field("vs", &StepRatio::vs).spared(),
                                   GRADSYNC_LATER_FIELDS(StepRatio, launches, pairs)});
}

}  // namespace gradsync::results
