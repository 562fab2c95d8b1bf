#include "harness/measure/exposed.h"

#include <algorithm>

namespace gradsync::measure {
namespace {

// Returns the same set of points as disjoint spans in order.
std::vector<Span> merged(std::vector<Span> spans) {
  std::sort(spans.begin(), spans.end());
  std::vector<Span> result;
  for (const Span& span : spans) {
    if (span.second <= span.first) continue;
    if (!result.empty() && span.first <= result.back().second) {
      result.back().second = std::max(result.back().second, span.second);
    } else {
      result.push_back(span);
    }
  }
  return result;
}

}  // namespace

std::int64_t exposed_ns(std::vector<Span> communication, std::vector<Span> waiting) {
  const std::vector<Span> busy = merged(std::move(communication));
  const std::vector<Span> idle = merged(std::move(waiting));
  std::int64_t total_ns = 0;
  auto a = busy.begin();
  auto b = idle.begin();
  while (a != busy.end() && b != idle.end()) {
    const std::int64_t start = std::max(a->first, b->first);
    const std::int64_t end = std::min(a->second, b->second);
    if (end > start) total_ns += end - start;
    if (a->second < b->second) {
      ++a;
    } else {
      ++b;
    }
  }
  return total_ns;
}

}  // namespace gradsync::measure
