#include "harness/watch/judge/wastes/chatter.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "harness/base/clock.h"
#include "harness/watch/judge/examined.h"
#include "harness/watch/judge/wastes/last_reductions.h"

namespace gradsync::watch {
namespace {

constexpr const char* kDeviceComputes =
    "a device computes while the host waits for it; how long it idles behind a read is not known";

using Line = std::pair<std::string, int>;  // file and number

Line line_of(const Event& call) {
  return {call.file, call.line};
}

bool is_busy(const Event& event) {
  return event.kind == EventKind::Forward || event.kind == EventKind::Backward ||
         event.kind == EventKind::OptimizerStep;
}

// Whether no more than a call's own time lies between the two.
bool follows_at_once(const Event& before, const Event& call) {
  return call.start_ns - before.end_ns <= before.end_ns - before.start_ns;
}

bool is_read(const Event& call) {
  return call.name.starts_with(kHostRead);
}

// Returns the calls that begin in a step outside of its forwards, backwards and optimizers, and
// reads of tensors anywhere in it.
EventPointers calls_between(const RankEvents& rank, const Step& step) {
  EventPointers calls;
  std::int64_t busy_until_ns = step.start_ns;
  auto next = std::ranges::lower_bound(rank.events, step.start_ns, {}, &Event::start_ns);
  for (; next != rank.events.end() && next->start_ns < step.end_ns; ++next) {
    if (is_busy(*next)) busy_until_ns = std::max(busy_until_ns, next->end_ns);
    const bool is_between = next->start_ns >= busy_until_ns;
    if (next->kind == EventKind::Call && (is_between || is_read(*next))) calls.push_back(&*next);
  }
  return calls;
}

struct Moved {
  int collectives = 0;
  std::int64_t bytes = 0;
  bool is_known = true;  // how many bytes
  bool has_ends = false;
  bool has_gradients = false;
};

Moved moved_by(const Event& call, const RankEvents& rank, const std::set<const Event*>& gradients) {
  Moved moved;
  auto inside = std::ranges::lower_bound(rank.events, call.start_ns, {}, &Event::start_ns);
  for (; inside != rank.events.end() && inside->start_ns <= call.end_ns; ++inside) {
    if (inside->kind != EventKind::Collective) continue;
    ++moved.collectives;
    moved.is_known &= inside->bytes >= 0;
    moved.bytes += std::max<std::int64_t>(0, inside->bytes);
    moved.has_ends |= inside->end_ns > inside->start_ns;
    moved.has_gradients |= gradients.contains(&*inside);
  }
  return moved;
}

std::optional<WasteKind> told_kind(const Event& call) {
  const std::string_view name = call.name;
  if (name.find("barrier") != std::string_view::npos) return WasteKind::Barriers;
  if (name.find("object") != std::string_view::npos) return WasteKind::ObjectCollectives;
  if (is_read(call)) return WasteKind::HostReads;
  return std::nullopt;
}

// Whether it counts something, or has ranks agree: no loss is a whole number, or the least of all.
bool counts_or_agrees(const Event& call) {
  constexpr std::array kWholes{"int", "uint", "bool"};
  constexpr std::array kAgreements{"min", "max", "product", "band", "bor", "bxor"};
  return std::ranges::any_of(kWholes, [&](auto type) { return call.detail.starts_with(type); }) ||
         std::ranges::any_of(kAgreements, [&](auto word) { return has_word(call, word); });
}

// Whether it comes between the first forward of a step and its optimizer, which may read it.
bool is_before_optimizer(const Event& call, const Step& step) {
  const MicroBatch& first = step.micro_batches.front();
  const Event& begin = is_wrapped(first) ? *first.forwards.front() : *first.backwards.front();
  return call.start_ns > begin.start_ns && call.start_ns < step.optimizers.front()->start_ns;
}

std::int64_t gradient_bytes(const Steps& steps) {
  std::int64_t least = std::numeric_limits<std::int64_t>::max();
  for (const auto& [model, bytes] : steps.gradient_bytes) least = std::min(least, bytes);
  return least;
}

// The lines of a step whose collectives may be of gradients or parameters.
class Lines {
 public:
  Lines(const Examined& rank, std::size_t index) : half_(gradient_bytes(rank.steps) / 2) {
    const auto last = last_reductions(*rank.events, rank.steps, rank.counts[index]);
    if (last && last->wrap == nullptr) {
      gradients_.insert(last->reductions.begin(), last->reductions.end());
    }
    for (const MicroBatch& micro_batch : rank.counts[index].step->micro_batches) {
      gradients_.insert(micro_batch.of_gradients.begin(), micro_batch.of_gradients.end());
    }
  }

  Moved see(const Event& call, const RankEvents& rank) {
    const Moved moved = moved_by(call, rank, gradients_);
    Of& line = lines_[line_of(call)];
    line.bytes += moved.bytes;
    line.is_large |= moved.collectives == 0 || !moved.is_known || moved.bytes > kSmallBytes;
    line.is_large |= moved.has_gradients;
    return moved;
  }

  bool is_small(const Event& call) const {
    const Of& line = lines_.at(line_of(call));
    return !line.is_large && line.bytes < half_;
  }

