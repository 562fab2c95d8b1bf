// At which level intervals over launches decide, where a gate compares runs and not turns: claims,
// and a run against a stored one.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <string>

namespace gradsync::gate {

// On each side. With three, the interval at a level for many rows is so wide that it decides
// nothing. Where noise is skewed, it is also wrong more often than it says.
inline constexpr int kFewestLaunchesToDecide = 4;

// Returns the level of the interval of one row, 1 - alpha / rows, by Bonferroni's inequality: that
// any of the intervals misses its truth has then probability alpha at most, however rows depend on
// each other.
inline double level_for(double alpha, std::size_t rows) {
  return 1 - alpha / static_cast<double>(std::max<std::size_t>(1, rows));
}

// Returns "99.94 %".
inline std::string level_text(double level) {
  return fmt::format("{:.4g} %", 100 * level);
}

}  // namespace gradsync::gate
