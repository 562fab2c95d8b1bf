// What kept a rank from computing though it could have, as the kernel counts it. A neighbour on the
// same core, or a container's quota, shows in no other number: neither is stolen time.
#pragma once

#include <optional>

#include "harness/launch/cgroup.h"

namespace gradsync::run {

// Both in seconds; nothing where the kernel does not tell.
struct CpuWaits {
  // Its control groups held tasks because their CPU quota was used up. All ranks of a group see the
  // same; up to the sum over its cores.
  std::optional<double> throttled_s;
  // The calling thread could run and waited for its core while other processes had it. This
  // process's other threads, gloo's, may have had it too: their CPU time is taken off.
  std::optional<double> queue_wait_s;
};

// Counts from its construction on, for the thread that makes it.
// Cost: some 50 us to make, as much to read.
class CpuWaitMeter {
 public:
  CpuWaitMeter();
  CpuWaits since_start() const;

 private:
  struct Reading {
    std::optional<double> throttled_s;
    std::optional<double> waited_s;  // of this thread, /proc/thread-self/schedstat
    double others_s = 0;             // CPU time of this process's other threads
  };
  Reading read() const;

  launch::Cgroups groups_;
  Reading start_;
};

}  // namespace gradsync::run
