#include "harness/coordinate/timing_objection.h"

#include <fmt/format.h>

namespace gradsync::coordinate {
namespace {

using results::RankRecord;
using results::TrialRecord;

std::string crowded(int threads, const Cores& cores) {
  if (threads > cores.usable) {
    return fmt::format("{} compute threads share {} cores", threads, cores.usable);
  }
  // Where every core has as many, ranks are as fast as each other, as they are where each has one.
  if (threads > cores.physical && threads % cores.physical != 0) {
    return fmt::format("of {} compute threads on {} cores some share one, and others wait for them",
                       threads, cores.physical);
  }
  return "";
}

std::string beyond_quota(int threads, const Cores& cores) {
  if (!cores.quota || threads <= *cores.quota) return "";
  return fmt::format("{} compute threads share a CPU quota of {:.3g} cores (control group)",
                     threads, *cores.quota);
}

std::string throttled(const TrialRecord& trial) {
  const RankRecord* most = nullptr;
  for (const RankRecord& rank : trial.ranks) {
    if (rank.throttled_s.value_or(0) <= 0) continue;
    if (most == nullptr || *rank.throttled_s > *most->throttled_s) most = &rank;
  }
  if (most == nullptr) return "";
  return fmt::format(
      "the control group of rank {} held it for up to {:.3g} s of {:.3g} s: its CPU "
      "quota was used up",
      most->rank, *most->throttled_s, most->block_s);
}

double queue_share(const RankRecord& rank) {
  return rank.block_s > 0 ? rank.queue_wait_s.value_or(0) / rank.block_s : 0;
}

std::string queued(const TrialRecord& trial) {
  const RankRecord* most = nullptr;
  for (const RankRecord& rank : trial.ranks) {
    if (queue_share(rank) <= kLongestQueueWait) continue;
    if (most == nullptr || queue_share(rank) > queue_share(*most)) most = &rank;
  }
  if (most == nullptr) return "";
  return fmt::format("rank {} waited {:.0f} % of its time for a core that other processes used",
                     most->rank, 100 * queue_share(*most));
}

}  // namespace

std::string timing_objection(const TrialRecord& trial, const Cores& cores, int threads_per_rank) {
  if (trial.model_info && trial.model_info->paced.value_or(false)) return throttled(trial);
  const auto ranks = static_cast<int>(trial.ranks.size());
  std::string objection = crowded(ranks * threads_per_rank, cores);
  if (objection.empty())
    objection = beyond_quota(cores.ranks_under_quota * threads_per_rank, cores);
  if (objection.empty()) objection = throttled(trial);
  return objection.empty() && !cores.is_shared_on_purpose ? queued(trial) : objection;
}

}  // namespace gradsync::coordinate
