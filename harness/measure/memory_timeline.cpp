#include "harness/measure/memory_timeline.h"

#include <algorithm>

namespace gradsync::measure {
namespace {

bool is_higher(const MemoryPoint& point, const MemoryPoint& than) {
  return total_bytes(point.bytes) > total_bytes(than.bytes);
}

}  // namespace

MemoryTimeline::MemoryTimeline(std::size_t max_points)
    : max_points_(std::max<std::size_t>(2, max_points)) {}

void MemoryTimeline::add(MemoryPoint point) {
  const bool joins_last = !points_.empty() && changes_in_last_ < changes_per_point_;
  if (joins_last) {
    ++changes_in_last_;
    if (is_higher(point, points_.back())) points_.back() = std::move(point);
    return;
  }
  if (points_.size() == max_points_) merge_pairs();
  points_.push_back(std::move(point));
  changes_in_last_ = 1;
}

// An odd last point stays alone: it then stands for half as many changes as the others.
void MemoryTimeline::merge_pairs() {
  std::vector<MemoryPoint> merged;
  merged.reserve(max_points_);
  for (std::size_t i = 0; i < points_.size(); i += 2) {
    const bool takes_second = i + 1 < points_.size() && is_higher(points_[i + 1], points_[i]);
    merged.push_back(std::move(points_[takes_second ? i + 1 : i]));
  }
  points_ = std::move(merged);
  changes_per_point_ *= 2;
}

}  // namespace gradsync::measure
