#include "harness/run/prompt_wakeups.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>

namespace gradsync::run {
namespace {

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

void prefer_prompt_wakeups() {
  SchedAttr attributes{};
  if (syscall(SYS_sched_getattr, 0, &attributes, sizeof attributes, 0) != 0) return;
  if (attributes.policy != 0) return;
  attributes.size = sizeof attributes;
  attributes.runtime_ns = kShortestSliceNs;
  syscall(SYS_sched_setattr, 0, &attributes, 0);
}

}  // namespace gradsync::run
