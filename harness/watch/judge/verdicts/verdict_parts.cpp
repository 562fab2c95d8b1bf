#include "harness/watch/judge/verdicts/verdict_parts.h"

#include <fmt/format.h>

#include <utility>

namespace gradsync::watch {

Verdict not_recognised(const std::string& why) {
  return {VerdictKind::NotRecognised, "not recognised", why, std::nullopt, false};
}

Verdict not_in_file(const std::string& what) {
  return {VerdictKind::NotInFile, "not in this file: " + what, "", std::nullopt, false};
}

std::string at(const Event& event) {
  const std::string place = place_text(event.file, event.line);
  return place.empty() ? "" : ", " + place;
}

Change change_at(const Event& event, std::string what) {
  return {event.file, event.line, std::move(what)};
}

bool has_event(const RankEvents& rank, EventKind kind) {
  return std::any_of(rank.events.begin(), rank.events.end(),
                     [&](const Event& event) { return event.kind == kind; });
}

const Event* last_before(const RankEvents& rank, EventKind kind, std::int64_t before_ns) {
  const Event* last = nullptr;
  for (const Event& event : rank.events) {
    if (event.start_ns >= before_ns) break;
    if (event.kind == kind) last = &event;
  }
  return last;
}

const Event* last_flag_before(const RankEvents& rank, std::string_view flag,
                              std::int64_t before_ns) {
  const Event* last = nullptr;
  for (const Event& event : rank.events) {
    if (event.start_ns >= before_ns) break;
    const bool is_it = event.name == flag || (flag == kGradientFlag && is_of_gradients(event));
    if (event.kind == EventKind::Sync && is_it) last = &event;
  }
  return last;
}

std::string how_often(int synchronized, int micro_batches) {
  if (synchronized == micro_batches) {
    return fmt::format("in every micro-batch ({} x per step; 1 is enough)", synchronized);
  }
  return fmt::format("in {} of {} micro-batches of a step (1 is enough)", synchronized,
                     micro_batches);
}

bool is_cleared_between(const StepCounts* step) {
  return !step->step->clearings.empty();
}

bool does_not_add_up(const UsualStep& usual) {
  return is_cleared_between(usual.example) && most(usual.all, is_cleared_between);
}

Verdict judge_cleared(const StepCounts& example) {
  constexpr const char* kBetween = "between the micro-batches of a step";
  const Event& clearing = *example.step->clearings.front();
  if (clearing.detail == kUnclear) {
    return not_in_file(
        fmt::format("whether gradients are read or cleared, or parameters changed, {}{}", kBetween,
                    clearing.name.empty() ? "" : fmt::format(", where {} runs", clearing.name)));
  }
  if (clearing.detail == kRead) {
    return not_recognised(
        fmt::format("gradients are read {}{}: what is read may need a synchronization of its own",
                    kBetween, at(clearing)));
  }
  if (clearing.detail == kParameters) {
    return not_recognised(
        fmt::format("parameters are changed {}{}, so each may need a synchronization of its own",
                    kBetween, at(clearing)));
  }
  return not_recognised(fmt::format(
      "gradients are {} {}{}, so they do not add up: each may need a synchronization of its own",
      clearing.detail == kByHand ? "changed by hand" : "cleared", kBetween, at(clearing)));
}

}  // namespace gradsync::watch
