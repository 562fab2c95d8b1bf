#include "harness/gate/counts.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "harness/base/units.h"

namespace gradsync::gate {

using nlohmann::json;
using results::OpCount;
using results::OpCounts;
using results::RankRecord;
using results::Status;
using results::TimelineEvent;
using results::TrialRecord;

namespace {

using Events = std::vector<TimelineEvent>;
using Trials = std::vector<const TrialRecord*>;

bool same_event(const TimelineEvent& a, const TimelineEvent& b) {
  return a.op == b.op && a.bytes == b.bytes && a.micro_batch == b.micro_batch &&
         a.bucket == b.bucket;
}

std::map<int, Events> by_micro_batch(const RankRecord& rank) {
  std::map<int, Events> events;
  for (const TimelineEvent& event : rank.timeline_events) {
    events[event.micro_batch].push_back(event);
  }
  return events;
}

OpCounts counts_of(const Events& events) {
  OpCounts counts;
  for (const TimelineEvent& event : events) {
    counts[event.op].count += 1;
    counts[event.op].bytes += event.bytes;
  }
  return counts;
}

OpCount count_in(const OpCounts& counts, const std::string& op) {
  const auto found = counts.find(op);
  return found == counts.end() ? OpCount{} : found->second;
}

std::set<std::string> ops_of(const OpCounts& a, const OpCounts& b) {
  std::set<std::string> ops;
  for (const OpCounts* counts : {&a, &b}) {
    for (const auto& [op, total] : *counts) ops.insert(op);
  }
  return ops;
}

std::int64_t magnitude(std::int64_t value) {
  return value < 0 ? -value : value;
}

// "1.2 MiB" and "0.8 MiB", or all digits where those would read alike.
std::pair<std::string, std::string> two_sizes(std::int64_t a, std::int64_t b) {
  std::string in_a = format_bytes(static_cast<double>(a));
  std::string in_b = format_bytes(static_cast<double>(b));
  if (in_a != in_b || a == b) return {in_a, in_b};
  return {fmt::format("{} bytes", a), fmt::format("{} bytes", b)};
}

// "14 more all_reduces, 413.1 MiB"
std::string more_or_fewer(const std::string& op, const OpCount& baseline,
                          const OpCount& candidate) {
  const std::int64_t count = candidate.count - baseline.count;
  const std::int64_t bytes = candidate.bytes - baseline.bytes;
  const std::string size = format_bytes(static_cast<double>(magnitude(bytes)));
  std::string text = fmt::format("{} {} {}{}", magnitude(count), count > 0 ? "more" : "fewer", op,
                                 magnitude(count) == 1 ? "" : "s");
  if (bytes == 0) return text + ", as many bytes";
  if ((bytes > 0) == (count > 0)) return text + ", " + size;
  return text + fmt::format(", yet {} {}", size, bytes > 0 ? "more" : "less");
}

bool is_reduction(const std::string& op) {
  return op == "all_reduce" || op == "reduce_scatter" || op == "reduce";
}

std::int64_t reduced_bytes(const Events& events) {
  std::int64_t bytes = 0;
  for (const TimelineEvent& event : events) {
    if (is_reduction(event.op)) bytes += event.bytes;
  }
  return bytes;
}

struct Place {
  int micro_batch = 0;
  std::string words;
  bool operator==(const Place&) const = default;
};

// One rank's recorded step in both builds.
class StepPair {
 public:
  StepPair(const RankRecord& baseline, const RankRecord& candidate)
      : baseline_(by_micro_batch(baseline)), candidate_(by_micro_batch(candidate)) {}

  // Where the two part; nothing where every event is the same.
  std::optional<Place> first_difference() const {
    std::set<int> micro_batches;
    for (const auto* side : {&baseline_, &candidate_}) {
      for (const auto& [micro_batch, events] : *side) micro_batches.insert(micro_batch);
    }
    for (const int micro_batch : micro_batches) {
      const std::string words = difference_in(micro_batch);
      if (!words.empty()) return Place{micro_batch, words};
    }
    return std::nullopt;
  }

