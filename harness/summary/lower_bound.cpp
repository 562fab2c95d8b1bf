#include "harness/summary/lower_bound.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <numeric>
#include <optional>
#include <set>

#include "harness/results/block_time.h"
#include "harness/stats/sample.h"
#include "harness/summary/cell_summary.h"

namespace gradsync::summary {

using results::LowerBound;
using results::RankRecord;
using results::TimelineEvent;
using results::TrialRecord;

namespace {

constexpr double kBitsPerByte = 8;

bool is_bucket(const TimelineEvent& event) {
  return event.op == "all_reduce" && event.bucket >= 0;
}

std::set<int> synchronized(const RankRecord& rank) {
  std::set<int> micro_batches;
  for (const TimelineEvent& event : rank.timeline_events) {
    if (is_bucket(event)) micro_batches.insert(event.micro_batch);
  }
  return micro_batches;
}

// When the forward of each micro-batch of the recorded step began.
std::map<int, double> forward_starts_s(const RankRecord& rank) {
  std::map<int, double> starts;
  for (const results::TimelinePhase& phase : rank.timeline_phases) {
    if (phase.phase == "forward") starts.try_emplace(phase.micro_batch, phase.start_s);
  }
  return starts;
}

std::optional<double> mean_of(const std::vector<double>& values) {
  return values.empty() ? std::nullopt : std::optional(stats::mean(values));
}

// The most of any rank's mean; nothing where no rank has a value.
std::optional<double> slowest_mean(const std::map<int, std::vector<double>>& by_rank) {
  std::optional<double> most;
  for (const auto& [rank, values] : by_rank) {
    const auto mean = mean_of(values);
    if (mean && (!most || *mean > *most)) most = mean;
  }
  return most;
}

// c, from the rows of one setting in one launch.
std::optional<double> micro_batch_s(const std::vector<const TrialRecord*>& trials) {
  std::map<int, std::vector<double>> by_rank;
  for (const TrialRecord* trial : trials) {
    for (const RankRecord& rank : trial->ranks) {
      const std::set<int> with_sync = synchronized(rank);
      const std::map<int, double> starts_s = forward_starts_s(rank);
      for (const auto& [micro_batch, start_s] : starts_s) {
        const auto next = starts_s.find(micro_batch + 1);
        if (next == starts_s.end() || with_sync.contains(micro_batch)) continue;
        by_rank[rank.rank].push_back(next->second - start_s);
      }
    }
  }
  return slowest_mean(by_rank);
}

// r, from the trials of one row in one launch.
std::optional<double> first_bucket_s(const std::vector<const TrialRecord*>& trials) {
  std::map<int, std::vector<double>> by_rank;
  for (const TrialRecord* trial : trials) {
    for (const RankRecord& rank : trial->ranks) {
      const std::map<int, double> starts_s = forward_starts_s(rank);
      std::set<int> seen;
      for (const TimelineEvent& event : rank.timeline_events) {
        const auto start = starts_s.find(event.micro_batch);
        if (!is_bucket(event) || start == starts_s.end()) continue;
        if (seen.insert(event.micro_batch).second) {
          by_rank[rank.rank].push_back(event.start_s - start->second);
        }
      }
    }
  }
  return slowest_mean(by_rank);
}

std::optional<double> optimizer_s(const std::vector<const TrialRecord*>& trials) {
  std::vector<double> means;
  for (const TrialRecord* trial : trials) {
    const auto block = results::block_time(*trial);
    if (!block) continue;
    const auto phase = block->rank->phase_s.find("optimizer");
    if (phase == block->rank->phase_s.end() || phase->second.empty()) continue;
    means.push_back(stats::mean(phase->second));
  }
  return mean_of(means);
}

// Bytes of the buckets of one synchronized micro-batch, in the order sent.
std::vector<double> bucket_bytes(const TrialRecord& trial) {
  std::vector<double> bytes;
  if (trial.ranks.empty()) return bytes;
  const RankRecord& rank = trial.ranks.front();
  const std::set<int> with_sync = synchronized(rank);
  for (const TimelineEvent& event : rank.timeline_events) {
    if (is_bucket(event) && event.micro_batch == *with_sync.begin()) {
      bytes.push_back(static_cast<double>(event.bytes));
    }
  }
  return bytes;
}

struct Link {
  double bits_per_s = 0;  // of payload, as measured
  double free_bytes = 0;  // let through at once after idle time
};

std::optional<Link> link_of(const results::Context& context, const results::Parameters& cell) {
  const auto link = context.links.find(fmt::format("{} / {}", cell.topology(), cell.scale()));
  if (link == context.links.end()) return std::nullopt;
  const auto& rate = link->second.measured_payload_bits_per_s;
  if (!rate || *rate <= 0) return std::nullopt;
  return Link{*rate, link->second.free_burst_bytes.value_or(0)};
}

double wire_s(double bytes, std::size_t ranks, const Link& link) {
  const auto n = static_cast<double>(ranks);
  const double sent = 2 * (n - 1) / n * bytes - link.free_bytes;
  return std::max(0.0, sent) * kBitsPerByte / link.bits_per_s;
}

std::vector<const TrialRecord*> in_launch(const std::vector<const TrialRecord*>& trials,
                                          int launch) {
  std::vector<const TrialRecord*> found;
  std::ranges::copy_if(trials, std::back_inserter(found),
                       [launch](const TrialRecord* trial) { return trial->launch == launch; });
  return found;
}

// The trials of all rows with times that differ from `group` in their strategy alone, itself
// included.
std::vector<const TrialRecord*> trials_of_setting(const results::Context& context,
                                                  const std::vector<CellGroup>& groups,
                                                  const CellGroup& group) {
  std::vector<const TrialRecord*> trials;
  const results::Parameters setting = group.cell.without({"strategy"});
  for (const CellGroup& other : groups) {
    if (other.part != group.part || other.cell.without({"strategy"}) != setting) continue;
    if (!timing_objection(context, other).empty()) continue;
    const auto of_row = other.ok_trials();
    trials.insert(trials.end(), of_row.begin(), of_row.end());
  }
  return trials;
}

// Returns the terms of one launch; nothing if one is not known.
std::optional<LowerBound> terms_of(const std::vector<const TrialRecord*>& row,
                                   const std::vector<const TrialRecord*>& setting,
                                   const Link& link) {
  const auto c = micro_batch_s(setting);
  const auto r = first_bucket_s(row);
  const auto f = optimizer_s(row);
  const std::vector<double> bytes = bucket_bytes(*row.front());
  if (!c || !r || !f || bytes.empty()) return std::nullopt;
  const std::size_t ranks = row.front()->ranks.size();
  const double all = std::accumulate(bytes.begin(), bytes.end(), 0.0);
  return LowerBound{.micro_batch_s = *c,
                    .first_bucket_s = *r,
                    .wire_s = wire_s(all, ranks, link),
                    .last_bucket_wire_s = wire_s(bytes.back(), ranks, link),
                    .optimizer_s = *f};
}

// What is averaged over launches.
constexpr std::array kTerms = {
    &LowerBound::step_s, &LowerBound::micro_batch_s,      &LowerBound::first_bucket_s,
    &LowerBound::wire_s, &LowerBound::last_bucket_wire_s, &LowerBound::optimizer_s};

double mean_of_launches(const std::vector<LowerBound>& bounds, double LowerBound::*field) {
  std::vector<double> values;
  for (const LowerBound& bound : bounds) values.push_back(bound.*field);
  return stats::mean(values);
}

std::string objection(const CellGroup& group, const std::optional<Link>& link) {
  if (group.cell.wrapper() != "ddp") return "derived for DDP's all_reduces alone";
  if (group.as_published) return "as_published windows hold unequal numbers of micro-batches";
  if (!link) return "no link whose rate was measured";
  return "";
}

}  // namespace

double least_step_s(const LowerBound& terms, double micro_batches, double syncs) {
  const double c = terms.micro_batch_s;
  const double synchronized =
      std::max({c, terms.first_bucket_s + terms.wire_s, c + terms.last_bucket_wire_s});
  return terms.optimizer_s + (micro_batches - syncs) * c + syncs * synchronized;
}

Known<LowerBound> lower_bound(const results::StepTimes& step_s, const results::Context& context,
                              const std::vector<CellGroup>& groups, const CellGroup& group) {
  const auto link = link_of(context, group.cell);
  if (const std::string why = objection(group, link); !why.empty()) return Unknown{why};
  const auto row = group.ok_trials();
  const auto setting = trials_of_setting(context, groups, group);
  std::set<int> launches;
  for (const TrialRecord* trial : row) launches.insert(trial->launch);
  std::vector<LowerBound> bounds;
  for (const int launch : launches) {
    auto terms = terms_of(in_launch(row, launch), in_launch(setting, launch), *link);
    if (!terms) continue;
    const auto syncs = static_cast<double>(synchronized(row.front()->ranks.front()).size());
    terms->step_s = least_step_s(*terms, group.cell.accumulation_steps(), syncs);
    bounds.push_back(*terms);
  }
  if (bounds.empty()) {
    return Unknown{
        "no launch recorded an unsynchronized micro-batch, with times, beside this row's buckets"};
  }
  LowerBound mean;
  for (const auto field : kTerms) mean.*field = mean_of_launches(bounds, field);
  mean.step_over_bound = step_s.mean / mean.step_s;
  return mean;
}

}  // namespace gradsync::summary
