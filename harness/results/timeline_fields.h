// The fields of a step's timelines, which are in two files' records.
#pragma once

#include <tuple>

#include "harness/base/fields.h"
#include "harness/results/records.h"

namespace gradsync::results {

GRADSYNC_FIELDS_OF(TimelineEvent, op, bytes, micro_batch, bucket, start_s, end_s)
GRADSYNC_FIELDS_OF(TimelinePhase, phase, micro_batch, start_s, end_s)

constexpr auto fields_of(const MemoryTimelinePoint*) {
  return std::tuple{GRADSYNC_FIELDS(MemoryTimelinePoint, at_s, micro_batch, phase, bytes),
                    field("unit", &MemoryTimelinePoint::unit).spared()};
}

}  // namespace gradsync::results
