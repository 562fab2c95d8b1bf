// An interval, and an estimate that may have one.
#pragma once

#include <optional>
#include <string>

namespace gradsync::stats {

struct Interval {
  double lo = 0;
  double hi = 0;
  bool contains(double value) const { return lo <= value && value <= hi; }
  bool operator==(const Interval&) const = default;
};

struct Estimate {
  double value = 0;
  std::optional<Interval> interval;  // at the level that was asked for
  std::string no_interval_because;   // set where there is none
};

}  // namespace gradsync::stats
