#include "harness/watch/judge/wastes/wastes.h"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <utility>

#include "harness/base/clock.h"
#include "harness/stats/sample.h"
#include "harness/watch/judge/examined.h"
#include "harness/watch/judge/wastes/chatter.h"
#include "harness/watch/judge/wastes/last_reductions.h"
#include "harness/watch/judge/wastes/savings.h"
#include "harness/watch/judge/wastes/unread.h"
#include "harness/watch/judge/wastes/waste_words.h"

namespace gradsync::watch {
namespace {

// A share of a step's time: a waste that would save less is not reported. Smaller: noise of the
// times is reported.
constexpr double kWorthwhile = 0.03;
constexpr std::int64_t kStepsOfChatter = 5;  // fewer: the median is one slow step's
// Gradients that could not fill so many buckets of the least size, or of their largest tensor, have
// little to overlap. So many collectives for one that is enough are not many.
constexpr std::int64_t kFewBuckets = 4;
constexpr std::int64_t kMany = 16;

// The last synchronizations of one step, by rank.
using OfRanks = std::vector<LastReductions>;

// Returns the bytes of the largest tensor; nothing where it is not recorded. 0 where the job
// reduces tensors of its own choice by hand: it may choose others.
std::optional<std::int64_t> largest_bytes(const LastReductions& last) {
  if (last.models > 1) return std::nullopt;
  if (last.wrap != nullptr) return option_of(*last.wrap, "largest_parameter_bytes");
  if (!are_of_one_tensor_each(last)) return 0;
  const auto largest =
      std::ranges::max_element(last.reductions, {}, [](const Event* each) { return each->bytes; });
  return (*largest)->bytes;
}

bool are_many(const LastReductions& last) {
  const std::int64_t count = std::ssize(last.reductions);
  const bool are_known_for_gradients = last.wrap != nullptr || are_of_one_tensor_each(last);
  return are_known_for_gradients && (count >= kMany || last.models > 1) &&
         count >= kFewBuckets * buckets_for(last.bytes);
}

bool could_overlap(const LastReductions& last) {
  const auto largest = largest_bytes(last);
  return largest && begin_behind_backward(last) &&
         last.bytes >= kFewBuckets * std::max(*largest, kMebibyte);
}

std::vector<WasteKind> kinds_of(const LastReductions& last) {
  std::vector<WasteKind> kinds;
  if (are_many(last)) kinds.push_back(WasteKind::SmallReductions);
  if (could_overlap(last)) {
    const bool is_one_bucket = last.wrap != nullptr && last.reductions.size() == 1;
    kinds.push_back(is_one_bucket ? WasteKind::OneBucket : WasteKind::NoOverlap);
  }
  return kinds;
}

// Returns the last reductions of a step on every rank; nothing where one of them is not clear, or
// they do not reduce alike.
std::optional<OfRanks> of_ranks(std::span<const Examined> ranks, std::size_t index) {
  OfRanks all;
  for (const Examined& rank : ranks) {
    auto last = last_reductions(*rank.events, rank.steps, rank.counts[index]);
    if (!last) return std::nullopt;
    all.push_back(std::move(*last));
    if (all.back().reductions.size() != all.front().reductions.size() ||
        kinds_of(all.back()) != kinds_of(all.front())) {
      return std::nullopt;
    }
  }
  return all;
}

// Returns the times on the rank with the smallest total: it came last to the collectives. Empty
// where a rank's times are not known.
std::vector<TimedReduction> timed(const OfRanks& all) {
  std::vector<TimedReduction> least;
  double least_s = std::numeric_limits<double>::max();
  for (const LastReductions& rank : all) {
    const std::vector<std::int64_t> wires = wires_ns(rank);
    if (wires.empty()) return {};
    const double sum_s = seconds(std::accumulate(wires.begin(), wires.end(), std::int64_t{0}));
    if (sum_s >= least_s) continue;
    least_s = sum_s;
    least.clear();
    for (std::size_t i = 0; i < wires.size(); ++i) {
      least.push_back({rank.reductions[i]->bytes, seconds(wires[i])});
    }
  }
  return least;
}

// Returns the least of all ranks, or the most.
template <typename Choose>
double of_all_s(const OfRanks& all, std::int64_t (*time_ns)(const LastReductions&), Choose choose) {
  std::int64_t chosen_ns = time_ns(all.front());
  for (const LastReductions& rank : all) chosen_ns = choose(chosen_ns, time_ns(rank));
  return seconds(chosen_ns);
}

// How many collectives less there would be.
double spared(const LastReductions& last) {
  return static_cast<double>(std::ssize(last.reductions) - buckets_for(last.bytes));
}

// What fewer collectives would save; where DDP has some in backward, what is behind it alone.
Known<double> fewer_save_s(const OfRanks& all, const std::vector<TimedReduction>& times) {
  const LastReductions& last = all.front();
  const auto each_s = cost_of_each_s(times);
  if (!each_s) return Unknown{"its reductions are of one size, so that none tells what each costs"};
  const double saved_s = spared(last) * *each_s;
  if (begin_behind_backward(last)) return saved_s;
  const auto less = [](std::int64_t a, std::int64_t b) { return std::min(a, b); };
  return std::min(saved_s, of_all_s(all, exposed_ns, less));
}

double hiding_saves_s(const OfRanks& all, const std::vector<TimedReduction>& times,
                      double spared_s) {
  const LastReductions& last = all.front();
  double wire_s = -spared_s;
  for (const TimedReduction& each : times) wire_s += each.wire_s;
  const std::int64_t bucket =
      std::max(bucket_bytes_for(last.bytes), largest_bytes(last).value_or(0));
  const auto more = [](std::int64_t a, std::int64_t b) { return std::max(a, b); };
  return overlap_saves_s(of_all_s(all, backward_ns, more), std::max(0.0, wire_s),
                         static_cast<double>(bucket) / static_cast<double>(last.bytes));
}

using Savings = std::map<WasteKind, Known<double>>;

// No collective costs more by itself than it takes with what it moves.
double spared_at_most_s(const OfRanks& all, const std::vector<TimedReduction>& times) {
  double wire_s = 0;
  for (const TimedReduction& each : times) wire_s = std::max(wire_s, each.wire_s);
  return spared(all.front()) * wire_s;
}

// `step_s`: of this step.
Savings savings_of(const OfRanks& all, double step_s) {
  Savings savings;
  const std::vector<TimedReduction> times = timed(all);
  double spared_s = 0;
  for (const WasteKind kind : kinds_of(all.front())) {
    if (times.empty()) {
      savings[kind] = Unknown{kNoEnds};
    } else if (kind == WasteKind::SmallReductions) {
      savings[kind] = fewer_save_s(all, times);
      if (savings[kind]) {
        spared_s = *savings[kind];
      } else if (spared_at_most_s(all, times) < kWorthwhile * step_s) {
        savings.erase(kind);
      }
    } else {
      savings[kind] = hiding_saves_s(all, times, spared_s);
    }
  }
  return savings;
}

// The median of those that are known, which is known where one is.
Known<double> median_of(const std::vector<Savings>& steps, WasteKind kind) {
  std::vector<double> known_s;
  std::string why_not;
  for (const Savings& step : steps) {
    const auto found = step.find(kind);
    if (found == step.end()) continue;
    if (found->second) {
      known_s.push_back(*found->second);
    } else {
      why_not = found->second.why_not();
    }
  }
  if (known_s.empty()) return Unknown{why_not};
  return stats::quantile(known_s, 0.5);
}

// In most of the steps that count, and in the one that stands for them.
std::vector<WasteKind> usual_kinds(const std::vector<Savings>& steps, const Savings& example) {
  std::vector<WasteKind> kinds;
  for (const auto& [kind, saved_s] : example) {
    const auto having = std::ranges::count_if(
        steps, [kind = kind](const Savings& step) { return step.contains(kind); });
    if (2 * having > std::ssize(steps)) kinds.push_back(kind);
  }
  return kinds;
}

double median_step_s(const UsualStep& usual) {
  std::vector<double> steps_s;
  for (const StepCounts* step : usual.all) steps_s.push_back(step->duration_s());
  return stats::quantile(steps_s, 0.5);
}

}  // namespace

bool is_chatter(WasteKind kind) {
  return kind >= WasteKind::Barriers;
}

namespace {

std::size_t index_of(const StepCounts* step, const Examined& rank) {
  return static_cast<std::size_t>(step - rank.counts.data());
}

std::vector<Waste> wastes_of_reductions(std::span<const Examined> ranks, const UsualStep& usual) {
  const Examined& first = ranks.front();
  const auto example = of_ranks(ranks, index_of(usual.example, first));
  if (!example) return {};
  std::vector<Savings> steps;
  for (const StepCounts* step : usual.all) {
    const auto all = of_ranks(ranks, index_of(step, first));
    steps.push_back(all ? savings_of(*all, step->duration_s()) : Savings());
  }
  std::vector<Waste> wastes;
  for (const WasteKind kind :
       usual_kinds(steps, savings_of(*example, usual.example->duration_s()))) {
    const Known<double> saved_s = median_of(steps, kind);
    if (saved_s && *saved_s < kWorthwhile * median_step_s(usual)) continue;
    wastes.push_back(waste_in_words(kind, example->front()));
    wastes.back().saved_s = saved_s;
  }
  return wastes;
}

using ChatterByKind = std::map<WasteKind, Chatter>;

Savings savings_of(const ChatterByKind& all) {
  Savings savings;
  for (const auto& [kind, chatter] : all) savings[kind] = chatter.saved_s;
  return savings;
}

double median_s(const std::vector<ChatterByKind>& steps, WasteKind kind, const CallPlace& line) {
  std::vector<double> takes;
  for (const ChatterByKind& step : steps) {
    const auto found = step.find(kind);
    takes.push_back(found == step.end() ? 0 : takes_s(found->second, line));
  }
  return stats::quantile(takes, 0.5);
}

// What is left of timed calls without the lines that take less than `least_s` in the median step.
Chatter without_cheap_lines(Chatter chatter, const std::vector<ChatterByKind>& steps,
                            WasteKind kind, double least_s) {
  double saved_s = 0;
  chatter.calls = 0;
  std::erase_if(chatter.places, [&](const CallPlace& line) {
    const double line_s = median_s(steps, kind, line);
    if (line_s < least_s) return true;
    saved_s += line_s;
    chatter.calls += line.calls;
    return false;
  });
  chatter.saved_s = saved_s;
  return chatter;
}

// Adds what of a step's chatter is worth telling: lines that take some time, and of what is not
// timed, many calls. The step that stands for the others has its lines.
void add_chatter(std::vector<Waste>& wastes, std::span<const Examined> ranks,
                 const UsualStep& usual) {
  const Examined& first = ranks.front();
  std::vector<ChatterByKind> steps;
  std::vector<Savings> savings;
  for (const StepCounts* step : usual.all) {
    steps.push_back(chatter_of(ranks, index_of(step, first)));
    savings.push_back(savings_of(steps.back()));
  }
  const double worthwhile_s = kWorthwhile * median_step_s(usual);
  const ChatterByKind example = chatter_of(ranks, index_of(usual.example, first));
  for (const WasteKind kind : usual_kinds(savings, savings_of(example))) {
    Chatter chatter = example.at(kind);
    if (median_of(savings, kind)) {
      chatter = without_cheap_lines(std::move(chatter), steps, kind, worthwhile_s);
      if (chatter.places.empty()) continue;
    } else if (chatter.calls < kMany && takes_s(chatter) < worthwhile_s) {
      continue;
    }
    wastes.push_back(chatter_in_words(kind, chatter, chatter.saved_s));
  }
}

}  // namespace

std::vector<Waste> wastes_of(std::span<const Examined> ranks) {
  const auto usual = usual_step(ranks.front().counts);
  // In its first step DDP has one bucket for all gradients, whatever its options say.
  if (!usual || not_skipped(ranks.front().counts).size() < 2) return {};
  std::vector<Waste> wastes = wastes_of_reductions(ranks, *usual);
  if (auto unread = unread_gradients(ranks.front())) wastes.push_back(std::move(*unread));
  if (std::ssize(usual->all) >= kStepsOfChatter) add_chatter(wastes, ranks, *usual);
  return wastes;
}

}  // namespace gradsync::watch
