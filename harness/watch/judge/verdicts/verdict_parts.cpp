#include "harness/watch/judge/verdicts/verdict_parts.h"

#include <fmt/format.h>

#include "harness/watch/judge/verdicts/verdict_words.h"

namespace gradsync::watch {

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

bool is_cleared_between(const StepCounts* step) {
  return !step->step->clearings.empty();
}

bool does_not_add_up(const UsualStep& usual) {
  return is_cleared_between(usual.example) && most(usual.all, is_cleared_between);
}

Verdict judge_cleared(const StepCounts& example) {
  const Event& clearing = *example.step->clearings.front();
  if (clearing.detail == kUnclear) {
    return not_in_file(
        Cause::BetweenNotTold,
        {.given = clearing.name.empty() ? "" : fmt::format(", where {} runs", clearing.name)});
  }
  if (clearing.detail == kRead) return not_recognised(Cause::GradientsRead, {.at = &clearing});
  if (clearing.detail == kParameters) {
    return not_recognised(Cause::ParametersChanged, {.at = &clearing});
  }
  return not_recognised(
      clearing.detail == kByHand ? Cause::GradientsChangedByHand : Cause::GradientsCleared,
      {.at = &clearing});
}

}  // namespace gradsync::watch
