#include "harness/watch/judge/steps/waits.h"

#include <algorithm>

namespace gradsync::watch {
namespace {

bool is_one_by_one(const EventPointers& reductions) {
  return std::ranges::adjacent_find(reductions, [](const Event* before, const Event* next) {
           return next->start_ns < before->end_ns;
         }) == reductions.end();
}

bool is_on_gpu(const Event* collective) {
  return collective->on_gpu.has_value();
}

}  // namespace

std::int64_t waited_one_by_one_ns(const EventPointers& collectives) {
  std::int64_t sum_ns = 0;
  for (const Event* each : collectives) {
    sum_ns += each->on_gpu ? each->on_gpu->waited_ns : each->end_ns - each->start_ns;
  }
  return sum_ns;
}

std::optional<std::int64_t> waited_ns(const EventPointers& reductions, bool waits_for_each) {
  if (std::ranges::any_of(reductions, is_on_gpu)) {
    if (!std::ranges::all_of(reductions, is_on_gpu)) return std::nullopt;
    return waited_one_by_one_ns(reductions);
  }
  std::int64_t issued_ns = 0;
  std::int64_t complete_ns = 0;
  bool known = false;
  for (const Event* reduction : reductions) {
    issued_ns = std::max(issued_ns, reduction->start_ns);
    complete_ns = std::max(complete_ns, reduction->end_ns);
    known |= reduction->end_ns > reduction->start_ns;
  }
  if (!known) return std::nullopt;
  if (waits_for_each && is_one_by_one(reductions)) return waited_one_by_one_ns(reductions);
  return complete_ns - issued_ns;
}

}  // namespace gradsync::watch
