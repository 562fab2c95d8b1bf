// The parts of a step whose micro-batches are alike, and the time of a step with other counts.
//
//   T = f + m c + s a     a step of m micro-batches, s of them synchronized
//
// f is the optimizer, a what the job waits for one synchronization, and c all the rest in equal
// parts: forward, backward, and what lies between them, such as loading data. A watched job has
// one m and one s, so that a is not fitted but seen: from when the last collective of gradients was
// issued until it was complete (counts.h, with its assumption).
#pragma once

#include <optional>

#include "harness/watch/read/op_sums.h"

namespace gradsync::watch {

struct StepParts {
  OpSums fixed;            // collectives of a step, however many micro-batches it has
  OpSums micro_batch;      // of each, whether it synchronizes or not
  OpSums synchronization;  // of each that synchronizes, besides; with the buffers it has broadcast
  std::optional<double>
      fixed_s;  // absent, as the other two: it is not known when collectives ended
  std::optional<double> micro_batch_s;
  std::optional<double> synchronization_s;
};

// Returns what a step of `micro_batches` communicates, of which `synchronized` synchronize.
inline OpSums collectives_of(const StepParts& parts, int micro_batches, int synchronized) {
  OpSums sums = parts.fixed;
  add(sums, times(micro_batches, parts.micro_batch));
  add(sums, times(synchronized, parts.synchronization));
  return sums;
}

// Returns how long it takes, by the law above; nothing where its parts are not known.
inline std::optional<double> seconds_of(const StepParts& parts, int micro_batches,
                                        int synchronized) {
  if (!parts.fixed_s || !parts.micro_batch_s || !parts.synchronization_s) return std::nullopt;
  return *parts.fixed_s + micro_batches * *parts.micro_batch_s +
         synchronized * *parts.synchronization_s;
}

}  // namespace gradsync::watch
