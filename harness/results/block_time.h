// How long the block of a trial took: the elapsed time from which every mean is made.
//
// Ranks take turns in being the slowest, so the maximum over ranks, taken step by step, adds up to
// more than the time that passed: by 0.1 to 1.7 % on real compute. The elapsed time is the longest
// block of any rank; a mean step is that over the number of steps.
#pragma once

#include <cstddef>
#include <optional>

#include "harness/results/records.h"

namespace gradsync::results {

struct BlockTime {
  const RankRecord* rank = nullptr;  // whose block it is
  double elapsed_s = 0;              // the whole block by one pair of clock readings
  std::size_t steps = 0;

  double mean_step_s() const { return elapsed_s / static_cast<double>(steps); }
  // The part of the block that is in none of its steps, in seconds. Steps touch, so this is time in
  // which the machine kept the rank from reading the clock before the first or after the last one.
  double unaccounted_s() const;
};

// Returns the block of this rank; nothing where it has no steps, or one without a time. Without
// "block_s" in the record, the block is the sum of its steps.
std::optional<BlockTime> block_time(const RankRecord& rank);

// Returns the longest block of any rank, or with `as_published` rank 0's; nothing where there is
// none. `trial` must outlive what is returned.
std::optional<BlockTime> block_time(const TrialRecord& trial, bool as_published = false);

}  // namespace gradsync::results
