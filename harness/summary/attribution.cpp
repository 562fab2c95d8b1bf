#include "harness/summary/attribution.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>

namespace gradsync::summary {

using results::Attribution;
using results::kTimeParts;
using results::RankRecord;
using results::RankShare;
using results::TimelineEvent;
using results::TimelinePhase;
using results::TimePart;
using results::TrialRecord;

namespace {

bool same_collectives(const RankRecord& a, const RankRecord& b) {
  const auto same = [](const TimelineEvent& left, const TimelineEvent& right) {
    return left.op == right.op && left.bytes == right.bytes &&
           left.micro_batch == right.micro_batch && left.bucket == right.bucket;
  };
  return std::equal(a.timeline_events.begin(), a.timeline_events.end(), b.timeline_events.begin(),
                    b.timeline_events.end(), same);
}

bool knows_its_times(const RankRecord& rank) {
  const auto known = [](const auto& span) {
    return std::isfinite(span.start_s) && std::isfinite(span.end_s);
  };
  return !rank.step_s.empty() && std::isfinite(rank.step_s.back()) && rank.step_s.back() >= 0 &&
         std::ranges::all_of(rank.timeline_events, known) &&
         std::ranges::all_of(rank.timeline_phases, known);
}

std::string obstacle_in(const TrialRecord& trial) {
  if (trial.cell.hybrid_shard()) {
    return "hybrid sharding: which ranks took part in a collective is not recorded";
  }
  for (const RankRecord& rank : trial.ranks) {
    if (!knows_its_times(rank)) {
      return fmt::format("rank {} has no whole timeline of a step", rank.rank);
    }
    if (!same_collectives(trial.ranks.front(), rank)) {
      return fmt::format("ranks {} and {} did not take part in the same collectives",
                         trial.ranks.front().rank, rank.rank);
    }
  }
  return "";
}

// How far off the difference of two hosts' clocks may be; 0: one host, or one clock.
double error_between_hosts_s(const TrialRecord& trial, const HostClocks& clocks) {
  std::map<int, double> by_node;
  for (const RankRecord& rank : trial.ranks) by_node[rank.node] = clocks.of(rank.node)->error_s;
  std::vector<double> errors_s;
  for (const auto& [node, error_s] : by_node) errors_s.push_back(error_s);
  std::ranges::sort(errors_s, std::greater<>());
  return errors_s.size() > 1 ? errors_s[0] + errors_s[1] : 0;
}

// Which rank issued collective `index` last, and when, as the rank at `here` counts.
CollectiveParts last_to_issue(const TrialRecord& trial, const std::vector<double>& starts_s,
                              std::size_t here, std::size_t index) {
  CollectiveParts collective;
  for (std::size_t i = 0; i < trial.ranks.size(); ++i) {
    // The difference first: this rank's own moment then stays what it is, to the last bit.
    const double issued_s =
        trial.ranks[i].timeline_events[index].start_s + (starts_s[i] - starts_s[here]);
    if (i > 0 && issued_s <= collective.all_issued_s) continue;
    collective.last_rank = trial.ranks[i].rank;
    collective.all_issued_s = issued_s;
  }
  return collective;
}

// Every moment of the step at which something may change, from its beginning to its end.
std::vector<double> moments_s(const RankRecord& rank,
                              const std::vector<CollectiveParts>& collectives) {
  const double end_s = rank.step_s.back();
  std::vector<double> moments{0, end_s};
  const auto add = [&](double at_s) { moments.push_back(std::clamp(at_s, 0.0, end_s)); };
  for (const TimelinePhase& phase : rank.timeline_phases) {
    add(phase.start_s);
    add(phase.end_s);
  }
  for (const TimelineEvent& event : rank.timeline_events) {
    add(event.start_s);
    add(event.end_s);
  }
  for (const CollectiveParts& collective : collectives) add(collective.all_issued_s);
  std::ranges::sort(moments);
  return moments;
}

// The first of `spans`, in their order, that lasts from `from_s` to `to_s` or longer, and for which
// `wanted` is true.
template <typename Span, typename Wanted>
std::optional<std::size_t> first_over(const std::vector<Span>& spans, double from_s, double to_s,
                                      Wanted wanted) {
  for (std::size_t i = 0; i < spans.size(); ++i) {
    if (spans[i].start_s <= from_s && spans[i].end_s >= to_s && wanted(spans[i])) return i;
  }
  return std::nullopt;
}

// Between two moments nothing changes: the whole stretch is charged to one thing.
void charge(RankParts& out, const RankRecord& rank, double from_s, double to_s) {
  const auto during = [&](const char* name) {
    const auto is_named = [name](const TimelinePhase& phase) { return phase.phase == name; };
    return first_over(rank.timeline_phases, from_s, to_s, is_named).has_value();
  };
  const auto any = [](const TimelineEvent&) { return true; };
  const auto head = first_over(rank.timeline_events, from_s, to_s, any);
  const auto its_own = std::ranges::find_if(
      kTimeParts, [&](const TimePart& part) { return *part.phase != 0 && during(part.phase); });
  double TimeParts::*part = &TimeParts::own_compute_s;
  if (its_own != kTimeParts.end()) {
    part = its_own->seconds;
  } else if (head && during("wait")) {
    const bool all_issued = from_s >= out.collectives[*head].all_issued_s;
    part = all_issued ? &TimeParts::wire_s : &TimeParts::late_peer_s;
  }
  out.parts.*part += to_s - from_s;
  if (head) out.collectives[*head].parts.*part += to_s - from_s;
}

RankParts rank_parts(const TrialRecord& trial, const std::vector<double>& starts_s,
                     std::size_t here) {
  const RankRecord& rank = trial.ranks[here];
  RankParts out;
  out.rank = rank.rank;
  out.node = rank.node;
  for (std::size_t i = 0; i < rank.timeline_events.size(); ++i) {
    out.collectives.push_back(last_to_issue(trial, starts_s, here, i));
  }
  const std::vector<double> moments = moments_s(rank, out.collectives);
  for (std::size_t i = 0; i + 1 < moments.size(); ++i) {
    if (moments[i] < moments[i + 1]) charge(out, rank, moments[i], moments[i + 1]);
  }
  return out;
}

void add_to(TimeParts& sum, const TimeParts& more) {
  for (const TimePart& part : kTimeParts) sum.*part.seconds += more.*part.seconds;
}

// Sums over the example steps of several trials, of one rank.
struct RankSum {
  int node = 0;
  TimeParts parts;
  std::map<int, double> waited_for_s;
  std::vector<std::pair<TimelineEvent, TimeParts>> collectives;  // the first event of its kind

