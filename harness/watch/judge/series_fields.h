// The fields of a series as files have them. Where they are read or written alone: fields.h is
// templates.
#pragma once

#include <tuple>

#include "harness/base/fields.h"
#include "harness/watch/judge/series.h"

namespace gradsync::watch {

constexpr auto fields_of(const Series*) {
  return std::tuple{field("steps", &Series::steps), field("exposed_s", &Series::exposed_s),
                    field("synchronization_share", &Series::synchronization_share),
                    field("excess_bytes", &Series::excess_bytes),
                    field("latest_rank", &Series::latest_rank)};
}

}  // namespace gradsync::watch
