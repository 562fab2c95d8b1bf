// The predicted time of a step, its interval, and what it depends on.
//
// The interval covers the errors of the inputs and nothing else: compute, the links' rates and the
// host's costs may each be off by a share (1 sd). Each is moved up and down alone, and the effects
// on the step are added in squares, as independent errors. It does not cover a machine that works
// in another way than the model.
#pragma once

#include <string>
#include <vector>

#include "harness/predict/network.h"
#include "harness/predict/step_schedule.h"
#include "harness/stats/interval.h"

namespace gradsync::predict {

// Each 1 standard deviation, as a share.
struct Doubt {
  double compute = 0;
  double rate = 0;
  double host = 0;   // of what the host adds, and of latencies
  double pause = 0;  // of what an all_gather does not use of the wire
};

// How long the critical path goes through each of these: they sum to the step.
struct PathParts {
  double compute_s = 0;
  double wire_s = 0;
  double latency_s = 0;
  double host_s = 0;
};

// What another choice would save of the step; negative: it would add to it.
struct Gain {
  std::string change;
  double saved_s = 0;
};

struct Prediction {
  double step_s = 0;
  stats::Interval interval90;
  double compute_s = 0;  // of all computation, the optimizer's included
  double exposed_s = 0;  // what the step waits for the wire
  PathParts path;
  std::string limit;  // the largest part of the path, in words
  std::vector<Gain> gains;
};

Prediction predict_step(const StepModel& model, const Network& network, const StepOptions& options,
                        const Doubt& doubt);

}  // namespace gradsync::predict
