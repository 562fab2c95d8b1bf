// What micro-batches exchange in backward although they do not synchronize, and so whether one
// does.
#pragma once

#include <cstdint>
#include <map>
#include <optional>

#include "harness/watch/judge/steps/reductions.h"
#include "harness/watch/judge/steps/steps.h"
#include "harness/watch/read/op_sums.h"

namespace gradsync::watch {

// By the models of a micro-batch. `steps` must outlive it.
class Quiet {
 public:
  explicit Quiet(const Steps& steps);

  // Empty where nothing is known.
  const OpSums& of(const MicroBatch& micro_batch) const;

  // Whether so much is at least half of what a synchronization of these models moves: gradients may
  // be halved on their way. Nothing where that is not known.
  std::optional<bool> is_synchronization(const Models& models, const OpSums& sums) const;

 private:
  std::optional<std::int64_t> gradient_bytes_of(const Models& models) const;
  void look_at(const Step& step);
  void offer(const Models& models, const OpSums& sums);

  const std::map<std::int64_t, std::int64_t>& gradient_bytes_;
  std::map<Models, OpSums> quiet_;
  std::map<Models, std::int64_t> most_synced_;  // collectives of one that was not told so
};

// A quiet micro-batch, or one with some quiet models, may exchange a little more than other quiet
// ones: layers can be left out.
bool synchronizes(const MicroBatch& micro_batch, const Quiet& quiet);

}  // namespace gradsync::watch
