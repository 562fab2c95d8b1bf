// What a step computes and sends, from traces of torch.profiler's of a job under DDP on GPUs:
// enough to predict the same step, one with other synchronizations, and one on other links.
//
// On the GPU's own time line, without what it waited for collectives (watch's gpu_waits.h):
//
//   forward    from the end of the micro-batch before to what was launched when backward began
//   backward   up to the begin of each bucket's all-reduce: a layer whose gradient is that bucket
//   optimizer  what is left of the step behind the last backward
//
// A host that is slower than its GPU is in these times: the GPU then waits for it with or without
// collectives. A bucket may have been ready before its all-reduce began, where another one ran: on
// faster links the prediction is too long by that.
#pragma once

#include <vector>

#include "harness/predict/measured_collectives.h"
#include "harness/predict/step_model.h"
#include "harness/predict/step_schedule.h"
#include "harness/watch/read/event.h"

namespace gradsync::predict {

struct TracedModel {
  StepModel model;      // a layer for each bucket, of float32 elements
  StepOptions options;  // as its usual step synchronizes: a bucket for each layer
  int ranks = 0;
  // One row for each bucket, and one for the buffers of the model. Seconds of the rank that came
  // last, where the traces of several ranks are there; of one rank, its waits for others as well.
  std::vector<MeasuredCollective> collectives;
  double step_s = 0;  // that the traces hold: the median
  int steps = 0;      // of so many
};

// Returns what the usual step of the lowest rank is made of, in medians over these steps.
// Errors: ConfigError where the files hold no GPU's times, no step that synchronizes, or a wrapper
// that is not DDP.
TracedModel traced_model(const std::vector<watch::RankEvents>& processes);

}  // namespace gradsync::predict
