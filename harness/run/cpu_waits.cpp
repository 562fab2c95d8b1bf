#include "harness/run/cpu_waits.h"

#include <algorithm>
#include <fstream>

#include "harness/base/clock.h"

namespace gradsync::run {
namespace {

// "RAN WAITED TIMESLICES", the first two in nanoseconds.
// Source: the kernel's Documentation/scheduler/sched-stats.rst.
std::optional<double> waited_s() {
  std::ifstream file("/proc/thread-self/schedstat");
  double ran_ns = 0;
  double waited_ns = 0;
  if (file >> ran_ns >> waited_ns) return 1e-9 * waited_ns;
  return std::nullopt;
}

}  // namespace

CpuWaitMeter::CpuWaitMeter() : start_(read()) {}

CpuWaitMeter::Reading CpuWaitMeter::read() const {
  return {groups_.throttled_s(), waited_s(),
          seconds(process_processor_ns() - thread_processor_ns())};
}

CpuWaits CpuWaitMeter::since_start() const {
  const Reading now = read();
  CpuWaits waits;
  if (now.throttled_s && start_.throttled_s) {
    waits.throttled_s = std::max(0.0, *now.throttled_s - *start_.throttled_s);
  }
  if (now.waited_s && start_.waited_s) {
    const double others_s = now.others_s - start_.others_s;
    waits.queue_wait_s = std::max(0.0, *now.waited_s - *start_.waited_s - others_s);
  }
  return waits;
}

}  // namespace gradsync::run
