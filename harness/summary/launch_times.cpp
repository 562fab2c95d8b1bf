#include "harness/summary/launch_times.h"

#include <map>
#include <utility>

namespace gradsync::summary {
namespace {

// What some blocks took together.
struct Elapsed {
  double elapsed_s = 0;
  double steps = 0;

  void add(const results::BlockTime& time) {
    elapsed_s += time.elapsed_s;
    steps += static_cast<double>(time.steps);
  }
  double mean_step_s() const { return elapsed_s / steps; }
};

std::map<int, Elapsed> by_launch(const std::vector<TimedBlock>& blocks) {
  std::map<int, Elapsed> launches;
  for (const TimedBlock& block : blocks) launches[block.trial->launch].add(block.time);
  return launches;
}

}  // namespace

std::vector<TimedBlock> timed_blocks(const CellGroup& group) {
  std::vector<TimedBlock> blocks;
  for (const results::TrialRecord* trial : group.ok_trials()) {
    const auto time = results::block_time(*trial, group.as_published);
    if (time && time->elapsed_s > 0) blocks.push_back({trial, *time});
  }
  return blocks;
}

std::vector<double> launch_means(const CellGroup& group) {
  std::vector<double> means;
  for (const auto& [launch, elapsed] : by_launch(timed_blocks(group))) {
    means.push_back(elapsed.mean_step_s());
  }
  return means;
}

PairedMeans paired_means(const CellGroup& numerator, const CellGroup& denominator) {
  using Round = std::pair<int, int>;  // launch, round
  std::map<Round, results::BlockTime> below;
  for (const TimedBlock& block : timed_blocks(denominator)) {
    below.insert_or_assign({block.trial->launch, block.trial->round}, block.time);
  }
  PairedMeans paired;
  std::map<int, std::pair<Elapsed, Elapsed>> launches;
  for (const TimedBlock& block : timed_blocks(numerator)) {
    const auto other = below.find({block.trial->launch, block.trial->round});
    if (other == below.end()) continue;
    auto& [above_sum, below_sum] = launches[block.trial->launch];
    above_sum.add(block.time);
    below_sum.add(other->second);
    ++paired.rounds;
  }
  for (const auto& [launch, sums] : launches) {
    paired.launches.push_back({sums.first.mean_step_s(), sums.second.mean_step_s()});
  }
  return paired;
}

std::vector<double> step_weights(const std::vector<TimedBlock>& blocks) {
  const std::map<int, Elapsed> launches = by_launch(blocks);
  std::vector<double> weights;
  weights.reserve(blocks.size());
  for (const TimedBlock& block : blocks) {
    weights.push_back(
        1 / (static_cast<double>(launches.size()) * launches.at(block.trial->launch).steps));
  }
  return weights;
}

}  // namespace gradsync::summary
