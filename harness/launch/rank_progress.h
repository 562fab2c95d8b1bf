// Where a rank is right now, in memory that it shares with the launcher.
//
// Written by the rank with plain relaxed stores (a nanosecond each, nothing on the wire), read by
// the launcher for progress, for the deadline of a step, and to say where a dead rank was.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

namespace gradsync::launch {

enum class Activity : std::uint32_t { Starting, Idle, Forward, Backward, Wait, Optimizer, Barrier };

struct RankProgress {
  std::atomic<std::int32_t> trial;        // order of the running trial; -1 before the first
  std::atomic<std::int32_t> step;         // steps finished in this trial, warm-up included
  std::atomic<std::int32_t> micro_batch;  // inside the step, from 0
  std::atomic<Activity> activity;
  std::atomic<std::uint32_t> collective;  // collectives started so far; 0: none yet
  std::atomic<std::uint32_t> completed;   // ... and completed
  std::atomic<std::int64_t> changed_ns;   // when the rank last changed any of these
};

// "step 3, micro-batch 2, backward, in collective #7": 1-based, for messages. A collective is named
// only while one is running: the oldest that has not completed.
std::string describe(const RankProgress& progress);

// Returns what was inherited as file descriptor `fd` (a rank), mapped for the process's lifetime.
// Errors: EnvironmentError.
RankProgress* map_rank_progress(int fd);

}  // namespace gradsync::launch
