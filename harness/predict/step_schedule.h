// What one rank computes and sends in a step, put together from a model, a network and the way in
// which gradients are synchronized.
//
//   ddp    |-- forward --|-- backward: each bucket is sent when its last gradient is --|·wait·|
//   fsdp   gathers unit i while unit i - 1 computes, forward and backward; reduces its gradient
//          while the next one computes, one reduce at a time
//
// One collective uses the wire at a time, in the order in which they were issued: where a library
// works on two at once, they share the link, and the last byte arrives at the same time.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "harness/predict/buckets.h"
#include "harness/predict/network.h"
#include "harness/predict/schedule.h"
#include "harness/predict/step_model.h"

namespace gradsync::predict {

struct StepOptions {
  std::string wrapper = "ddp";      // as in a plan; "pipeline" is not predicted
  std::vector<bool> syncs{true};    // of each micro-batch: whether it reduces gradients
  std::int64_t gradient_bytes = 4;  // of an element on the wire
  memory::BucketLimits buckets;
  bool copies_back = true;         // ddp: reduced gradients are not views of buckets
  bool broadcasts_buffers = true;  // ddp: before a forward that follows a synchronized one
  // fsdp:
  std::int64_t parameter_bytes = 4;  // of an element that is gathered
  bool reshards_after_forward = true;
  bool reshards_after_backward = true;
  bool prefetches = true;
  bool is_hybrid = false;  // sharded inside a node, gradients summed across nodes
  // How much a rank's micro-batch varies, as a share of its mean (sd). Ranks wait for the slowest:
  // in each synchronized micro-batch, and under fsdp in every one.
  double rank_spread = 0;
};

// Returns the steady step: one like it came before, and its buckets are rebuilt.
Schedule step_schedule(const StepModel& model, const Network& network, const StepOptions& options);

}  // namespace gradsync::predict
