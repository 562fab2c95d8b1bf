// Real work that a step did not have before: how a gate's self-test makes a build slower by a known
// share, to see whether the gate notices.
//
// An operation adds one to each of a few thousand numbers, through torch as all arithmetic here; a
// step gets a fixed count of them, found once for each cell. They are done by the rank's own thread
// at the end of the step, inside the clock, in phase "optimizer": where the thread would otherwise
// begin the next step. Nothing that the step waits for is under way then, so nothing hides them: a
// step that mostly waits for the link also becomes longer by the share, although its own arithmetic
// grows by much more.
//
// The cost of an operation is measured where it will be done: after a step has filled the caches,
// on a core that has just waited for the link. When operations were timed without steps between
// them, 3 % of work made steps 3.7 % longer.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "harness/run/workload.h"

namespace gradsync::run {

class ExtraWork {
 public:
  // On the CPU its memory does not come from torch, so that no peak changes; on a device it takes
  // 16 KiB.
  ExtraWork(std::int64_t operations, at::Device device);
  ExtraWork(ExtraWork&&) = default;
  ExtraWork& operator=(ExtraWork&&) = default;

  // Does operations() of them, on this thread or in the device's queue.
  void run();

  std::int64_t operations() const { return operations_; }
  // Returns how many operations run() has done so far; up to 2^24, where a float that is added to
  // stands still. Blocks until a device has done them.
  std::int64_t done() const;
  // Returns processor seconds of this thread per operation done so far; 0 before the first run().
  // On a device that is not what they cost.
  double mean_operation_s() const;

 private:
  std::int64_t operations_;
  std::int64_t spent_ns_ = 0;  // in run(), processor time
  std::vector<float> memory_;  // of the tensors, on the CPU
  at::Tensor sums_;
  at::Tensor ones_;
};

// Returns how many operations of `operation_s` take `share` of a step of `step_s`: the nearest
// whole number, 1 at least. `share`: 0.03 for 3 %.
std::int64_t operations_for(double share, double step_s, double operation_s);

// Returns the work that makes steps of `cell` longer by `share`. `workload` serves the cell and has
// settled. Collective: ranks time their steps together, then their operations together; each gets
// a count of its own. Cost: two dozen steps and some milliseconds of operations.
// Errors: as run_block.
ExtraWork calibrated_extra_work(double share, const RankContext& context, Workload& workload,
                                const plan::Cell& cell);

}  // namespace gradsync::run
