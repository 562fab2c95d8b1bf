// The holder's end of a job's turns (preload/turns_file.h): it makes their file, allows steps, and
// reads when they were taken.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "harness/launch/unique_fd.h"
#include "harness/watch/inject/preload/turns_file.h"

namespace gradsync::watch {

class Turns {
 public:
  // Makes the file in `directory`, a job's folder of events, before the job starts. No step is
  // allowed yet: each process waits at the end of its first.
  // Errors: EnvironmentError where it cannot be made.
  explicit Turns(const std::string& directory);
  // Releases all processes.
  ~Turns();
  Turns(const Turns&) = delete;
  Turns& operator=(const Turns&) = delete;

  // Lets every process take `steps` all together, counted from its start; more than before.
  void allow(std::int64_t steps);
  // Releases all processes, and those that come later.
  void free();

  // One process that came here.
  struct Taker {
    std::int64_t pid = 0;
    std::int64_t ended = 0;  // steps
    std::size_t place = 0;   // its own in the file; an unused place has no taker
  };
  // Returns those there are, in the order in which they came.
  std::vector<Taker> takers() const;

  // Returns the steps first, first + 1, ... of `taker`, which has ended them; of the latest
  // kKeptSteps.   Errors: InternalError for others.
  std::vector<TakenStep> steps(const Taker& taker, std::int64_t first, std::int64_t count) const;

  // How often a process came to the end of what it may take.
  std::uint32_t arrivals() const;
  // Blocks until there are other than `seen` of these, or for `timeout_s`, without using the CPU.
  void wait_for_arrival(std::uint32_t seen, double timeout_s) const;

 private:
  std::int64_t ended_at(std::size_t place) const;

  launch::UniqueFd fd_;  // locked
  TurnsTable* table_ = nullptr;
};

}  // namespace gradsync::watch
