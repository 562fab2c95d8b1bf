#include "harness/run/cpu_waits.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>

namespace gradsync::run {
namespace {

// "RAN WAITED TIMESLICES", the first two in nanoseconds.
// Source: the kernel's Documentation/scheduler/sched-stats.rst.
std::optional<ThreadTimes> thread_times(const std::filesystem::path& folder) {
  std::ifstream file(folder / "schedstat");
  double ran_ns = 0;
  double waited_ns = 0;
  if (file >> ran_ns >> waited_ns) return ThreadTimes{1e-9 * ran_ns, 1e-9 * waited_ns};
  return std::nullopt;
}

// Empty where the kernel does not count. A thread that ends meanwhile is left out.
Threads own_threads() {
  Threads threads;
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/task", none)) {
    if (const auto times = thread_times(entry.path())) {
      threads[std::stoi(entry.path().filename())] = *times;
    }
  }
  return threads;
}

Threads since(const Threads& before, Threads after) {
  for (auto& [thread, times] : after) {
    const auto began = before.find(thread);
    if (began == before.end()) continue;
    times.ran_s -= began->second.ran_s;
    times.waited_s -= began->second.waited_s;
  }
  return after;
}

// The kernel's struct sched_attr, which Debian 12's C library does not declare.
struct SchedAttr {
  std::uint32_t size;
  std::uint32_t policy;  // 0: SCHED_OTHER
  std::uint64_t flags;
  std::int32_t nice;
  std::uint32_t priority;
  std::uint64_t runtime_ns;
  std::uint64_t deadline_ns;
  std::uint64_t period_ns;
};

constexpr std::uint64_t kShortestSliceNs = 100'000;

}  // namespace

double shortest_wait_for_others_s(const Threads& before, const Threads& after) {
  const Threads between = since(before, after);
  double all_ran_s = 0;
  for (const auto& [thread, times] : between) all_ran_s += times.ran_s;
  double longest_s = 0;
  for (const auto& [thread, times] : between) {
    longest_s = std::max(longest_s, times.waited_s - (all_ran_s - times.ran_s));
  }
  return longest_s;
}

CpuWaitMeter::CpuWaitMeter() : throttled_s_(groups_.throttled_s()), threads_(own_threads()) {}

CpuWaits CpuWaitMeter::since_start() const {
  CpuWaits waits;
  const auto throttled_s = groups_.throttled_s();
  if (throttled_s && throttled_s_) waits.throttled_s = std::max(0.0, *throttled_s - *throttled_s_);
  const Threads now = own_threads();
  if (!now.empty() && !threads_.empty()) {
    waits.queue_wait_s = shortest_wait_for_others_s(threads_, now);
  }
  return waits;
}

void prefer_prompt_wakeups() {
  SchedAttr attributes{};
  if (syscall(SYS_sched_getattr, 0, &attributes, sizeof attributes, 0) != 0) return;
  if (attributes.policy != 0) return;
  attributes.size = sizeof attributes;
  attributes.runtime_ns = kShortestSliceNs;
  syscall(SYS_sched_setattr, 0, &attributes, 0);
}

}  // namespace gradsync::run
