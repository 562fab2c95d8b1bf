// What the verdicts on excess and on drift share.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>

#include "harness/watch/judge/verdicts/verdict.h"

namespace gradsync::watch {

template <typename Predicate>
bool most(const Counted& steps, Predicate holds) {
  return 2 * std::count_if(steps.begin(), steps.end(), holds) > std::ssize(steps);
}

bool has_event(const RankEvents& rank, EventKind kind);

// Returns the last event of a kind that begins before `before_ns`; null where there is none.
const Event* last_before(const RankEvents& rank, EventKind kind, std::int64_t before_ns);

// Returns the last setting of a flag that begins before `before_ns`; null where there is none.
const Event* last_flag_before(const RankEvents& rank, std::string_view flag,
                              std::int64_t before_ns);

// Whether gradients were cleared or used between two micro-batches of the step.
bool is_cleared_between(const StepCounts* step);

// Whether they are in most of the usual steps: what their micro-batches add is no sum.
bool does_not_add_up(const UsualStep& usual);
Verdict judge_cleared(const StepCounts& example);  // of such

}  // namespace gradsync::watch