 private:
  struct Of {
    std::int64_t bytes = 0;
    bool is_large = false;
  };

  std::int64_t half_;  // of the gradients
  std::set<const Event*> gradients_;
  std::map<Line, Of> lines_;
};

// The calls of one kind, by rank.
using CallsOfRanks = std::vector<std::vector<Call>>;

double duration_s(const Call& call) {
  return seconds(call.event->end_ns - call.event->start_ns);
}

// Returns where the run of calls ends that begins at `begin`.
std::size_t end_of_run(const CallsOfRanks& ranks, std::size_t begin) {
  std::size_t end = begin + 1;
  const auto goes_on = [&](const std::vector<Call>& calls) {
    return calls[end].run == calls[begin].run;
  };
  while (end < ranks.front().size() && std::ranges::all_of(ranks, goes_on)) ++end;
  return end;
}

// The calls of the rank on which those from `begin` to `end` take least.
const std::vector<Call>& least_of(const CallsOfRanks& ranks, std::size_t begin, std::size_t end) {
  return *std::ranges::min_element(ranks, {}, [&](const std::vector<Call>& calls) {
    double sum_s = 0;
    for (std::size_t i = begin; i < end; ++i) sum_s += duration_s(calls[i]);
    return sum_s;
  });
}

void add_call(std::map<Line, CallPlace>& by_line, const Call& call) {
  const Line line = line_of(*call.event);
  CallPlace& place = by_line[line];
  place.file = line.first;
  place.line = line.second;
  ++place.calls;
  place.takes_s += duration_s(call);
}

Chatter chatter_of(const CallsOfRanks& ranks) {
  std::map<Line, CallPlace> by_line;
  double sum_s = 0;
  bool has_ends = true;
  const std::size_t count = ranks.front().size();
  for (std::size_t begin = 0, end = 0; begin < count; begin = end) {
    end = end_of_run(ranks, begin);
    const std::vector<Call>& calls = least_of(ranks, begin, end);
    for (std::size_t i = begin; i < end; ++i) {
      add_call(by_line, calls[i]);
      sum_s += duration_s(calls[i]);
      has_ends &= calls[i].has_ends;
    }
  }
  Chatter chatter;
  chatter.calls = static_cast<int>(count);
  chatter.saved_s = has_ends ? Known<double>(sum_s) : Unknown{kNoEnds};
  for (auto& [line, place] : by_line) chatter.places.push_back(std::move(place));
  std::ranges::stable_sort(chatter.places, std::greater{}, &CallPlace::takes_s);
  return chatter;
}

}  // namespace

Calls calls_of(const Examined& rank, std::size_t index) {
  const EventPointers between = calls_between(*rank.events, *rank.counts[index].step);
  if (between.empty()) return {};
  Calls calls;
  Lines lines(rank, index);
  std::vector<Call> collectives;
  int run = 0;
  const Event* before = between.front();
  for (const Event* event : between) {
    run += follows_at_once(*before, *event) ? 0 : 1;
    before = event;
    if (const auto kind = told_kind(*event)) {
      calls[*kind].push_back({event, true, run});
      continue;
    }
    const Moved moved = lines.see(*event, *rank.events);
    collectives.push_back({event, moved.has_ends, run});
  }
  std::erase_if(collectives, [&](const Call& call) { return !lines.is_small(*call.event); });
  for (const Call& call : collectives) {
    const bool may_decide =
        counts_or_agrees(*call.event) || is_before_optimizer(*call.event, *rank.counts[index].step);
    calls[may_decide ? WasteKind::Agreements : WasteKind::SmallCollectives].push_back(call);
  }
  return calls;
}

double takes_s(const Chatter& chatter) {
  double sum_s = 0;
  for (const CallPlace& place : chatter.places) sum_s += place.takes_s;
  return sum_s;
}

double takes_s(const Chatter& chatter, const CallPlace& line) {
  const auto found = std::ranges::find_if(chatter.places, [&](const CallPlace& place) {
    return place.file == line.file && place.line == line.line;
  });
  return found == chatter.places.end() ? 0 : found->takes_s;
}

std::map<WasteKind, Chatter> chatter_of(std::span<const Examined> ranks, std::size_t index) {
  std::map<WasteKind, CallsOfRanks> by_kind;
  for (const Examined& rank : ranks) {
    for (auto& [kind, calls] : calls_of(rank, index)) by_kind[kind].push_back(std::move(calls));
  }
  std::map<WasteKind, Chatter> all;
  for (auto& [kind, calls] : by_kind) {
    if (kind == WasteKind::HostReads) {
      calls.resize(1);  // no other rank waits for them
      Chatter reads = chatter_of(calls);
      reads.saved_s = Unknown{kDeviceComputes};
      all.emplace(kind, std::move(reads));
      continue;
    }
    const std::size_t of_first = calls.front().size();
    const bool are_alike =
        calls.size() == ranks.size() &&
        std::ranges::all_of(calls, [&](const auto& of_rank) { return of_rank.size() == of_first; });
    if (are_alike) all.emplace(kind, chatter_of(calls));
  }
  return all;
}

}  // namespace gradsync::watch
