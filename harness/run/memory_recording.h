// What rank 0 held over one step of a trial, for pictures and traces of it.
//
// It is recorded on the CPU, where the meter sees every tensor. Recording costs time, so the step
// is one that is not timed. Under FSDP, where every unit allocates and frees memory, every trial
// records a step; under other wrappers the first trial of a cell does, if it has two warm-up steps.
// Turns of a gate do not.
#pragma once

#include <cstdint>
#include <vector>

#include "harness/measure/memory_timeline.h"
#include "harness/results/records.h"
#include "harness/run/workload.h"

namespace gradsync::run {

// Does nothing on other ranks, in other trials and on a GPU.
class MemoryRecording {
 public:
  MemoryRecording(const RankContext& context, const plan::Trial& trial);
  // Ends a recording that an exception cut off.
  ~MemoryRecording();
  MemoryRecording(const MemoryRecording&) = delete;
  MemoryRecording& operator=(const MemoryRecording&) = delete;

  // The step that the strategy will call `step` begins now, ends now.
  void begin(int step);
  void end();

  // Returns what was held, in seconds since begin(): 400 points at most, from begin() to end().
  std::vector<results::MemoryTimelinePoint> points() const;

 private:
  const Clock& clock_;
  bool wanted_;
  std::int64_t start_ns_ = 0;
  measure::CategoryBytes at_start_{};
  std::vector<measure::MemoryPoint> points_;
};

}  // namespace gradsync::run
