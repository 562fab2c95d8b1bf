// How long a rank was kept from computing although it could have, as the kernel counts it. No other
// number shows a neighbour on the same core or a container's quota: neither is stolen time. Also:
// how a rank's own threads wait less for each other.
#pragma once

#include <map>
#include <optional>

#include "harness/launch/cgroup.h"

namespace gradsync::run {

// What the kernel counts of one thread, in seconds: computed, and could have but waited for a core.
struct ThreadTimes {
  double ran_s = 0;
  double waited_s = 0;
};

// By thread number.
using Threads = std::map<int, ThreadTimes>;

// Returns for how long, at least, a process was kept waiting for its one core by other processes
// between two readings. While a thread waits, the core belongs to another thread of the process or
// to another process, and the process's other threads cannot have had it longer than they computed:
// what a thread waited beyond that, others had. Every thread gives such a bound, and the largest
// is the nearest: a thread that always could run, as gloo's does while it polls its socket, gives
// the whole. Threads that began between the readings count from nothing. In seconds, never
// negative.
double shortest_wait_for_others_s(const Threads& before, const Threads& after);

// Both in seconds; nothing where the kernel does not tell.
struct CpuWaits {
  // Its control groups throttled tasks because their CPU quota was used up. All ranks of a group
  // see the same; up to the sum over its cores.
  std::optional<double> throttled_s;
  // This process could run and waited for its core while other processes had it: at least this
  // long.
  std::optional<double> queue_wait_s;
};

// Counts from its construction on, for this process.
// Cost: some 50 us to make, as much to read, and 10 us for each thread.
class CpuWaitMeter {
 public:
  CpuWaitMeter();
  CpuWaits since_start() const;

 private:
  launch::Cgroups groups_;
  std::optional<double> throttled_s_;
  Threads threads_;
};

// Lets a thread that wakes run at once, even while another of this process computes.
//
// Asks the scheduler for the shortest time slice (0.1 ms) for this thread and those it starts
// later. For ranks of paced models: beside a GPU, communication threads find a processor free,
// while here they share one with the thread that prepares gradients and would wait up to 3 ms for
// its slice to end. Never for real compute, whose communication shares the processor in reality
// too. Without effect before Linux 6.12; never fails. Source: sched_setattr(2), sched_runtime under
// SCHED_OTHER (EEVDF's custom slices).
void prefer_prompt_wakeups();

}  // namespace gradsync::run
