#include "harness/results/block_time.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace gradsync::results {
namespace {

double sum_of_steps_s(const RankRecord& rank) {
  return std::accumulate(rank.step_s.begin(), rank.step_s.end(), 0.0);
}

}  // namespace

double BlockTime::unaccounted_s() const {
  return elapsed_s - sum_of_steps_s(*rank);
}

std::optional<BlockTime> block_time(const RankRecord& rank) {
  const auto known = [](double step_s) { return std::isfinite(step_s); };
  if (rank.step_s.empty() || !std::ranges::all_of(rank.step_s, known)) return std::nullopt;
  const bool has_block = std::isfinite(rank.block_s) && rank.block_s > 0;
  return BlockTime{&rank, has_block ? rank.block_s : sum_of_steps_s(rank), rank.step_s.size()};
}

std::optional<BlockTime> block_time(const TrialRecord& trial, bool as_published) {
  std::optional<BlockTime> longest;
  for (const RankRecord& rank : trial.ranks) {
    if (as_published && rank.rank != 0) continue;
    const auto time = block_time(rank);
    if (time && (!longest || time->elapsed_s > longest->elapsed_s)) longest = time;
  }
  return longest;
}

}  // namespace gradsync::results
