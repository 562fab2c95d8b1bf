#include "harness/watch/judge/steps/step_parts.h"

namespace gradsync::watch {

OpSums collectives_of(const StepParts& parts, int micro_batches, int synchronized) {
  OpSums sums = parts.fixed;
  add(sums, times(micro_batches, parts.micro_batch));
  add(sums, times(synchronized, parts.synchronization));
  return sums;
}

std::optional<double> seconds_of(const StepParts& parts, int micro_batches, int synchronized) {
  if (!parts.fixed_s || !parts.micro_batch_s || !parts.synchronization_s) return std::nullopt;
  return *parts.fixed_s + micro_batches * *parts.micro_batch_s +
         synchronized * *parts.synchronization_s;
}

}  // namespace gradsync::watch
