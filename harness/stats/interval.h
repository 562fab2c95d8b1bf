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

// What an interval varied: it says nothing about what was held fixed.
enum class Resampled { Nothing, Blocks, LaunchesThenBlocks };

struct Estimate {
  double value = 0;
  std::optional<Interval> ci95;
  Resampled resampled = Resampled::Nothing;
  std::string no_interval_because;  // set where ci95 is not
};

}  // namespace gradsync::stats
