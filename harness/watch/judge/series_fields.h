// The fields of a series as files have them. Where they are read or written alone: fields.h is
// templates.
#pragma once

#include <tuple>

#include "harness/base/fields.h"
#include "harness/watch/judge/series.h"

namespace gradsync::watch {

constexpr auto fields_of(const Series*) {
  return std::tuple{
      field("steps", &Series::steps).at_least(0),
      field("exposed_s", &Series::exposed_s).at_least(0),
      field("synchronization_share", &Series::synchronization_share).at_least(0).at_most(1),
      field("excess_bytes", &Series::excess_bytes).at_least(0),
      field("latest_rank", &Series::latest_rank).at_least(0)};
}

}  // namespace gradsync::watch
