#include "harness/summary/rank_summary.h"

#include <algorithm>
#include <cmath>
#include <map>

namespace gradsync::summary {

using results::RankRecord;
using results::TrialRecord;

namespace {

struct Time {
  double idle_s = 0;
  double all_s = 0;
};

// Adds the steps of one rank in one trial. Returns false where they have no phases.
bool add(const RankRecord& rank, Time& time) {
  const auto wait = rank.phase_s.find("wait");
  if (wait == rank.phase_s.end() || wait->second.size() != rank.step_s.size()) return false;
  for (std::size_t step = 0; step < rank.step_s.size(); ++step) {
    if (!std::isfinite(rank.step_s[step]) || !std::isfinite(wait->second[step])) return false;
    time.idle_s += wait->second[step];
    time.all_s += rank.step_s[step];
  }
  return true;
}

}  // namespace

std::vector<double> idle_share_by_rank(const std::vector<const TrialRecord*>& trials) {
  std::map<int, Time> times;
  for (const TrialRecord* trial : trials) {
    for (const RankRecord& rank : trial->ranks) {
      if (!add(rank, times[rank.rank])) return {};
    }
  }
  std::vector<double> shares;
  for (const auto& [rank, time] : times) {
    if (time.all_s <= 0) return {};
    shares.push_back(time.idle_s / time.all_s);
  }
  return shares;
}

std::vector<double> largest_parameter_distance(const std::vector<const TrialRecord*>& trials) {
  std::vector<double> largest;
  for (const TrialRecord* trial : trials) {
    for (const RankRecord& rank : trial->ranks) {
      const std::vector<double>& distances = rank.parameter_distance;
      if (distances.size() > largest.size()) largest.resize(distances.size(), 0);
      for (std::size_t step = 0; step < distances.size(); ++step) {
        largest[step] = std::max(largest[step], distances[step]);
      }
    }
  }
  return largest;
}

}  // namespace gradsync::summary
