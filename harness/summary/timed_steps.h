// How many steps and launches are behind the times of a table: what its head says of them.
#pragma once

#include <cstddef>
#include <set>
#include <string>

#include "harness/results/result.h"

namespace gradsync::summary {

// Each over the cells that have times; several numbers where cells differ.
struct TimedSteps {
  std::set<std::size_t> steps;  // empty: no cell has a time
  std::set<std::size_t> launches;
  std::set<std::size_t> paired_launches;  // of the slowdowns

  template <typename Cells>
  explicit TimedSteps(const Cells& cells) {
    for (const results::CellResult& cell : cells) count(cell);
  }

  // "29 steps in 4 launches", "7 to 8 steps in 1 launch".
  std::string text() const;
  std::string paired_text() const;  // "4 launches"

 private:
  void count(const results::CellResult& cell);
};

// "29", or "7 to 29"; "0" where there is none.
std::string range_text(const std::set<std::size_t>& counts);

}  // namespace gradsync::summary
