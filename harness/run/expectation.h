// Checks a trial's steps: the number of micro-batches of each, its ledger against what wrapper and
// strategy declare, and its times against the clock around them. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "harness/comm/ledger.h"
#include "harness/measure/step_recorder.h"
#include "harness/results/records.h"
#include "harness/sync/collectives.h"

namespace gradsync::run {

// Micro-batches of one step that did not run, since they repeat the one before (repetition.h): from
// `first` to before `end`; none where they are equal.
struct PassedOver {
  int first = 0;
  int end = 0;

  int count() const { return end - first; }
  bool contains(int micro_batch) const { return micro_batch >= first && micro_batch < end; }
};

// Returns the totals of a step's collectives, as declared micro-batch by micro-batch.
results::OpCounts expected_of_step(const std::vector<sync::Collectives>& declared);

// Returns the collectives of `step` that the ledger holds, without set-up and barriers; for
// micro-batches that were passed over, the declared ones.
results::OpCounts counts_of_step(const std::vector<comm::CommEvent>& events, int step,
                                 const std::vector<sync::Collectives>& declared = {},
                                 const PassedOver& passed_over = {});

// Returns a sentence if the planned reductions do not cover all gradients, whose bytes were counted
// in another way; "" if they do, or if the bytes were not counted. Without this check, a Reducer
// that left a parameter out would be compared with its own plan.
std::string missing_gradients(const std::vector<std::int64_t>& reductions,
                              const std::optional<std::int64_t>& gradient_bytes);

// Returns the first difference in words, naming micro-batch and operation, or "" if the step's
// events are exactly those declared: operation by operation, in order, size by size. The ledger
// must hold no event of micro-batches that were passed over.
std::string first_mismatch(const std::vector<sync::Collectives>& declared,
                           const std::vector<comm::CommEvent>& events, int step,
                           const PassedOver& passed_over = {});

// Returns what is wrong in words, or "" where the steps are `count`, each begins where the one
// before it ended, and together they are no longer than the block, `block_s`. They may be shorter
// by any time: a busy machine takes the processor away between two readings of the clock, also
// between the block's and those of the step beside it, and no step is to blame for that.
std::string first_mistiming(const std::vector<measure::RecordedStep>& steps, std::size_t count,
                            double block_s);

// Returns the micro-batches of each of `steps` steps.
// Honest: every step has accumulation_steps. As published: the guide's scripts, whose epoch of
// 115 micro-batches per rank makes 29 steps: the training loops step after micro-batches 0, 4, 8,
// ... so their first step has one (1 + 28 x 4 = 113, the last two are never stepped); accumulate
// closes the epoch with a short window of three (28 x 4 + 3 = 115). Source:
// muellerzr/timing_experiments.
std::vector<int> window_micro_batches(int steps, int accumulation_steps, bool as_published,
                                      bool short_window_last);

// Returns where backward number `index` of a block was: "warm-up step 1, micro-batch 2".
std::string place_of_backward(int index, const std::vector<int>& warmup,
                              const std::vector<int>& windows);

}  // namespace gradsync::run
