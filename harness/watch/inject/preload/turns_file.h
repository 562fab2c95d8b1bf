// The file by which a watched job takes turns: how many optimizer steps each of its processes may
// take, and when they took those that they did.
//
// A holder (harness/watch/hold/turns.h) makes it in the job's folder of events and keeps it locked
// (flock) for as long as it lives. Each process of the job finds it there at the end of its first
// optimizer step (hold.h), takes a place in it, and waits at the end of the last step that it may
// take. Both sides map the file and are of one machine. `allowed` and `arrivals` are words to wait
// on (futex): a process that waits uses no CPU time.
#pragma once

#include <cstddef>
#include <cstdint>

namespace gradsync::watch {

inline constexpr const char* kTurnsFile = "turns";
inline constexpr char kTurnsMagic[] = "GSTURNS2";  // the digit: version of what follows
inline constexpr std::size_t kTurnsMagicBytes = 8;

inline constexpr std::uint32_t kAnySteps = UINT32_MAX;  // allowed: no process is held any more
// The file keeps so many of the latest steps of a process. Larger: longer blocks, and a larger file
// (5 MiB).
inline constexpr std::size_t kKeptSteps = 2048;
inline constexpr std::size_t kMostTakers = 64;  // processes of a job on this host

// Where the time of a step went; the rest of it is forward, data and all else.
struct StepPhases {
  std::int64_t
      backward_ns;  // of each of its backwards from the first node to the last; -1: not known
  std::int64_t between_ns;  // from the last of these nodes to the optimizer
  std::int64_t optimizer_ns;
};
inline constexpr StepPhases kPhasesNotKnown = {-1, 0, 0};

// Times are of CLOCK_MONOTONIC.
struct TakenStep {
  std::int64_t start_ns;  // when the process was released, or ended the step before; 0: not known
  std::int64_t end_ns;    // of its optimizer
  StepPhases phases;
};

// One process of the job.
struct TurnTaker {
  std::int64_t pid;             // 0: no process has this place yet
  std::int64_t ended;           // steps
  TakenStep steps[kKeptSteps];  // step n, from 0, at n % kKeptSteps
};

struct TurnsTable {
  char magic[kTurnsMagicBytes];
  std::uint32_t allowed;   // steps that each process may take, all together
  std::uint32_t arrivals;  // how often a process came to the end of what it may take
  std::uint32_t claimed;   // places taken, also those that there were none left for
  std::uint32_t unused;
  TurnTaker takers[kMostTakers];
};
static_assert(sizeof(TurnTaker) == 16 + 40 * kKeptSteps);
static_assert(sizeof(TurnsTable) == 24 + kMostTakers * sizeof(TurnTaker));

}  // namespace gradsync::watch
