// Plays a recorded pass into the account of a step. At a mark, the caller does what the wrapper
// does.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "harness/memory/memory_account.h"
#include "models/memory_profile.h"
#include "models/recorded_tensors.h"

namespace gradsync::memory {

// The model's own tensors: one by one where the profile follows them, else in sums.
class RecordedModel {
 public:
  RecordedModel(const models::MemoryProfile& profile, MemoryAccount& account)
      : profile_(profile), account_(account) {}

  // `on_mark` gets every event that is not Hold.
  template <typename OnMark>
  void play(const std::vector<models::PassEvent>& pass, const OnMark& on_mark) {
    for (const models::PassEvent& event : pass) {
      if (event.kind != models::PassEvent::Kind::Hold) {
        on_mark(event);
      } else if (account_.has_blocks()) {
        for (const models::BlockChange& change : profile_.changes[event.index]) play(change);
      } else {
        account_.hold(measure::MemoryCategory::Activation, event.high);
        account_.free(measure::MemoryCategory::Activation, event.high - event.net);
      }
    }
  }

  // Returns the tensor of a gradient that was made. The caller owns it from now on.
  HeldTensor take_gradient(const models::PassEvent& event) {
    HeldTensor gradient{measure::MemoryCategory::Activation, event.net};
    if (account_.has_blocks() && event.net > 0) gradient = *tensors_.take(event.net, event.age);
    account_.relabel(gradient, measure::MemoryCategory::UnshardedGradient);
    return gradient;
  }

 private:
  void play(const models::BlockChange& change) {
    if (change.is_made) {
      tensors_.add(change.bytes,
                   account_.hold_tensor(measure::MemoryCategory::Activation, change.bytes));
    } else {
      account_.free(*tensors_.take(change.bytes, change.age));
    }
  }

  const models::MemoryProfile& profile_;
  MemoryAccount& account_;
  models::RecordedTensors<HeldTensor> tensors_;
};

// Returns the account of a job on `profile`.
inline MemoryAccount account_of(const models::MemoryProfile& profile) {
  if (profile.changes.empty()) return {};
  return MemoryAccount(DeviceMemory{.is_gpu = profile.is_of_gpu});
}

// Returns what `step` holds once it is steady. Where tensors are followed one by one, steps before
// that decide about segments: the first one, which has no moments, and as many as follow.
template <typename Step>
StepMemory steady_memory(Step& step, const std::vector<bool>& syncs, MemoryAccount& account) {
  constexpr int kSteadySteps = 2;
  if (account.has_blocks()) step.play(syncs);
  step.make_moments();
  step.end_step();
  account.forget_peak();
  step.play(syncs);
  for (int i = 1; account.has_blocks() && i < kSteadySteps; ++i) {
    step.end_step();
    step.play(syncs);
  }
  return account.memory();
}

// Returns whether micro-batch i starts from the same state as the one before and does the same: the
// third of three equal ones. It holds the same memory, and need not be played. A few more may still
// need other segments.
inline bool repeats(const std::vector<bool>& syncs, std::size_t i, const MemoryAccount& account) {
  const std::size_t alike = account.has_blocks() ? 6 : 3;
  if (i + 1 < alike) return false;
  const auto last = syncs.begin() + static_cast<std::ptrdiff_t>(i) + 1;
  return std::all_of(last - static_cast<std::ptrdiff_t>(alike), last,
                     [&](bool sync) { return sync == syncs[i]; });
}

// Returns the state of the fused AdamW for a tensor of `bytes`: a counter and two moments.
inline void hold_moments(std::int64_t bytes, MemoryAccount& account) {
  for (const std::int64_t tensor : {models::kFloatBytes, bytes, bytes}) {
    account.hold(measure::MemoryCategory::OptimizerState, tensor);
  }
}

// Holds what exists without any wrapper and is no parameter.
inline void hold_data(const models::MemoryProfile& profile, MemoryAccount& account) {
  const std::vector<std::int64_t> whole{profile.batch_bytes};
  for (const auto* tensors :
       {account.has_blocks() ? &profile.batch_tensors_bytes : &whole, &profile.buffer_bytes}) {
    for (const std::int64_t bytes : *tensors) account.hold(measure::MemoryCategory::Other, bytes);
  }
}

}  // namespace gradsync::memory
