// Holds a process of a watched job at the end of an optimizer step until it is its turn. No torch.
//
// Between two optimizer steps no backward is under way: whatever this process owes its peers has
// been issued, so a job whose processes all wait there waits for nothing but its turn. Other
// threads and processes of the job (data loaders) go on. As in the recorder nothing here throws or
// prints. A process whose holder died before it could end the job is ended here: it ran for the
// holder alone, and nothing else would end it.
#pragma once

#include <pthread.h>

#include <atomic>
#include <cstdint>

#include "harness/watch/inject/preload/turns_file.h"

namespace gradsync::watch {

// Constant-initialized and never destroyed where it is a global.
class Hold {
 public:
  // Turns are taken where DIRECTORY/turns is there at the first step. Call once, before all else.
  void open(const char* directory) noexcept;

  // Notes that this process ended an optimizer step of these `phases`. Returns at once where there
  // are no turns to take or steps left; else blocks the calling thread, without using the CPU,
  // until more steps are allowed. Where the holder is gone the process gets SIGTERM, and is held no
  // more. Any thread, one after the other. Returns a sentence where there are turns but this
  // process cannot take them; else null.
  const char* step_ended(const StepPhases& phases = kPhasesNotKnown) noexcept;

  // In a child, right after fork(): it takes a place of its own at its first step.
  void after_fork() noexcept;

 private:
  const char* join() noexcept;
  void note_step(const StepPhases& phases) noexcept;
  void wait_for_turn() noexcept;
  bool holder_is_gone() const noexcept;

  char path_[1088] = {};
  pthread_mutex_t mutex_ = PTHREAD_MUTEX_INITIALIZER;
  std::atomic<bool> is_free_{false};  // there are no turns, or the holder has released it
  TurnsTable* table_ = nullptr;
  TurnTaker* taker_ = nullptr;
  std::int64_t start_ns_ = 0;  // of the step that is under way; 0: not known
};

}  // namespace gradsync::watch