 private:
  static const Events& events_in(const std::map<int, Events>& side, int micro_batch) {
    static const Events none;
    const auto found = side.find(micro_batch);
    return found == side.end() ? none : found->second;
  }

  std::string difference_in(int micro_batch) const {
    const Events& baseline = events_in(baseline_, micro_batch);
    const Events& candidate = events_in(candidate_, micro_batch);
    const auto [a, b] = std::mismatch(baseline.begin(), baseline.end(), candidate.begin(),
                                      candidate.end(), same_event);
    if (a == baseline.end() && b == candidate.end()) return "";
    const std::string place = micro_batch < 0 ? "outside of micro-batches"
                                              : fmt::format("micro-batch {}", micro_batch + 1);
    const std::string counted = count_words(counts_of(baseline), counts_of(candidate));
    if (counted.empty()) {
      return fmt::format("{}, {}", place, event_words(*a, *b, a - baseline.begin()));
    }
    const auto agreeing = a - baseline.begin();
    return fmt::format("{}: {}{}{}", place, counted,
                       agreeing > 0 ? fmt::format(", after {} that agree", agreeing) : "",
                       explanation(micro_batch));
  }

  // Empty where both have as many of every operation.
  static std::string count_words(const OpCounts& baseline, const OpCounts& candidate) {
    std::vector<std::string> words;
    for (const std::string& op : ops_of(baseline, candidate)) {
      const OpCount a = count_in(baseline, op);
      const OpCount b = count_in(candidate, op);
      if (a.count != b.count) words.push_back(more_or_fewer(op, a, b));
    }
    return fmt::format("{}", fmt::join(words, " and "));
  }

  static std::string event_words(const TimelineEvent& a, const TimelineEvent& b,
                                 std::ptrdiff_t index) {
    const bool same_bucket = a.bucket >= 0 && a.bucket == b.bucket;
    const std::string place = same_bucket ? fmt::format("bucket {}", a.bucket + 1)
                                          : fmt::format("collective {}", index + 1);
    if (a.op == b.op && a.bytes == b.bytes) {
      return fmt::format("{}: {} of bucket {} where the baseline has bucket {}", place, b.op,
                         b.bucket + 1, a.bucket + 1);
    }
    const auto [size_a, size_b] = two_sizes(a.bytes, b.bytes);
    if (a.op == b.op) {
      return fmt::format("{}: {} of {} where the baseline has {}", place, b.op, size_b, size_a);
    }
    return fmt::format("{}: {} of {} where the baseline has {} of {}", place, b.op, size_b, a.op,
                       size_a);
  }

  std::string explanation(int micro_batch) const {
    if (reduces_like_the_last(micro_batch)) return " (no_sync has no effect)";
    const OpCounts baseline = counts_of(events_in(baseline_, micro_batch));
    const OpCounts candidate = counts_of(events_in(candidate_, micro_batch));
    for (const std::string& op : ops_of(baseline, candidate)) {
      if (count_in(candidate, op).count > count_in(baseline, op).count) return "";
    }
    return "; if that is meant, renew the baseline";
  }

  // Whether the candidate reduces here what the baseline reduces only when its step ends.
  bool reduces_like_the_last(int micro_batch) const {
    const int last = std::max(baseline_.empty() ? -1 : baseline_.rbegin()->first,
                              candidate_.empty() ? -1 : candidate_.rbegin()->first);
    const std::int64_t at_the_end = reduced_bytes(events_in(baseline_, last));
    return micro_batch < last && at_the_end > 0 &&
           reduced_bytes(events_in(baseline_, micro_batch)) == 0 &&
           reduced_bytes(events_in(candidate_, micro_batch)) >= at_the_end;
  }