  void add(const RankParts& rank, const std::vector<TimelineEvent>& events) {
    node = rank.node;
    add_to(parts, rank.parts);
    for (std::size_t i = 0; i < events.size(); ++i) {
      const CollectiveParts& collective = rank.collectives[i];
      add_to(sum_of(events[i]), collective.parts);
      if (collective.parts.late_peer_s > 0) {
        waited_for_s[collective.last_rank] += collective.parts.late_peer_s;
      }
    }
  }

 private:
  TimeParts& sum_of(const TimelineEvent& event) {
    const auto found = std::ranges::find_if(collectives, [&](const auto& entry) {
      return entry.first.op == event.op && entry.first.bucket == event.bucket;
    });
    if (found != collectives.end()) return found->second;
    return collectives.emplace_back(event, TimeParts{}).second;
  }
};

TimeParts mean_of(const TimeParts& sum, double steps) {
  TimeParts mean;
  for (const TimePart& part : kTimeParts) mean.*part.seconds = sum.*part.seconds / steps;
  return mean;
}

RankShare share_of(int rank, const RankSum& sum, double steps) {
  RankShare share;
  static_cast<TimeParts&>(share) = mean_of(sum.parts, steps);
  share.rank = rank;
  share.node = sum.node;
  for (const auto& [late, waited_s] : sum.waited_for_s) {
    share.waited_for_s[std::to_string(late)] = waited_s / steps;
  }
  for (const auto& [event, parts] : sum.collectives) {
    share.collectives.push_back({mean_of(parts, steps), event.op, event.bucket});
  }
  return share;
}

}  // namespace

std::vector<double> step_starts_s(const TrialRecord& trial, const HostClocks& clocks,
                                  std::string& why_unknown) {
  why_unknown = trial.ranks.empty() ? "no rank left a timeline" : "";
  std::vector<double> starts_s;
  for (const RankRecord& rank : trial.ranks) {
    const auto offset = clocks.of(rank.node);
    if (!rank.timeline_start_s) {
      why_unknown = "recorded before the beginning of a step was kept";
      return {};
    }
    if (!offset) {
      why_unknown =
          fmt::format("the clock of node {} was not compared with the leading host's", rank.node);
      return {};
    }
    starts_s.push_back(*rank.timeline_start_s - offset->offset_s);
  }
  if (starts_s.empty()) return {};
  const double first_s = *std::ranges::min_element(starts_s);
  for (double& start_s : starts_s) start_s -= first_s;
  return starts_s;
}

AttributedStep attribute_step(const TrialRecord& trial, const HostClocks& clocks) {
  AttributedStep out;
  const std::vector<double> starts_s = step_starts_s(trial, clocks, out.unknown_because);
  if (out.unknown_because.empty()) out.unknown_because = obstacle_in(trial);
  if (!out.unknown_because.empty()) return out;
  out.clock_error_s = error_between_hosts_s(trial, clocks);
  for (std::size_t i = 0; i < starts_s.size(); ++i) {
    out.ranks.push_back(rank_parts(trial, starts_s, i));
  }
  return out;
}

Known<Attribution> attribution_of(const std::vector<const TrialRecord*>& trials,
                                  const HostClocks& clocks) {
  std::map<int, RankSum> sums;
  Attribution mean;
  std::string why_unknown = trials.empty() ? "no trial ended well" : "";
  for (const TrialRecord* trial : trials) {
    const AttributedStep step = attribute_step(*trial, clocks);
    if (step.ranks.empty()) {
      if (why_unknown.empty()) why_unknown = step.unknown_because;
      continue;
    }
    ++mean.steps;
    mean.clock_error_s = std::max(mean.clock_error_s, step.clock_error_s);
    for (std::size_t i = 0; i < step.ranks.size(); ++i) {
      sums[step.ranks[i].rank].add(step.ranks[i], trial->ranks[i].timeline_events);
    }
  }
  if (mean.steps == 0) return Unknown{why_unknown};
  for (const auto& [rank, sum] : sums) mean.ranks.push_back(share_of(rank, sum, mean.steps));
  return mean;
}

HostClocks::HostClocks(const results::Context& context) {
  if (!context.launcher) return;
  one_clock_ = false;
  if (context.resumed.value_or(false) || !context.clocks) return;
  for (const results::HostClockOffset& clock : *context.clocks) {
    if (clock.offset_s) by_node_[clock.node] = {*clock.offset_s, clock.error_s.value_or(0)};
  }
}

std::optional<HostClocks::Offset> HostClocks::of(int node) const {
  if (one_clock_) return Offset{};
  const auto found = by_node_.find(node);
  if (found == by_node_.end()) return std::nullopt;
  return found->second;
}

}  // namespace gradsync::summary
