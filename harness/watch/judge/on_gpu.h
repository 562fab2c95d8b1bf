// What a step did on the GPU of its rank. The host runs ahead of a GPU: there a step lasts from
// when the GPU had done all that was launched before the step to when it had done what was launched
// until the step's optimizer ended.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "harness/watch/judge/steps/counts.h"
#include "harness/watch/judge/steps/usual_step.h"
#include "harness/watch/read/event.h"
#include "harness/watch/read/gpu_work.h"

namespace gradsync::watch {

// The collective of a step that is exposed most.
struct MostExposed {
  std::string name;
  int number = 0;                     // from 1, in the order in which they were issued,
  int of = 0;                         // of so many of this name
  std::optional<std::int64_t> bytes;  // absent: not known
  double exposed_s = 0;
};

struct StepOnGpu {
  int steps = 0;  // how many steps' times are known; 0: all, in older files
  GpuTimes times;
  std::optional<MostExposed> most_exposed;  // absent: nothing is exposed
};

// Adds to each of a rank's steps when it ran on its GPU.
void place_on_gpu(std::vector<StepCounts>& counts, const std::optional<GpuWork>& gpu);

// Returns the usual step on the GPU of `rank`, in medians, each of its own; nothing where that is
// not known.
std::optional<StepOnGpu> usual_on_gpu(const RankEvents& rank, const UsualStep& usual);

}  // namespace gradsync::watch
