// How a rank's memory changed over time, in a bounded number of points.
//
// Every change is a point until there are `max_points`. Then neighbours are merged in pairs: the
// higher one is kept, and from then on a point stands for 2, then 4, 8, ... changes. So the highest
// point is always the true peak with its composition; valleys between two changes may be lost.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "harness/measure/memory_category.h"

namespace gradsync::measure {

// Where a rank is in its work.
struct MemoryPlace {
  int step = -1;         // -1: outside a step
  int micro_batch = -1;  // -1: outside a micro-batch
  std::string phase;     // "forward", "recompute", "backward", "optimizer"; "" where unknown
  std::string unit;      // of the model, such as "layer3"; "" where there is none

  bool operator==(const MemoryPlace&) const = default;
};

struct MemoryPoint {
  std::int64_t time_ns = 0;
  CategoryBytes bytes{};                     // held from this time on
  std::shared_ptr<const MemoryPlace> place;  // never null; shared by neighbouring points
};

// Not for several threads at once.
class MemoryTimeline {
 public:
  // At least 2 points are kept.
  explicit MemoryTimeline(std::size_t max_points);

  void add(MemoryPoint point);
  std::vector<MemoryPoint> take() { return std::move(points_); }

 private:
  void merge_pairs();

  std::vector<MemoryPoint> points_;
  std::size_t max_points_;
  std::size_t changes_per_point_ = 1;
  std::size_t changes_in_last_ = 0;
};

}  // namespace gradsync::measure
