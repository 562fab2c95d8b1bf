// The timed blocks of a cell, launch by launch: what every mean and ratio of times is made from.
//
// A launch's mean step is the elapsed time of its blocks over their steps (results/block_time.h);
// all launches have the same weight, however many of their rounds ended well.
#pragma once

#include <vector>

#include "harness/results/block_time.h"
#include "harness/stats/launch_interval.h"
#include "harness/summary/cell_group.h"

namespace gradsync::summary {

// One block of a cell that ended well, on the clock that counts.
struct TimedBlock {
  const results::TrialRecord* trial = nullptr;
  results::BlockTime time;
};

// Returns the blocks of the group's trials that ended well and have times, in the order they ran.
std::vector<TimedBlock> timed_blocks(const CellGroup& group);

// Returns the mean step of each launch, in seconds, in the order of the launches.
std::vector<double> launch_means(const CellGroup& group);

// Returns the mean steps of both groups in each launch that has a round in which both ended well,
// made from those rounds alone, and of how many rounds in all.
struct PairedMeans {
  std::vector<stats::LaunchPair> launches;
  std::size_t rounds = 0;
};
PairedMeans paired_means(const CellGroup& numerator, const CellGroup& denominator);

// Returns for each of `blocks` the weight of one of its steps in a mean over launches that count
// alike; over all steps the weights add up to 1.
std::vector<double> step_weights(const std::vector<TimedBlock>& blocks);

}  // namespace gradsync::summary
