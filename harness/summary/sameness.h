// When two step times count as the same: one margin for every sentence that says so.
#pragma once

#include "harness/stats/interval.h"

namespace gradsync::summary {

// Two ways "do as well" where the whole interval of their ratio is within this of 1, and a
// misplaced no_sync "saves nothing" where its interval leaves it no larger saving. Larger: claims
// equality more readily.
inline constexpr double kSameWithin = 0.03;

// Whether the whole interval of a ratio says so, as far as the margin matters.
inline bool is_not_faster(const stats::Interval& ratio) {
  return ratio.lo >= 1 - kSameWithin;
}
inline bool is_not_slower(const stats::Interval& ratio) {
  return ratio.hi <= 1 + kSameWithin;
}

}  // namespace gradsync::summary