  std::map<int, Events> baseline_;
  std::map<int, Events> candidate_;
};

// The ranks of both trials side by side; as many of each.
template <typename Words>
void for_each_rank(const TrialRecord& baseline, const TrialRecord& candidate, Words words) {
  for (std::size_t i = 0; i < baseline.ranks.size(); ++i) {
    words(baseline.ranks[i], candidate.ranks[i]);
  }
}

std::string ranks_words(const TrialRecord& baseline, const TrialRecord& candidate) {
  if (baseline.ranks.size() == candidate.ranks.size()) return "";
  return fmt::format("{} ranks where the baseline has {}", candidate.ranks.size(),
                     baseline.ranks.size());
}

// The earliest difference; its rank is named where not all ranks have it.
std::string events_words(const TrialRecord& baseline, const TrialRecord& candidate) {
  std::optional<Place> first;
  int rank_of_first = 0;
  std::size_t ranks_alike = 0;
  for_each_rank(baseline, candidate, [&](const RankRecord& a, const RankRecord& b) {
    const auto place = StepPair(a, b).first_difference();
    if (!place) return;
    if (!first || place->micro_batch < first->micro_batch) {
      first = place;
      rank_of_first = a.rank;
      ranks_alike = 0;
    }
    if (*place == *first) ++ranks_alike;
  });
  if (!first) return "";
  if (ranks_alike == baseline.ranks.size()) return first->words;
  return fmt::format("rank {}, {}", rank_of_first, first->words);
}

std::string collectives_words(const TrialRecord& baseline, const TrialRecord& candidate) {
  std::vector<std::string> words;
  for (const std::string& op : ops_of(baseline.ledger.per_step, candidate.ledger.per_step)) {
    const OpCount a = count_in(baseline.ledger.per_step, op);
    const OpCount b = count_in(candidate.ledger.per_step, op);
    if (a == b) continue;
    words.push_back(fmt::format("{} {} ({} bytes) where the baseline has {} ({} bytes)", op,
                                b.count, b.bytes, a.count, a.bytes));
  }
  return words.empty() ? "" : fmt::format("per step: {}", fmt::join(words, "; "));
}

std::string buckets_words(const TrialRecord& baseline, const TrialRecord& candidate) {
  if (baseline.ledger.buckets == candidate.ledger.buckets) return "";
  return fmt::format("buckets: {} where the baseline has {}", candidate.ledger.buckets,
                     baseline.ledger.buckets);
}

std::string gradient_bytes_words(const TrialRecord& baseline, const TrialRecord& candidate) {
  const auto bytes_in = [](const TrialRecord& trial) {
    return trial.model_info ? trial.model_info->gradient_bytes : std::nullopt;
  };
  const std::optional<std::int64_t> a = bytes_in(baseline);
  const std::optional<std::int64_t> b = bytes_in(candidate);
  if (a == b || !a || !b) return "";  // unknown in what older versions wrote
  return fmt::format("gradients of {} bytes where the baseline has {}", *b, *a);
}

// A peak of a rank: the device's, or that of what is offloaded.
struct Peak {
  const char* name;
  std::optional<std::int64_t> RankRecord::*bytes;
  std::map<std::string, std::int64_t> RankRecord::*by_category;
};

constexpr std::array kPeaks{
    Peak{"peak", &RankRecord::peak_allocated_bytes, &RankRecord::peak_by_category},
    Peak{"host peak", &RankRecord::host_peak_allocated_bytes, &RankRecord::host_peak_by_category}};

// "activation", or "communication 4096, activation 12": what moved the same way as the whole.
std::string categories_that_moved(const Peak& peak, const RankRecord& baseline,
                                  const RankRecord& candidate, bool more) {
  std::map<std::string, std::int64_t> moved;
  for (const auto& [name, bytes] : candidate.*peak.by_category) moved[name] += bytes;
  for (const auto& [name, bytes] : baseline.*peak.by_category) moved[name] -= bytes;
  std::vector<std::pair<std::int64_t, std::string>> same_way;
  for (const auto& [name, bytes] : moved) {
    if (bytes != 0 && (bytes > 0) == more) same_way.emplace_back(-magnitude(bytes), name);
  }
  std::sort(same_way.begin(), same_way.end());
  if (same_way.size() == 1) return same_way.front().second;
  std::vector<std::string> words;
  for (const auto& [bytes, name] : same_way) words.push_back(fmt::format("{} {}", name, -bytes));
  return fmt::format("{}", fmt::join(words, ", "));
}

// "is 1 byte more (activation)"
std::string peak_words_of_rank(const Peak& peak, const RankRecord& baseline,
                               const RankRecord& candidate) {
  const auto& a = baseline.*peak.bytes;
  const auto& b = candidate.*peak.bytes;
  if (a == b) return "";
  if (!a || !b) {
    return fmt::format("is known {} only", a ? "of the baseline" : "of the candidate");
  }
  const std::int64_t bytes = *b - *a;
  const bool known =
      !(baseline.*peak.by_category).empty() && !(candidate.*peak.by_category).empty();
  const std::string categories =
      known ? categories_that_moved(peak, baseline, candidate, bytes > 0) : std::string();
  return fmt::format("is {} {} {}{}", magnitude(bytes), magnitude(bytes) == 1 ? "byte" : "bytes",
                     bytes > 0 ? "more" : "less",
                     categories.empty() ? "" : " (" + categories + ")");
}

std::string words_of(const Peak& peak, const TrialRecord& baseline, const TrialRecord& candidate) {
  std::vector<std::string> words;
  std::set<std::string> distinct;
  for_each_rank(baseline, candidate, [&](const RankRecord& a, const RankRecord& b) {
    const std::string of_rank = peak_words_of_rank(peak, a, b);
    if (of_rank.empty()) return;
    distinct.insert(of_rank);
    words.push_back(fmt::format("{} of rank {} {}", peak.name, a.rank, of_rank));
  });
  if (words.size() > 1 && words.size() == baseline.ranks.size() && distinct.size() == 1) {
    return fmt::format("{} of every rank {}", peak.name, *distinct.begin());
  }
  return fmt::format("{}", fmt::join(words, "; "));
}

std::string peak_words(const TrialRecord& baseline, const TrialRecord& candidate) {
  std::vector<std::string> words;
  for (const Peak& peak : kPeaks) {
    const std::string of_peak = words_of(peak, baseline, candidate);
    if (!of_peak.empty()) words.push_back(of_peak);
  }
  return fmt::format("{}", fmt::join(words, "; "));
}

std::string outcome_text(const TrialRecord& trial) {
  const std::string status = results::to_string(trial.status);
  return trial.reason.empty() ? status : fmt::format("{} ({})", status, trial.reason);
}

std::string status_words(const TrialRecord& baseline, const TrialRecord& candidate) {
  if (baseline.status == candidate.status) return "";
  return fmt::format("the candidate is {} where the baseline is {}", outcome_text(candidate),
                     outcome_text(baseline));
}

// Returns whether the trial left exact counts: one that ended otherwise did not.
bool comparable(const TrialRecord* trial) {
  return trial->status == Status::Ok || trial->status == Status::Oom;
}

std::string nothing_in(const char* side, const Trials& trials) {
  if (trials.empty()) return fmt::format("the {} has no trial of this row", side);
  return fmt::format("the {} is {}: nothing to compare", side, outcome_text(*trials.front()));
}

// In which the baseline differs from itself.
std::vector<CountDifference> own_differences(const Trials& baseline, const TrialRecord& reference) {
  std::vector<CountDifference> differences;
  for (const TrialRecord* trial : baseline) {
    if (!comparable(trial)) continue;
    std::ranges::copy(count_differences(reference, *trial), std::back_inserter(differences));
  }
  return differences;
}

bool is_of_peaks(const CountDifference& difference) {
  return difference.what == kPeakDifference;
}

bool has_kind(const std::vector<CountDifference>& differences, const std::string& what) {
  return std::ranges::find(differences, what, &CountDifference::what) != differences.end();
}

bool knows_peaks(const TrialRecord* trial) {
  return std::ranges::all_of(
      trial->ranks, [](const RankRecord& rank) { return rank.peak_allocated_bytes.has_value(); });
}

bool any_without_peaks(const Trials& trials) {
  return std::ranges::any_of(
      trials, [](const TrialRecord* trial) { return comparable(trial) && !knows_peaks(trial); });
}

// Returns why peaks of training commands cannot be held; "" where they can, or no peak is known.
std::string why_no_peaks(const Trials& baseline, const Trials& candidate,
                         const std::vector<CountDifference>& own) {
  const bool in_baseline = !any_without_peaks(baseline);
  const bool in_candidate = !any_without_peaks(candidate);
  if (in_baseline != in_candidate) {
    return fmt::format("that of the {} is not known", in_baseline ? "candidate" : "baseline");
  }
  const auto found = std::ranges::find(own, kPeakDifference, &CountDifference::what);
  return found == own.end() ? "" : "the baseline's own starts differ: " + found->sentence;
}

}  // namespace

void to_json(json& out, const CountDifference& difference) {
  out = {{"what", difference.what}, {"sentence", difference.sentence}};
}

std::vector<CountDifference> count_differences(const TrialRecord& baseline,
                                               const TrialRecord& candidate) {
  std::vector<CountDifference> differences;
  const auto add = [&](const char* what, const std::string& sentence) {
    if (!sentence.empty()) differences.push_back({what, sentence});
  };
  // An invalid trial has its events: they say why. Others that did not end well have nothing.
  if (!baseline.ranks.empty() && !candidate.ranks.empty()) {
    const std::string ranks = ranks_words(baseline, candidate);
    add("ranks", ranks);
    if (ranks.empty()) add("events", events_words(baseline, candidate));
    add("collectives", collectives_words(baseline, candidate));
    add("buckets", buckets_words(baseline, candidate));
    add("gradient_bytes", gradient_bytes_words(baseline, candidate));
    if (ranks.empty()) add(kPeakDifference, peak_words(baseline, candidate));
  }
  add("status", status_words(baseline, candidate));
  return differences;
}

RowCounts compare_counts(const Trials& baseline, const Trials& candidate, Peaks peaks) {
  const auto found = std::find_if(baseline.begin(), baseline.end(), comparable);
  if (found == baseline.end()) return {{}, nothing_in("baseline", baseline), ""};
  RowCounts counts;
  std::vector<CountDifference> own = own_differences(baseline, **found);
  if (peaks == Peaks::WhereSteady) {
    counts.no_peaks_because = why_no_peaks(baseline, candidate, own);
    std::erase_if(own, is_of_peaks);
  }
  if (!own.empty()) {
    counts.unfit_because = "the baseline's own trials differ: " + own.front().sentence;
  }
  bool any = false;
  for (const TrialRecord* trial : candidate) {
    if (trial->status == Status::Skipped) continue;
    any = true;
    counts.differences = count_differences(**found, *trial);
    std::erase_if(counts.differences, [&](const CountDifference& difference) {
      return has_kind(own, difference.what) ||
             (is_of_peaks(difference) && !counts.no_peaks_because.empty());
    });
    if (!counts.differences.empty()) break;
  }
  if (!any) counts.unfit_because = nothing_in("candidate", candidate);
  return counts;
}

std::vector<MissingRow> missing_rows(const std::vector<Row>& baseline,
                                     const std::vector<Row>& candidate) {
  std::vector<MissingRow> missing;
  const auto add = [&](const std::vector<Row>& rows, const std::vector<Row>& others,
                       const char* sentence) {
    for (const Row& row : rows) {
      if (std::find(others.begin(), others.end(), row) != others.end()) continue;
      missing.push_back({row, {"row", sentence}});
    }
  };
  add(baseline, candidate, "the candidate does not have this row");
  add(candidate, baseline, "the baseline does not have this row; if it is new, renew the baseline");
  return missing;
}

}  // namespace gradsync::gate
