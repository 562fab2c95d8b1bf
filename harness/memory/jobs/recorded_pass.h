// Plays a recorded pass into the books of a step. What the wrapper does at a mark is the caller's.
#pragma once

#include <vector>

#include "harness/memory/memory_account.h"
#include "models/memory_profile.h"

namespace gradsync::memory {

// `on_mark` gets every event that is not Hold.
template <typename OnMark>
void play(const std::vector<models::PassEvent>& pass, MemoryAccount& account,
          const OnMark& on_mark) {
  for (const models::PassEvent& event : pass) {
    if (event.kind != models::PassEvent::Kind::Hold) {
      on_mark(event);
      continue;
    }
    account.hold(measure::MemoryCategory::Activation, event.high);
    account.free(measure::MemoryCategory::Activation, event.high - event.net);
  }
}

// Whether micro-batch i finds what the one before found and does what that did: the third of three
// alike. It holds the same, and need not be played.
inline bool repeats(const std::vector<bool>& syncs, std::size_t i) {
  return i >= 2 && syncs[i] == syncs[i - 1] && syncs[i - 1] == syncs[i - 2];
}

// AdamW's, fused: two moments of each element that a rank steps, and a counter of each tensor.
inline void hold_moments(std::int64_t bytes, std::int64_t tensors, MemoryAccount& account) {
  constexpr int kMoments = 2;
  account.hold(measure::MemoryCategory::OptimizerState,
               kMoments * bytes + tensors * models::kFloatBytes);
}

// What is there without any wrapper and is no parameter.
inline void hold_data(const models::MemoryProfile& profile, MemoryAccount& account) {
  account.hold(measure::MemoryCategory::Other, profile.batch_bytes);
  for (const std::int64_t bytes : profile.buffer_bytes) {
    account.hold(measure::MemoryCategory::Other, bytes);
  }
}

}  // namespace gradsync::memory
