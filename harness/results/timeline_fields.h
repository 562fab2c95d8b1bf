// The fields of a step's timelines, which are in two files' records.
#pragma once

#include <tuple>

#include "harness/base/fields.h"
#include "harness/results/records.h"

namespace gradsync::results {

constexpr auto fields_of(const TimelineEvent*) {
  return std::tuple{field("op", &TimelineEvent::op),
                    field("bytes", &TimelineEvent::bytes),
                    field("micro_batch", &TimelineEvent::micro_batch),
                    field("bucket", &TimelineEvent::bucket),
                    field("start_s", &TimelineEvent::start_s),
                    field("end_s", &TimelineEvent::end_s)};
}

constexpr auto fields_of(const TimelinePhase*) {
  return std::tuple{
      field("phase", &TimelinePhase::phase), field("micro_batch", &TimelinePhase::micro_batch),
      field("start_s", &TimelinePhase::start_s), field("end_s", &TimelinePhase::end_s)};
}

constexpr auto fields_of(const MemoryTimelinePoint*) {
  return std::tuple{field("at_s", &MemoryTimelinePoint::at_s),
                    field("micro_batch", &MemoryTimelinePoint::micro_batch),
                    field("phase", &MemoryTimelinePoint::phase),
                    field("unit", &MemoryTimelinePoint::unit).spared(),
                    field("bytes", &MemoryTimelinePoint::bytes)};
}

}  // namespace gradsync::results
