// The fields of a step's timelines, which are in two files' records.
#pragma once

#include <tuple>

#include "harness/base/fields.h"
#include "harness/results/records.h"

namespace gradsync::results {

constexpr auto fields_of(const TimelineEvent*) {
  return std::tuple{GRADSYNC_FIELDS(TimelineEvent, op, bytes, micro_batch, bucket, start_s, end_s)};
}

constexpr auto fields_of(const TimelinePhase*) {
  return std::tuple{GRADSYNC_FIELDS(TimelinePhase, phase, micro_batch, start_s, end_s)};
}

constexpr auto fields_of(const MemoryTimelinePoint*) {
  return std::tuple{GRADSYNC_FIELDS(MemoryTimelinePoint, at_s, micro_batch, phase, bytes),
                    field("unit", &MemoryTimelinePoint::unit).spared()};
}

}  // namespace gradsync::results
