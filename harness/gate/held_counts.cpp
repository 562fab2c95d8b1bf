#include "harness/gate/held_counts.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <set>
#include <tuple>
#include <utility>

#include "harness/gate/ranks_alike.h"

namespace gradsync::gate {
namespace {

using results::TimelineEvent;
using results::TrialRecord;

constexpr int kOutside = -1;
constexpr std::int64_t kUnknownBytes = -1;

std::vector<SizedCollectives> sorted_collectives(const std::vector<TimelineEvent>& events,
                                                 int micro_batch) {
  std::map<std::pair<std::string, std::int64_t>, std::int64_t> times;
  for (const TimelineEvent& event : events) {
    if (event.micro_batch == micro_batch) ++times[{event.op, event.bytes}];
  }
  std::vector<SizedCollectives> collectives;
  for (const auto& [kind, count] : times) {
    const auto& [op, bytes] = kind;
    collectives.push_back({op, bytes < 0 ? std::nullopt : std::optional(bytes), count});
  }
  return collectives;
}

RankCounts counts_of(const RecordedStep& step) {
  RankCounts counts;
  counts.ranks = {step.rank};
  counts.syncs_per_step = step.syncs;
  counts.peak_allocated_bytes = step.peak_allocated_bytes;
  for (int i = 0; i < step.micro_batches; ++i) {
    auto collectives = sorted_collectives(step.events, i);
    auto& alike = counts.micro_batches;
    if (!alike.empty() && alike.back().collectives == collectives) {
      ++alike.back().times;
    } else {
      alike.push_back({1, std::move(collectives)});
    }
  }
  counts.outside = sorted_collectives(step.events, kOutside);
  counts.per_step = totals_of(counts);
  return counts;
}

void add(std::vector<TimelineEvent>& events, const std::vector<SizedCollectives>& collectives,
         int micro_batch) {
  for (const SizedCollectives& sized : collectives) {
    TimelineEvent event;
    event.op = sized.op;
    event.bytes = sized.bytes.value_or(kUnknownBytes);
    event.micro_batch = micro_batch;
    events.insert(events.end(), static_cast<std::size_t>(sized.times), event);
  }
}

std::vector<TimelineEvent> events_of(const RankCounts& rank) {
  std::vector<TimelineEvent> events;
  add(events, rank.outside, kOutside);
  int micro_batch = 0;
  for (const MicroBatchCounts& alike : rank.micro_batches) {
    for (std::int64_t i = 0; i < alike.times; ++i) add(events, alike.collectives, micro_batch++);
  }
  return events;
}

// Every rank with the counts of its group.
std::map<int, const RankCounts*> by_rank(const HeldCounts& counts) {
  std::map<int, const RankCounts*> ranks;
  for (const RankCounts& group : counts.ranks) {
    for (const int rank : group.ranks) ranks[rank] = &group;
  }
  return ranks;
}

// In the terms in which trials are compared.
TrialRecord trial_of(const HeldCounts& counts) {
  TrialRecord trial;
  for (const auto& [rank, group] : by_rank(counts)) {
    if (trial.ranks.empty()) {
      for (const auto& [op, total] : group->per_step) {
        trial.ledger.per_step[op] = {total.count, total.bytes.value_or(kUnknownBytes)};
      }
    }
    results::RankRecord& record = trial.ranks.emplace_back();
    record.rank = rank;
    record.timeline_events = events_of(*group);
    if (group->peak_allocated_bytes) record.peak_allocated_bytes = *group->peak_allocated_bytes;
  }
  return trial;
}

// Leaves out the peaks that only one of the two knows, with a note of why the other does not.
void forget_peaks_of_one(TrialRecord& held, TrialRecord& seen, const HeldCounts& held_counts,
                         const HeldCounts& seen_counts, std::vector<std::string>& notes) {
  const auto in_file = by_rank(held_counts);
  const auto in_job = by_rank(seen_counts);
  std::set<std::string> reasons;
  for (std::size_t i = 0; i < std::min(held.ranks.size(), seen.ranks.size()); ++i) {
    auto& a = held.ranks[i].peak_allocated_bytes;
    auto& b = seen.ranks[i].peak_allocated_bytes;
    if (a.has_value() == b.has_value()) continue;
    const RankCounts& without =
        a ? *in_job.at(seen.ranks[i].rank) : *in_file.at(held.ranks[i].rank);
    const std::string& why = without.peak_allocated_bytes.why_not();
    reasons.insert(fmt::format("peak memory is not compared: {}{}{}",
                               a ? "of this job it is not known" : "the file does not hold it",
                               why.empty() ? "" : ": ", why));
    a.reset();
    b.reset();
  }
  notes.insert(notes.end(), reasons.begin(), reasons.end());
}

// "every rank synchronizes ...", or each rank's own words; "" where there are none.
std::string words_of_ranks(
    const HeldCounts& held, const HeldCounts& seen,
    const std::function<std::string(const RankCounts&, const RankCounts&)>& words_of) {
  const auto a = by_rank(held);
  const auto b = by_rank(seen);
  std::set<std::string> distinct;
  std::vector<std::string> words;
  for (const auto& [rank, group] : a) {
    const auto other = b.find(rank);
    if (other == b.end()) return "";  // told as another number of ranks
    const std::string of_rank = words_of(*group, *other->second);
    if (of_rank.empty()) continue;
    distinct.insert(of_rank);
    words.push_back(fmt::format("rank {} {}", rank, of_rank));
  }
  if (words.size() == a.size() && distinct.size() == 1) return "every rank " + *distinct.begin();
  return fmt::format("{}", fmt::join(words, "; "));
}

std::string times_text(std::int64_t count) {
  return count == 1 ? "once" : fmt::format("{} times", count);
}

std::string syncs_words(const RankCounts& held, const RankCounts& seen) {
  if (held.syncs_per_step == seen.syncs_per_step) return "";
  return fmt::format("synchronizes {} per step where the baseline has {}",
                     times_text(seen.syncs_per_step), held.syncs_per_step);
}

std::string micro_batches_words(const RankCounts& held, const RankCounts& seen) {
  const std::int64_t a = micro_batches_of(held);
  const std::int64_t b = micro_batches_of(seen);
  if (a == b) return "";
  return fmt::format("has {} micro-batch{} per step where the baseline has {}", b,
                     b == 1 ? "" : "es", a);
}

void add_work_differences(const std::optional<HeldWork>& held, const std::optional<HeldWork>& seen,
                          HeldDifferences& found) {
  if (!seen) return;
  if (!held) {
    found.notes.emplace_back("what the job computes is not compared: the file does not hold it");
  } else if (held->torch != seen->torch) {
    found.notes.push_back(fmt::format(
        "what the job computes is not compared: the baseline has torch {}, and the job has {}",
        held->torch, seen->torch));
  } else {
    for (const WorkDifference& difference : work_differences(*held, *seen)) {
      found.differences.push_back({kWorkDifference, sentence(difference)});
    }
  }
}

}  // namespace

std::map<std::string, OpTotal> totals_of(const RankCounts& rank) {
  std::map<std::string, OpTotal> totals;
  const auto add_all = [&](const std::vector<SizedCollectives>& collectives, std::int64_t times) {
    for (const SizedCollectives& sized : collectives) {
      OpTotal& total = totals[sized.op];
      total.count += times * sized.times;
      if (!sized.bytes) total.bytes.reset();
      if (total.bytes) *total.bytes += times * sized.times * *sized.bytes;
    }
  };
  for (const MicroBatchCounts& alike : rank.micro_batches) add_all(alike.collectives, alike.times);
  add_all(rank.outside, 1);
  return totals;
}

std::int64_t micro_batches_of(const RankCounts& rank) {
  std::int64_t sum = 0;
  for (const MicroBatchCounts& alike : rank.micro_batches) sum += alike.times;
  return sum;
}

std::string totals_text(const std::map<std::string, OpTotal>& totals) {
  std::vector<std::string> words;
  for (const auto& [op, total] : totals) {
    words.push_back(
        fmt::format("{} {} ({})", op, total.count,
                    total.bytes ? fmt::format("{} bytes", *total.bytes) : "of unknown size"));
  }
  return words.empty() ? "nothing" : fmt::format("{}", fmt::join(words, ", "));
}

HeldCounts held_counts(std::int64_t world_size, const std::vector<RecordedStep>& steps) {
  HeldCounts counts;
  counts.world_size = world_size;
  std::map<int, const RecordedStep*> by_rank;
  for (const RecordedStep& step : steps) by_rank[step.rank] = &step;
  for (const auto& [rank, step] : by_rank) add_to_alike(counts.ranks, counts_of(*step));
  return counts;
}

HeldDifferences held_differences(const HeldCounts& held, const HeldCounts& seen) {
  HeldDifferences found;
  TrialRecord a = trial_of(held);
  TrialRecord b = trial_of(seen);
  forget_peaks_of_one(a, b, held, seen, found.notes);
  found.differences = count_differences(a, b);
  const auto add = [&](const char* what, const std::string& sentence) {
    if (!sentence.empty()) found.differences.push_back({what, sentence});
  };
  if (held.world_size != seen.world_size) {
    add("world_size",
        fmt::format("{} ranks where the baseline has {}", seen.world_size, held.world_size));
  }
  add("micro_batches", words_of_ranks(held, seen, micro_batches_words));
  add("syncs", words_of_ranks(held, seen, syncs_words));
  add_work_differences(held.work, seen.work, found);
  return found;
}

}  // namespace gradsync::gate
