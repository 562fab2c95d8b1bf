#include "harness/measure/timeline.h"

#include <cmath>

#include "harness/base/errors.h"

namespace gradsync::measure {

std::vector<std::int64_t> moments(std::int64_t reference_ns, const std::vector<Gap>& gaps) {
  std::vector<std::int64_t> moments_ns;
  moments_ns.reserve(gaps.size());
  for (const Gap& gap : gaps) {
    GRADSYNC_CHECK(gap.since, <, static_cast<std::int64_t>(moments_ns.size()));
    const std::int64_t since_ns =
        gap.since < 0 ? reference_ns : moments_ns[static_cast<std::size_t>(gap.since)];
    moments_ns.push_back(since_ns + std::llround(gap.elapsed_ms * 1e6));
  }
  return moments_ns;
}

}  // namespace gradsync::measure
