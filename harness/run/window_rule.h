// How many micro-batches each timed step has, and in which of them something happened.
#pragma once

#include <string>
#include <vector>

namespace gradsync::run {

// Returns the micro-batches of each of `steps` steps.
// Honest: every step has accumulation_steps. As published: the guide's scripts, whose epoch of
// 115 micro-batches per rank makes 29 steps: the training loops step after micro-batches 0, 4, 8,
// ... so their first step has one (1 + 28 x 4 = 113, the last two are never stepped); accumulate
// closes the epoch with a short window of three (28 x 4 + 3 = 115). Source:
// muellerzr/timing_experiments.
std::vector<int> window_micro_batches(int steps, int accumulation_steps, bool as_published,
                                      bool short_window_last);

// "warm-up step 1, micro-batch 2": where backward number `index` of a block was.
std::string place_of_backward(int index, const std::vector<int>& warmup,
                              const std::vector<int>& windows);

}  // namespace gradsync::run
