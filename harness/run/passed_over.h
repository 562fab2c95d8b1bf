// Micro-batches of one step that did not run, since they repeat the one before (repetition.h).
#pragma once

namespace gradsync::run {

// From `first` to before `end`; none where they are equal.
struct PassedOver {
  int first = 0;
  int end = 0;

  int count() const { return end - first; }
  bool contains(int micro_batch) const { return micro_batch >= first && micro_batch < end; }
};

}  // namespace gradsync::run
