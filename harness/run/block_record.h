// What a rank records of a block of steps: times, phases and exposed communication of each timed
// step, the last one as an example, and the peaks of memory.
#pragma once

#include <vector>

#include "harness/comm/ledger.h"
#include "harness/measure/step_recorder.h"
#include "harness/results/records.h"
#include "harness/run/cpu_waits.h"
#include "harness/run/workload.h"

namespace gradsync::run {

// A finished block, as clock, ledger and kernel saw it.
struct RanBlock {
  std::vector<measure::RecordedStep> warmup;
  std::vector<measure::RecordedStep> steps;  // timed
  double block_s = 0;                        // of the timed steps, by the host's clock
  CpuWaits waits;                            // during them
  std::vector<comm::CommEvent> events;       // warm-up steps are numbered below 0
  std::vector<results::MemoryTimelinePoint> memory_timeline;
};

// Returns the record of the block that ran last, without what it left in the parameters. Peaks are
// those since the meters of memory were reset: call before anything else allocates.
results::RankRecord block_record(const RankContext& context, const plan::Cell& cell,
                                 const RanBlock& ran);

}  // namespace gradsync::run
